-- verify_records at the service: missing, different and extra claims; those left alone; corrections.
SELECT t.clean();
-- t.old_claim() makes a claim of a given age: value, source id, subject id
CREATE FUNCTION t.old_claim(cell bigint, value text, source text, subject text DEFAULT '9', age interval DEFAULT '2 hours', source_type int DEFAULT 3)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id,
          status, created_at, updated_at)
    VALUES (1, value, 2, subject, source_type, source, cell, 1, clock_timestamp() - age, clock_timestamp() - age) $$;
-- t.expect() makes expected records from value:source:subject
CREATE FUNCTION t.expect(VARIADIC parts text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', split_part(p, ':', 1)),
           'subject', jsonb_build_object('type', 'GROUP', 'id', coalesce(nullif(split_part(p, ':', 3), ''), '9')),
           'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', split_part(p, ':', 2))) ORDER BY n), '[]')
      FROM unnest(parts) WITH ORDINALITY AS u (p, n) WHERE p <> '' $$;
-- t.have_now() lists the claims; t.compare() the discrepancies
CREATE FUNCTION t.have_now() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s of cell %s: source %s %s, subject %s, status %s', bucket_value, creator_id, source_type, source_id, subject_id, status)
      FROM claims.claims ORDER BY bucket_value COLLATE "C" $$;
CREATE FUNCTION t.compare(gt text, lte text, expected jsonb, correct boolean DEFAULT false, recent interval DEFAULT '1 hour')
RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s %s: expected %s, is %s%s', discrepancy, bucket_value, coalesce(v.expected #>> '{source,rails_primary_key_id}', '-') || ':' ||
           coalesce(v.expected #>> '{subject,id}', '-'), coalesce(actual #>> '{source,rails_primary_key_id}', '-') || ':' ||
           coalesce(actual #>> '{subject,id}', '-'), coalesce(' (' || outcome || ')', ''))
      FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', gt, lte, compare.expected, recent, compare.correct) v $$;
-- claims without discrepancies
SELECT t.old_claim(1, 'a', '1'), t.old_claim(1, 'b', '2'), t.old_claim(1, 'c', '10'), t.old_claim(2, 'z', '2');
SELECT t.compare(NULL, NULL, t.expect('a:1', 'b:2', 'c:10'));
SELECT t.compare('0', '9', t.expect('a:1', 'b:2'));
SELECT t.compare('9', '10', t.expect('c:10'));
-- missing, different subject, different source, extra: reported, and nothing is changed
SELECT t.compare(NULL, NULL, t.expect('a:1:8', 'b:3', 'd:4'));
SELECT t.have_now();
-- all columns of a discrepancy, with NULL for what is unknown
SELECT discrepancy, bucket_type, bucket_value, expected, actual - 'uuid', outcome,
    actual ->> 'uuid' = (SELECT uuid::text FROM claims.claims WHERE bucket_value = 'a')
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', '0', '1', t.expect('a:1:8'));
-- bounds are compared by length, then by bytes
SELECT t.compare('1', '2', '[]');
SELECT t.compare('2', NULL, '[]');
SELECT t.compare(NULL, '2', '[]');
-- corrections update in place, so that the bucket is never free
CREATE FUNCTION t.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE NOTICE '% %', TG_OP, coalesce(NEW.bucket_value, OLD.bucket_value); RETURN NULL; END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE OR DELETE ON claims.claims FOR EACH ROW EXECUTE FUNCTION t.watch();
SELECT t.compare(NULL, NULL, t.expect('a:1:8', 'b:3', 'd:4'), true);
DROP TRIGGER watch ON claims.claims;
SELECT t.have_now();
SELECT t.compare(NULL, NULL, t.expect('a:1:8', 'b:3', 'd:4'), true);
SELECT count(*) FROM claims.check();
-- a corrected claim has a new uuid and is made now
SELECT status, created_at > clock_timestamp() - interval '1 minute', updated_at > clock_timestamp() - interval '1 minute'
  FROM claims.claims WHERE bucket_value = 'b';
-- a claim that is extra in one range and expected in another is replaced, in either order
SELECT t.clean(), t.old_claim(1, 'moved', '5');
SELECT t.compare('100', '200', t.expect('moved:150'), true);
SELECT t.compare('0', '10', '[]', true);
SELECT t.have_now();
-- a claim of another source type of the same cell is replaced
SELECT t.clean(), t.old_claim(1, 'typed', '5', source_type => 5);
SELECT t.compare('0', '10', t.expect('typed:7'), true);
SELECT t.have_now();
-- claims of another source type are not in the range
SELECT t.clean(), t.old_claim(1, 'typed', '5', source_type => 5);
SELECT t.compare(NULL, NULL, '[]', true);
-- claims younger than `recent` are left alone
SELECT t.clean(), t.old_claim(1, 'young', '1', age => '10 minutes'), t.old_claim(1, 'younger', '2', age => '1 minute');
SELECT t.compare(NULL, NULL, t.expect('young:1:8'), true);
SELECT t.compare(NULL, NULL, t.expect('young:1:8'), true, '5 minutes');
SELECT t.compare(NULL, NULL, t.expect('young:1:8'), true, '0');
SELECT t.have_now();
-- the last change of a claim counts as its age
SELECT t.clean(), t.old_claim(1, 'back', '1');
SELECT claims.rollback_update(1, claims.begin_update(1, '[]', t.destroys('back')));
SELECT t.compare(NULL, NULL, '[]', true);
-- leased claims are left alone, or in order if they are as expected
SELECT t.clean(), t.old_claim(1, 'leaving', '1'), t.old_claim(1, 'leaving too', '2');
SELECT claims.begin_update(1, t.creates('coming'), t.destroys('leaving', 'leaving too'), t.u(4501));
SELECT t.compare(NULL, NULL, t.expect('leaving:1'), true, '0');
SELECT t.compare(NULL, NULL, t.expect('coming:1:1', 'leaving:1:8', 'leaving too:2'), true, '0');
SELECT t.have_now();
SELECT claims.rollback_update(1, t.u(4501));
-- claims of another cell are reported and do not stop the others
SELECT t.clean(), t.old_claim(2, 'foreign', '1'), t.old_claim(1, 'stale', '3');
SELECT claims.begin_update(2, t.creates('foreign too'), lease_uuid => t.u(4502));
SELECT t.compare(NULL, NULL, t.expect('foreign:1', 'foreign too:2', 'own:2'), true);
SELECT t.have_now();
SELECT actual ->> 'cell_id' FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.expect('foreign:1')) WHERE outcome = 'held_by_other';
SELECT claims.rollback_update(2, t.u(4502));
-- a claim that changed since it was compared is left alone (here the first correction changes the second claim)
CREATE FUNCTION t.meanwhile(change text, expected jsonb) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM t.clean(), t.old_claim(1, 'a', '1'), t.old_claim(1, 'b', '2');
    EXECUTE format('CREATE FUNCTION t.changes() RETURNS trigger LANGUAGE plpgsql AS %L',
          format('BEGIN UPDATE claims.claims SET %s WHERE bucket_value = ''b''; RETURN NULL; END', change));
    CREATE TRIGGER changes AFTER UPDATE OR DELETE ON claims.claims FOR EACH ROW WHEN (OLD.bucket_value = 'a') EXECUTE FUNCTION t.changes();
    RETURN QUERY SELECT format('%s %s %s', discrepancy, bucket_value, outcome)
      FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, expected, '0', true);
    DROP TRIGGER changes ON claims.claims;
    DROP FUNCTION t.changes;
    RETURN QUERY SELECT t.have_now();
END $$;
SELECT change, found
  FROM unnest(ARRAY['status = 3, lease_uuid = t.u(4503)', 'uuid = t.u(4504)', 'creator_id = 2', 'status = 4, lease_uuid = t.u(4505)']) change,
    t.meanwhile(change, '[]') found;
SELECT change, found
  FROM unnest(ARRAY['status = 3, lease_uuid = t.u(4503)', 'uuid = t.u(4504)', 'creator_id = 2', 'status = 4, lease_uuid = t.u(4505)']) change,
    t.meanwhile(change, t.expect('a:1:8', 'b:2:8')) found;
DROP FUNCTION t.meanwhile;
-- extra_uuids limits which extra claims are deleted
SELECT t.clean(), t.old_claim(1, 'one', '1'), t.old_claim(1, 'two', '2');
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', correct => true,
    extra_uuids => ARRAY[(SELECT uuid FROM claims.claims WHERE bucket_value = 'two'), t.u(1), NULL]);
SELECT discrepancy FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', correct => true, extra_uuids => '{}');
SELECT t.have_now();
-- the longest values
SELECT t.clean(), t.old_claim(1, repeat('😀', 650), '1'), t.old_claim(1, repeat('é', 1024), '2');
SELECT discrepancy, length(bucket_value), outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
    t.expect(repeat('😀', 650) || ':1:8', repeat('€', 866) || ':3'), correct => true);
SELECT length(bucket_value), source_id, subject_id FROM claims.claims ORDER BY source_id;
-- corrections in a savepoint that is rolled back
SELECT t.clean(), t.old_claim(1, 'kept', '1');
BEGIN; SAVEPOINT s; SELECT t.compare(NULL, NULL, '[]', true); ROLLBACK TO s; COMMIT;
SELECT t.have_now();

-- malformed and too many expected records are refused
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '{}')$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[{"bucket": {"type": "ROUTES", "value": "x"}}]')$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.expect('x:1', 'y:1', 'x:2'))$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.expect('x:' || repeat('9', 129)))$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, (SELECT jsonb_agg(1) FROM generate_series(1, 100001)))$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'no such', NULL, NULL, '[]')$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'UNSPECIFIED', NULL, NULL, '[]')$$);
SELECT t.call($$SELECT discrepancy FROM claims.verify_records(1, '3', NULL, NULL, '[]')$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', '', NULL, '[]')$$);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, repeat('1', 129), '[]')$$);
SELECT t.call(format('SELECT * FROM claims.verify_records(%s)', array_to_string(args[:n - 1] || ARRAY['NULL'] || args[n + 1:], ', ')))
  FROM (SELECT '{1,''RAILS_TABLE_ROUTES'',"NULL","NULL",''[]'',''1 hour'',false}'::text[]) a (args), unnest('{1,2,5,6,7}'::int[]) n;
SELECT t.call($$SELECT * FROM claims.verify_records(77, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]')$$);
-- a range with more than 100,000 claims is refused
SELECT t.clean();
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
SELECT 1, i::text, 2, '1', 3, i::text, 1, 1 FROM generate_series(1, 100001) i;
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]')$$);
SELECT count(*) FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', '1', NULL, '[]');
SELECT t.clean();
-- the cell and administrators may call verify_records
SELECT t.old_claim(1, 'guarded', '1');
SET ROLE regress_claims_one;
SELECT discrepancy FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0');
SET ROLE regress_claims_two;
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true)$$);
SELECT t.call($$SELECT * FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES')$$);
SET ROLE regress_claims_admin;
SELECT discrepancy, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true);
SET ROLE regress_claims_router;
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]')$$);
RESET ROLE;
SELECT t.clean();
