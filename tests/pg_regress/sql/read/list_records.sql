-- list_records: by source type, source id and bucket, in pages and ranges.
SELECT t.clean();
-- source ids that are numbers, texts and UUIDs; several buckets for one source
CREATE TEMP TABLE wanted (stype text, sid text, btype text, value text);
INSERT INTO wanted VALUES
    ('RAILS_TABLE_ROUTES', '10', 'ROUTES', 'ten'), ('RAILS_TABLE_ROUTES', '9', 'ROUTES', 'nine'), ('RAILS_TABLE_ROUTES', '100', 'ROUTES', 'hundred'),
    ('RAILS_TABLE_ROUTES', '9', 'ROUTES', 'nine-b'), ('RAILS_TABLE_ROUTES', '9', 'ROUTES', 'Nine'),
    ('RAILS_TABLE_ROUTES', '9', 'REDIRECT_ROUTES', 'a'),
    ('RAILS_TABLE_ROUTES', '9223372036854775807', 'ROUTES', 'max'), ('RAILS_TABLE_ROUTES', '0', 'ROUTES', 'zero'),
    ('RAILS_TABLE_ROUTES', 'Z', 'ROUTES', 'big z'), ('RAILS_TABLE_ROUTES', 'a', 'ROUTES', 'small a'),
    ('RAILS_TABLE_ROUTES', 'é', 'ROUTES', 'e acute'),
    ('RAILS_TABLE_ROUTES', 'b0a1f2b4-1111-4000-8000-000000000002', 'ROUTES', 'u2'),
    ('RAILS_TABLE_ROUTES', 'b0a1f2b4-1111-4000-8000-000000000001', 'ROUTES', 'u1'),
    ('RAILS_TABLE_USERS', '500', 'USERNAMES', 'joe'), ('RAILS_TABLE_EMAILS', '1', 'EMAILS', 'joe@example.org'),
    ('RAILS_TABLE_REDIRECT_ROUTES', '1', 'REDIRECT_ROUTES', 'old');
SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object(
    'bucket', jsonb_build_object('type', btype, 'value', value), 'subject', jsonb_build_object('type', 'GROUP', 'id', 1),
    'source', jsonb_build_object('type', stype, 'id', sid)) ORDER BY md5(value)) FROM wanted)));
SELECT t.have(2, 'theirs');
SELECT claims.begin_update(1, '[]', t.destroys('ten'), t.u(1600));
SET SESSION AUTHORIZATION regress_claims_one;
SELECT source_type, source_id, bucket_type, bucket_value, subject_type, subject_id, cell_id, status, lease_uuid FROM claims.list_records(1);
SELECT source_id, bucket_value FROM claims.list_records(1, 'RAILS_TABLE_USERS');
SELECT source_id, bucket_value FROM claims.list_records(cell_id => 1, source_type => 'RAILS_TABLE_GROUPS');
SELECT count(*) FILTER (WHERE uuid IS NULL OR created_at IS NULL OR updated_at < created_at OR cursor IS NULL) FROM claims.list_records(1);
-- ranges of source ids exclude the lower bound and include the upper, in the order of the ids
SELECT array_agg(source_id) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_gt => '9', source_id_lte => '100');
SELECT array_agg(source_id) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_gt => '9');
SELECT array_agg(source_id) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_lte => '9');
SELECT array_agg(source_id) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_lte => '10');
SELECT array_agg(source_id) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_gt => '99999');
SELECT array_agg(source_id) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_gt => 'b0a1f2b4-1111-4000-8000-000000000001');
SELECT array_agg(source_id) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_gt => '100', source_id_lte => '9');
SELECT t.call($$SELECT * FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_gt => '')$$);
SELECT t.call($$SELECT * FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_lte => repeat('9', 129))$$);
SELECT t.call($$SELECT array_agg(source_type || source_id) FROM claims.list_records(1, source_id_gt => '100', source_id_lte => '500')$$);
-- pages of every size return the same rows in the same order
CREATE FUNCTION pg_temp.pages(size int, type text, gt text, lte text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE result text[] := '{}'; at text; r record; seen int;
BEGIN
    FOR page IN 1..1000 LOOP
        seen := 0;
        FOR r IN SELECT * FROM claims.list_records(1, type, at, size, gt, lte) LOOP
            result := result || (r.bucket_type || ' ' || r.bucket_value); at := r.cursor; seen := seen + 1;
        END LOOP;
        IF seen > size THEN RAISE 'a page of % has %', size, seen; END IF;
        IF seen < size THEN RETURN result; END IF;
    END LOOP;
    RAISE 'pages of % without end', size;
END $$;
SELECT count(DISTINCT pg_temp.pages(size, NULL, NULL, NULL)), min(cardinality(pg_temp.pages(size, NULL, NULL, NULL)))
  FROM generate_series(1, 20) size;
SELECT pg_temp.pages(1, NULL, NULL, NULL) = ARRAY(SELECT bucket_type || ' ' || bucket_value FROM claims.list_records(1));
SELECT count(DISTINCT pg_temp.pages(size, 'RAILS_TABLE_ROUTES', NULL, NULL)) FROM generate_series(1, 15) size;
SELECT DISTINCT pg_temp.pages(size, 'RAILS_TABLE_ROUTES', '0', '10') FROM generate_series(1, 8) size;
-- pages with the longest values and ids
RESET SESSION AUTHORIZATION;
SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object(
    'bucket', jsonb_build_object('type', 5, 'value',
      (SELECT string_agg(chr(65536 + (('x' || substr(md5(n || ' ' || m), 1, 7))::bit(28)::int % 900000)), '' ORDER BY m)
        FROM generate_series(1, 650) m)),
    'subject', jsonb_build_object('type', 'GROUP', 'id', 1),
    'source', jsonb_build_object('type', 'RAILS_TABLE_GROUPS', 'id', repeat('😀', 128)))) FROM generate_series(1, 3) n)));
SELECT count(*), count(DISTINCT bucket_value), min(char_length(bucket_value)), min(octet_length(bucket_value)), min(octet_length(source_id))
  FROM claims.list_records(1, 'RAILS_TABLE_GROUPS');
SELECT array_agg(bucket_value ORDER BY bucket_value COLLATE "C") = array_agg(bucket_value) FROM claims.list_records(1, 'RAILS_TABLE_GROUPS');
SELECT count(DISTINCT pg_temp.pages(size, 'RAILS_TABLE_GROUPS', NULL, NULL)) FROM generate_series(1, 4) size;
-- rows that stay are returned once while others come and go
CREATE TEMP TABLE seen AS SELECT * FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', max_results => 5);
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('a new one', 'zz'), jsonb_build_array(
    (SELECT jsonb_build_object('bucket', jsonb_build_object('type', bucket_type, 'value', bucket_value)) FROM seen OFFSET 4 LIMIT 1),
    jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'hundred')))));
INSERT INTO seen SELECT * FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', (SELECT cursor FROM seen OFFSET 4 LIMIT 1));
SELECT count(*), count(DISTINCT (bucket_type, bucket_value)) FROM seen;
SELECT value FROM wanted WHERE stype = 'RAILS_TABLE_ROUTES' AND value NOT IN (SELECT bucket_value FROM seen);
-- limits of max_results
SELECT count(*) FROM claims.list_records(1, max_results => 1);
SELECT t.call($$SELECT count(*) FROM claims.list_records(1, max_results => 0)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_records(1, max_results => -1)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_records(1, max_results => NULL)$$);
SELECT t.have(1, VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 990) n));
SELECT count(*) FROM claims.list_records(1);
SELECT count(*) FROM claims.list_records(1, max_results => 2000);
-- malformed cursors are refused
SELECT t.call($$SELECT * FROM claims.list_records(1, NULL, 'x')$$);
SELECT t.call($$SELECT * FROM claims.list_records(1, NULL, '')$$);
SELECT t.call($$SELECT * FROM claims.list_records(1, NULL, repeat('A', 100000))$$);
SELECT t.call($$SELECT * FROM claims.list_records(1, NULL, 'é😀')$$);
SELECT c ~ '^22023'
  FROM t.call(format('SELECT * FROM claims.list_records(1, NULL, %L)', (SELECT cursor FROM claims.list_leases(1) LIMIT 1))) c LIMIT 1;
SELECT count(*) FILTER (WHERE answer !~ '^(22023|ok)'), count(*) > 10 FROM claims.list_records(1, max_results => 1) l,
    generate_series(1, length(l.cursor)) p,
    t.call(format('SELECT count(*) FROM claims.list_records(1, NULL, %L)', overlay(l.cursor PLACING '~' FROM p FOR 1))) answer WHERE answer !~ '^ ';
-- unknown types, NULL and other cells are refused
SELECT t.call($$SELECT * FROM claims.list_records(1, 'NO_SUCH')$$);
SELECT t.call($$SELECT * FROM claims.list_records(1, 'UNSPECIFIED')$$);
SELECT t.call($$SELECT * FROM claims.list_records(NULL)$$);
SELECT t.call($$SELECT * FROM claims.list_records(77)$$);
SET SESSION AUTHORIZATION regress_claims_two;
SELECT t.call($$SELECT * FROM claims.list_records(1)$$);
SELECT bucket_value FROM claims.list_records(2);
-- list_records assigns no transaction id
BEGIN READ ONLY;
SELECT count(*) FROM claims.list_records(2);
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
RESET SESSION AUTHORIZATION;
-- the columns of list_records and their types
SELECT a.name, format_type(a.type, NULL) FROM pg_proc p, unnest(proargnames, proallargtypes, proargmodes) WITH ORDINALITY a(name, type, mode, n)
 WHERE p.pronamespace = 'claims'::regnamespace AND proname = 'list_records' AND a.mode = 't' ORDER BY n;
