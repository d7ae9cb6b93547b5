-- list_discrepancies lists the claims that verify counts. The service is in the same database.
SELECT t.clean(); DELETE FROM claims.skeletons; DELETE FROM claims.reservations; DELETE FROM claims.claimed_attributes;
CREATE TABLE t.routes (id bigint PRIMARY KEY, path text, grp int);
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_list FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_list OPTIONS (user 'postgres');
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES')$$);
INSERT INTO claims.claimed_attributes VALUES ('t.routes', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL);
CREATE FUNCTION t.found_verify(source text DEFAULT 'RAILS_TABLE_ROUTES', correct boolean DEFAULT false, recent interval DEFAULT '1 hour')
  RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(key || ' ' || value, ', ' ORDER BY n) FROM claims.verify(1, 'regress_claims_list', source, 1000, recent, correct) v,
        LATERAL json_each_text(to_json(v)) WITH ORDINALITY AS c (key, value, n) WHERE value <> '0' $$;
-- t.found_tallied() counts the list as verify does, and checks its order
CREATE FUNCTION t.found_tallied(source text DEFAULT 'RAILS_TABLE_ROUTES', recent interval DEFAULT '1 hour') RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(', ', 'missing ' || nullif(count(*) FILTER (WHERE discrepancy = 'missing'), 0),
          'different ' || nullif(count(*) FILTER (WHERE discrepancy = 'different'), 0),
                     'extra ' || nullif(count(*) FILTER (WHERE discrepancy = 'extra'), 0),
                     'held_by_other ' || nullif(count(*) FILTER (WHERE outcome = 'held_by_other'), 0),
                     'skipped ' || nullif(count(*) FILTER (WHERE outcome <> 'held_by_other'), 0),
                     CASE WHEN count(DISTINCT cursor) < count(*) THEN 'a cursor comes twice' END)
      FROM claims.list_discrepancies(1, 'regress_claims_list', source, NULL, 10000, recent) $$;
CREATE FUNCTION t.found_list(max_results int DEFAULT 100, recent interval DEFAULT '1 hour', source text DEFAULT 'RAILS_TABLE_ROUTES')
  RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(', ', source_id, discrepancy, bucket_type, quote_literal(left(bucket_value, 20)), 'cell ' || holder_cell_id, outcome)
      FROM claims.list_discrepancies(1, 'regress_claims_list', source, NULL, max_results, recent) $$;
-- t.found_paged() reads the list page by page and compares it with the whole
CREATE FUNCTION t.found_paged(size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE at text; got text[] := '{}'; page text[]; pages int := -1; whole text[];
BEGIN
    LOOP
        SELECT array_agg(concat_ws(' ', discrepancy, bucket_value, source_id, outcome)), (array_agg(cursor))[count(*)] INTO page, at
          FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', at, size);
        pages := pages + 1;
        EXIT WHEN page IS NULL;
        got := got || page;
    END LOOP;
    SELECT coalesce(array_agg(concat_ws(' ', discrepancy, bucket_value, source_id, outcome)), '{}') INTO whole
      FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', NULL, 10000);
    RETURN format('%s pages, %s', pages, CASE WHEN got = whole THEN 'the list' ELSE 'not the list: ' || got::text || ' ' || whole::text END);
END $$;
CREATE FUNCTION t.found_in_order() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM claims.claims;
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id,
          status, created_at, updated_at)
    SELECT 1, path, 2, grp, 3, id, 1, 1, clock_timestamp() - interval '2 hours', clock_timestamp() - interval '2 hours'
      FROM t.routes WHERE path IS NOT NULL;
    SELECT count(*) FROM claims.claims $$;

-- empty tables, and tables without discrepancies
SELECT t.found_list();
INSERT INTO t.routes SELECT i, 'p' || i, i % 7 FROM generate_series(-30, 3000) i;
SELECT t.found_in_order();
SELECT t.found_list(), t.found_paged(1);

-- every kind of discrepancy, and every reason to leave one alone
UPDATE claims.claims SET subject_id = '99' WHERE bucket_value IN ('p-29', 'p2999');
UPDATE claims.claims SET source_id = '77' WHERE bucket_value = 'p1502';
DELETE FROM claims.claims WHERE bucket_value IN ('p-30', 'p0', 'p1500', 'p3000', 'p40');
UPDATE claims.claims SET creator_id = 2 WHERE bucket_value = 'p7';
UPDATE claims.claims SET subject_id = '98', updated_at = clock_timestamp() WHERE bucket_value = 'p8';
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status, updated_at)
SELECT 1, 'extra ' || id, 2, '1', 3, id, 1, 1, clock_timestamp() - interval '2 hours'
  FROM unnest('{-31,1500,3001,999999999999999999999999,abc}'::text[]) id;
SELECT claims.begin_update(1, '[]', t.destroys('p5'), t.u(9801)) = t.u(9801);
UPDATE t.routes SET grp = 97 WHERE id = 5;
INSERT INTO t.routes VALUES (6001, '', 1), (6002, repeat('x', 1025), 1), (6003, 'no group', NULL), (6004, 'p9', 1), (6005, NULL, NULL);
UPDATE claims.claims SET updated_at = clock_timestamp() - interval '2 hours' WHERE bucket_value = 'p9';
SELECT claims.reserve_names('ROUTES', '{p40}', 'test');
CREATE TABLE t.before AS SELECT c.* FROM claims.claims c;
SELECT t.found_list();
SELECT t.found_list(recent => '0') LIMIT 3;
SELECT t.found_paged(1), t.found_paged(7), t.found_paged(10000);
SELECT t.found_verify() ~ t.found_tallied(), t.found_verify(recent => '0') ~ t.found_tallied(recent => '0'), t.found_verify(), t.found_tallied();
-- list_discrepancies changes and records nothing
SELECT count(*) FROM (TABLE claims.claims EXCEPT TABLE t.before) AS changed;
SELECT count(*) FROM claims.verification_positions;
SELECT count(*) FROM claims.passes WHERE kind = 'verify' AND ended_at > clock_timestamp();
-- reserved names and names of another cell are not corrected
SELECT t.found_verify(correct => true, recent => '0');
SELECT t.found_list(recent => '0');
SELECT t.found_tallied(recent => '0');
SELECT claims.unreserve_names('ROUTES', '{p40}', 'test'), claims.rollback_update(1, t.u(9801));
SELECT discrepancy, bucket_value, actual ->> 'cell_id', outcome
  FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('p40', 'p41', 'free'), '0') ORDER BY bucket_value;
DELETE FROM t.routes WHERE id > 6000;

-- two rows with one name, in one table and in two
SELECT t.found_in_order();
UPDATE t.routes SET path = 'p10' WHERE id = 11;
SELECT t.found_list(), t.found_verify() ~ t.found_tallied();
UPDATE t.routes SET path = 'p11' WHERE id = 11;
CREATE TABLE t.redirects (id int PRIMARY KEY, path varchar(100), grp int);
INSERT INTO claims.claimed_attributes VALUES ('t.redirects', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_REDIRECT_ROUTES', 'id', NULL);
DELETE FROM t.routes WHERE id = 30; INSERT INTO t.redirects VALUES (1, 'p30', 2);
SELECT t.found_list(), t.found_verify() ~ t.found_tallied();
SELECT t.found_list(source => 'RAILS_TABLE_REDIRECT_ROUTES'),
    t.found_verify('RAILS_TABLE_REDIRECT_ROUTES') ~ t.found_tallied('RAILS_TABLE_REDIRECT_ROUTES');
DELETE FROM t.redirects; INSERT INTO t.routes VALUES (30, 'p30', 2);

-- many discrepancies in a few ranges: the service has no claims
SELECT t.clean();
SELECT t.found_verify() ~ t.found_tallied(), t.found_tallied();
SELECT t.found_paged(1000), t.found_paged(997);
SELECT source_id FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', max_results => 12);
-- a discrepancy that is corrected between two pages is not on the next page
SELECT cursor AS third FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', max_results => 3) OFFSET 2 \gset
SELECT bucket_value FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', :'third', 2);
SELECT t.found_in_order(); DELETE FROM claims.claims WHERE bucket_value IN ('p1', 'p3', 'p5');
SELECT bucket_value FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', :'third', 2);
-- rows without a key, and keys that cannot be an id
CREATE TABLE t.keyless (id text, path text, grp int);
INSERT INTO claims.claimed_attributes VALUES ('t.keyless', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_PROJECTS', 'id', NULL);
INSERT INTO t.keyless VALUES (NULL, 'same', 1), (NULL, 'same', 1), ('', 'empty', 1), (repeat('k', 129), 'long', 1), ('fine', 'fine', 1);
SELECT source_id IS NULL, length(source_id), discrepancy, bucket_value, outcome
  FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_PROJECTS');
SELECT t.found_verify('RAILS_TABLE_PROJECTS') ~ t.found_tallied('RAILS_TABLE_PROJECTS');
SELECT cursor AS first FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_PROJECTS', max_results => 1) \gset
SELECT bucket_value FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_PROJECTS', :'first');

-- names that look alike
SELECT claims.add_bucket_type(120, 'LOOKS', 'username', 'reject');
CREATE TABLE t.users (id bigint PRIMARY KEY, handle text);
INSERT INTO claims.claimed_attributes VALUES ('t.users', 'handle', 'LOOKS', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', NULL);
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('paypal', 'LOOKS', 1))));
INSERT INTO t.users VALUES (1, U&'p\0430ypal'), (2, 'PayPal'), (3, 'free');
SELECT source_id, discrepancy, bucket_value, holder_cell_id, outcome
  FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_USERS', recent => '0');
SELECT t.found_verify('RAILS_TABLE_USERS', recent => '0'),
    t.found_verify('RAILS_TABLE_USERS', recent => '0') ~ t.found_tallied('RAILS_TABLE_USERS', '0');
SELECT t.found_verify('RAILS_TABLE_USERS', true, '0');
SELECT source_id, discrepancy, bucket_value, holder_cell_id, outcome
  FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_USERS', recent => '0');
SELECT discrepancy, actual #>> '{bucket,value}' AS instead, actual ->> 'cell_id', outcome
  FROM claims.verify_records(1, 'RAILS_TABLE_USERS', NULL, '1', jsonb_build_array(t.claim(U&'p\0430ypal', 'LOOKS')), '0');
-- a look-alike that a lease holds is reported as leased
SELECT claims.begin_update(2, '[]', '[{"bucket": {"type": "LOOKS", "value": "paypal"}}]', t.u(9802)) = t.u(9802);
SELECT source_id, discrepancy, outcome FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_USERS', recent => '0');
SELECT claims.commit_update(2, t.u(9802));
SELECT source_id, discrepancy, bucket_value, outcome FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_USERS', recent => '0');
-- a look-alike of the row's own old name takes two corrections
DELETE FROM t.users WHERE id = 2;
SELECT t.found_verify('RAILS_TABLE_USERS', true, '0');
UPDATE t.users SET handle = 'paypal' WHERE id = 1;
SELECT source_id, discrepancy, bucket_value, outcome FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_USERS', recent => '0');
SELECT t.found_verify('RAILS_TABLE_USERS', true, '0');
SELECT t.found_verify('RAILS_TABLE_USERS', true, '0');
SELECT t.found_verify('RAILS_TABLE_USERS', recent => '0');

-- invalid arguments are refused
SELECT t.call(format('SELECT * FROM claims.list_discrepancies(%s)', array_to_string(args[:n - 1] || ARRAY['NULL'] || args[n + 1:], ', ')))
  FROM (SELECT '{1,''regress_claims_list'',''RAILS_TABLE_ROUTES'',"NULL",100,''1 hour''}'::text[]) a (args), unnest('{1,2,3,5,6}'::int[]) n;
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'no such')$$);
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', 'nonsense')$$);
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', max_results => 0)$$);
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', max_results => 10001)$$);
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES', recent => '-1 s')$$);
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'no_such_server', 'RAILS_TABLE_ROUTES')$$);
SELECT t.call($$SELECT * FROM claims.list_discrepancies(77, 'regress_claims_list', 'RAILS_TABLE_ROUTES')$$);
-- REPEATABLE READ is refused; READ ONLY works
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES')$$);
ROLLBACK;
BEGIN READ ONLY; SELECT count(*) FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES'); COMMIT;
-- the cell and administrators may list; others may not
SET SESSION AUTHORIZATION regress_claims_two;
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES')$$);
SET SESSION AUTHORIZATION regress_claims_router;
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES')$$);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT count(*) FROM claims.list_discrepancies(1, 'regress_claims_list', 'RAILS_TABLE_ROUTES');
RESET SESSION AUTHORIZATION;
SET client_min_messages = warning;
DELETE FROM claims.claimed_attributes;
DROP TABLE t.routes, t.redirects, t.keyless, t.users, t.before;
DROP FUNCTION t.found_verify, t.found_tallied, t.found_list, t.found_paged, t.found_in_order;
DROP SERVER regress_claims_list CASCADE;
RESET client_min_messages;
DELETE FROM claims.skeletons;
SELECT t.clean();
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
