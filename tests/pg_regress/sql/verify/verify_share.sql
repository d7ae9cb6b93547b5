-- begin_verification and verify_share: one verification by several workers. The service is in the same database.
SELECT t.clean();
DELETE FROM claims.expiring_claims;
CREATE TABLE t.routes (id bigint PRIMARY KEY, path text, grp int);
SELECT t.call($$SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES')$$);
INSERT INTO claims.claimed_attributes VALUES ('t.routes', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL);
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_share FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_share OPTIONS (user 'postgres');
CREATE FUNCTION t.as_called_for() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM claims.claims;
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id,
          status, created_at, updated_at)
    SELECT 1, path, 2, grp, 3, id, 1, 1, clock_timestamp() - interval '2 hours', clock_timestamp() - interval '2 hours'
      FROM t.routes WHERE path IS NOT NULL;
    SELECT count(*) FROM claims.claims $$;
CREATE FUNCTION t.spoil() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM claims.claims WHERE bucket_value IN ('p-30', 'p0', 'p1500', 'p3000');
    UPDATE claims.claims SET subject_id = '99' WHERE bucket_value IN ('p-29', 'p1', 'p1501', 'p2999');
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status, updated_at)
    SELECT 1, 'extra ' || id, 2, '1', 3, id, 1, 1, now() - interval '2 hours'
      FROM unnest('{-31,-30,1500,3001,999999999999999999999999,abc}'::text[]) id $$;
-- t.share() makes a worker's call and shows the counts that are not zero
CREATE TABLE t.shares (at serial, worker text, checked bigint, missing bigint, different bigint, extra bigint, corrected bigint,
      held_by_other bigint, skipped bigint, in_hand boolean, finished boolean);
CREATE FUNCTION t.share(worker text, batch int DEFAULT 10, hold_for interval DEFAULT '1 minute') RETURNS text LANGUAGE sql AS $$
    WITH call AS (SELECT v.* FROM claims.verify_share((SELECT pass FROM claims.verification_passes ORDER BY pass DESC LIMIT 1), worker,
        'regress_claims_share', batch, '1 hour', hold_for) v),
         kept AS (INSERT INTO t.shares SELECT nextval('t.shares_at_seq'), share.worker, call.* FROM call)
    SELECT coalesce(string_agg(key || ' ' || value, ', ' ORDER BY n), 'nothing')
      FROM call, LATERAL json_each_text(to_json(call)) WITH ORDINALITY AS c (key, value, n) WHERE value NOT IN ('0', 'false') $$;
-- t.all_share() lets all workers call in turn until each was told the end
CREATE PROCEDURE t.all_share(VARIADIC workers text[]) LANGUAGE plpgsql AS $$
DECLARE calls int := 0; heard int := 0; worker text;
BEGIN
    WHILE heard < cardinality(workers) AND calls < 1000 LOOP
        heard := 0;
        FOREACH worker IN ARRAY workers LOOP
            calls := calls + 1;
            IF t.share(worker) LIKE '%finished true' THEN heard := heard + 1; END IF;
            COMMIT;
        END LOOP;
    END LOOP;
END $$;
CREATE FUNCTION t.total() RETURNS text LANGUAGE sql AS $$
    SELECT format('checked %s, missing %s, different %s, extra %s, corrected %s, skipped %s; workers with a share: %s', sum(checked), sum(missing),
          sum(different), sum(extra), sum(corrected), sum(skipped), count(DISTINCT worker) FILTER (WHERE checked > 0)) FROM t.shares $$;
CREATE VIEW t.hands AS SELECT number, coalesce(source_id_gt, 'beginning') AS above, coalesce(source_id_lte, 'end') AS up_to, worker, held
  FROM claims.verification_workers ORDER BY pass, number;
-- empty tables: one range without end
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IS NOT NULL;
SELECT t.share('a');
SELECT * FROM t.hands;
SELECT t.share('a');
SELECT * FROM t.hands;
SELECT t.share('a'), t.share('b');
SELECT count(*) FROM claims.expiring_claims;
-- each worker gets one range at a time, and a taken range counts once the taking call has ended
INSERT INTO t.routes SELECT i, 'p' || i, i % 7 FROM generate_series(-30, 3000) i;
SELECT t.as_called_for();
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') = claims.begin_verification(1, '3') AS joins;
SELECT t.share('a');
SELECT t.share('b');
SELECT * FROM t.hands;
SELECT t.share('a');
SELECT * FROM t.hands;
-- a call that is rolled back takes nothing
BEGIN; SELECT t.share('a'); SELECT * FROM t.hands; ROLLBACK;
SELECT * FROM t.hands;
-- a silent worker's range is taken over; when it returns it takes another range
UPDATE claims.expiring_claims SET expires_at = clock_timestamp() - interval '1 s' WHERE claimant = 'a';
SELECT * FROM t.hands;
SELECT t.share('b');
SELECT * FROM t.hands;
SELECT t.share('a');
SELECT * FROM t.hands;
TRUNCATE t.shares;
CALL t.all_share('a', 'b', 'c');
-- all ranges together are checked once (190 + 160 records before this)
SELECT t.total();
SELECT count(*) FROM claims.expiring_claims;
SELECT count(*) FROM claims.verification_ranges;
SELECT ranges, divided, divided_up_to, finished_at IS NOT NULL FROM claims.verification_passes ORDER BY pass DESC LIMIT 1;
-- each row is read once, whatever the number of workers
CREATE TABLE t.looks (id bigint);
CREATE FUNCTION t.count_look(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t.looks VALUES (id); RETURN true; END $$;
UPDATE claims.claimed_attributes SET condition = 't.count_look(id)';
TRUNCATE t.shares;
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IS NOT NULL;
CALL t.all_share('a', 'b', 'c');
SELECT t.total();
SELECT count(*), min(n), max(n) FROM (SELECT count(*) AS n FROM t.looks GROUP BY id) l;
UPDATE claims.claimed_attributes SET condition = NULL;
-- discrepancies are found and corrected as by verify; a reporting and a correcting pass are two passes
SELECT t.spoil();
SELECT missing, different, extra, corrected, finished FROM claims.verify(1, 'regress_claims_share', 'RAILS_TABLE_ROUTES', 10);
TRUNCATE t.shares;
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') <> claims.begin_verification(1, 'RAILS_TABLE_ROUTES', true) AS two;
SELECT correct, finished_at IS NULL FROM claims.verification_passes ORDER BY pass DESC LIMIT 2;
CALL t.all_share('a', 'b');
SELECT t.total();
SELECT missing, different, extra, corrected, finished FROM claims.verify(1, 'regress_claims_share', 'RAILS_TABLE_ROUTES');
-- the reporting pass is still open for workers
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IN (SELECT pass FROM claims.verification_passes WHERE finished_at IS NULL) AS under_way;
-- max_runtime: done work is kept, the rest stays with the worker, and its hold is renewed
SET debug_discard_caches = 0; -- a call works for so many seconds
TRUNCATE t.shares;
CREATE SEQUENCE t.looks_at_5;
CREATE FUNCTION t.slow(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF id = 5 AND nextval('t.looks_at_5') = 2 THEN
        PERFORM pg_sleep(6.2);
    END IF;
    RETURN true;
END $$;
SELECT t.as_called_for(); DELETE FROM claims.claims WHERE bucket_value IN ('p5', 'p60', 'p120');
DELETE FROM claims.verification_passes;
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES', true) IS NOT NULL;
SELECT t.share('a');
UPDATE claims.claimed_attributes SET condition = 't.slow(id)';
UPDATE claims.expiring_claims SET expires_at = clock_timestamp() + interval '12 s';
SELECT t.share('a');
UPDATE claims.claimed_attributes SET condition = NULL;
SELECT source_id_gt::int < 130, source_id_lte, worker, held, expires_at > clock_timestamp() + interval '30 s'
  FROM claims.verification_workers ORDER BY number;
-- the next worker continues there
UPDATE claims.expiring_claims SET expires_at = clock_timestamp() - interval '1 s';
SELECT t.share('b');
SELECT t.share('b') LIKE 'checked %, in_hand true';
SELECT number, worker FROM claims.verification_workers ORDER BY number;
CALL t.all_share('a', 'b');
SELECT t.total();
-- a hold that expires before a correction: nothing is corrected or recorded
CREATE SEQUENCE t.looks_at_60;
CREATE FUNCTION t.falls_silent(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    IF id = 60 AND nextval('t.looks_at_60') = current_setting('t.at_look')::int THEN
        UPDATE claims.expiring_claims SET expires_at = clock_timestamp() - interval '1 s' WHERE claimant = 'a';
    END IF;
    RETURN true; END $$;
SELECT t.as_called_for(); DELETE FROM claims.claims WHERE bucket_value = 'p60';
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES', true) IS NOT NULL;
SELECT t.share('a', 1000);
UPDATE claims.claimed_attributes SET condition = 't.falls_silent(id)';
SET t.at_look = 3;
SELECT t.share('a', 1000);
SELECT last_value FROM t.looks_at_60;
SELECT count(*) FROM claims.get_record('ROUTES', 'p60');
-- the worker took the same range again, for no other wanted it
SELECT number, source_id_gt, worker, held FROM claims.verification_workers ORDER BY number;
-- a hold that expires before the range is recorded as in order
SELECT t.share('a', 1000); SELECT t.as_called_for();
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES', true) IS NOT NULL;
SELECT t.share('a', 1000);
SELECT setval('t.looks_at_60', 1, false);
SET t.at_look = 1;
SELECT t.share('a', 1000);
SELECT number, source_id_gt, worker, held FROM claims.verification_workers ORDER BY number;
UPDATE claims.claimed_attributes SET condition = NULL;
SELECT t.share('a', 1000);
RESET debug_discard_caches;
-- two sessions with one worker name: the second cannot record what the first has done
SELECT t.as_called_for();
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IS NOT NULL;
SELECT t.share('a');
CREATE FUNCTION t.namesake(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF id = 60 THEN
        UPDATE claims.verification_ranges SET source_id_gt = '100';
    END IF;
    RETURN true;
END $$;
UPDATE claims.claimed_attributes SET condition = 't.namesake(id)';
SELECT t.share('a');
UPDATE claims.claimed_attributes SET condition = NULL;
SELECT number, source_id_gt, worker FROM claims.verification_workers ORDER BY number;
-- an interrupted worker has a key without a range, and takes another range
INSERT INTO claims.expiring_claims SELECT 'claims.verify ' || pass, '999', 'b', 1, now(), now(), now() + interval '1 hour'
  FROM claims.verification_passes WHERE finished_at IS NULL;
SELECT t.share('b');
CALL t.all_share('a', 'b');
DELETE FROM claims.expiring_claims;
-- a source type that is not declared any more is an error, and the pass stays
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IS NOT NULL;
SELECT t.share('a');
DELETE FROM claims.claimed_attributes;
SELECT t.call($$SELECT t.share('a')$$);
SELECT t.call($$SELECT t.share('b')$$);
INSERT INTO claims.claimed_attributes VALUES ('t.routes', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL);
SELECT t.share('a');
-- finished passes are deleted after a day; open ones stay
UPDATE claims.verification_passes SET finished_at = finished_at - interval '2 days', begun_at = begun_at - interval '2 days';
SELECT count(*) > 0 FROM claims.verification_passes WHERE finished_at IS NOT NULL;
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IS NOT NULL;
SELECT count(*) FROM claims.verification_passes WHERE finished_at IS NOT NULL;
SELECT count(*) FROM claims.verification_passes;
SELECT t.call($$SELECT * FROM claims.verify_share('00000000-0000-4000-8000-000000000001', 'a', 'regress_claims_share')$$);
-- rows that cannot be claimed are reported
CALL t.all_share('a');
INSERT INTO t.routes VALUES (6001, '', 1);
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IS NOT NULL;
SELECT t.share('a', 10000); SELECT t.share('a', 10000);
DELETE FROM t.routes WHERE id = 6001;
-- REPEATABLE READ and read-only transactions are refused
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') IS NOT NULL;
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT t.call($$SELECT t.share('a')$$); ROLLBACK;
BEGIN READ ONLY; SELECT t.call($$SELECT * FROM claims.verify_share('00000000-0000-4000-8000-000000000001', 'a', 'regress_claims_share')$$); ROLLBACK;
BEGIN READ ONLY; SELECT t.call($$SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES')$$); ROLLBACK;
-- invalid arguments are refused
SELECT t.call(format('SELECT * FROM claims.verify_share(%s)', array_to_string(args[:n - 1] || ARRAY['NULL'] || args[n + 1:], ', ')))
  FROM (SELECT ARRAY[quote_literal(pass), '''a''', '''regress_claims_share''', '10', '''1 hour''', '''1 minute''']
    FROM claims.verification_passes WHERE finished_at IS NULL) a (args), generate_series(1, 6) n;
SELECT t.call(format('SELECT claims.begin_verification(%s)', array_to_string(args[:n - 1] || ARRAY['NULL'] || args[n + 1:], ', ')))
  FROM (SELECT '{1,''RAILS_TABLE_ROUTES'',false}'::text[]) a (args), generate_series(1, 3) n;
SELECT t.call($$SELECT t.share('a', 0)$$);
SELECT t.call($$SELECT t.share('')$$);
SELECT t.call($$SELECT t.share(repeat('x', 129))$$);
SELECT t.call($$SELECT t.share('a', 10, '0')$$);
SELECT t.call($$SELECT claims.begin_verification(1, 'no such')$$);
SELECT t.call($$SELECT claims.begin_verification(77, 'RAILS_TABLE_ROUTES')$$);
SELECT t.share('a');
SELECT t.call($$SELECT * FROM claims.verify_share((SELECT pass FROM claims.verification_passes ORDER BY pass DESC LIMIT 1), 'a', 'no such')$$);
-- the application's role needs no privileges on table or claims, and cannot join another cell's pass
SELECT pass AS pass FROM claims.verification_passes WHERE finished_at IS NULL \gset
SET ROLE regress_claims_one;
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES') = :'pass';
SELECT * FROM claims.verify_share(:'pass', 'a', 'regress_claims_share', 10000);
SELECT * FROM claims.verify_share(:'pass', 'a', 'regress_claims_share', 10000);
SELECT t.call($$SELECT claims.begin_verification(2, 'RAILS_TABLE_ROUTES')$$);
SELECT t.call($$SELECT * FROM claims.verification_passes$$);
SET ROLE regress_claims_two;
SELECT t.call(format($$SELECT * FROM claims.verify_share(%L, 'a', 'regress_claims_share')$$, :'pass'));
SET ROLE regress_claims_nobody;
SELECT t.call(format($$SELECT * FROM claims.verify_share(%L, 'a', 'regress_claims_share')$$, :'pass'));
SELECT t.call($$SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES')$$);
RESET ROLE;
-- passes and ranges are not dumped, as the holds on ranges are not
SELECT c.oid::regclass, condition FROM pg_extension e, unnest(extconfig, extcondition) u(oid, condition) JOIN pg_class c ON c.oid = u.oid
 WHERE extname = 'claims' AND relname IN ('verification_passes', 'verification_ranges', 'expiring_claims') ORDER BY relname;
SET client_min_messages = warning;
DELETE FROM claims.claimed_attributes;
DELETE FROM claims.verification_passes;
DELETE FROM claims.verification_ranges;
DELETE FROM claims.expiring_claims;
DROP VIEW t.hands; DROP PROCEDURE t.all_share(text[]);
DROP TABLE t.routes, t.shares, t.looks; DROP SEQUENCE t.looks_at_5, t.looks_at_60;
DROP SERVER regress_claims_share CASCADE;
RESET client_min_messages;
SELECT t.clean();
