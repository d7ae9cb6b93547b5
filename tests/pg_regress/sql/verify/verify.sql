-- verify in a cell, with a service in the same database.
SELECT t.clean();
CREATE TABLE t.routes (id bigint PRIMARY KEY, path text, grp int);
SELECT t.call($$SELECT * FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES')$$);
INSERT INTO claims.claimed_attributes VALUES ('t.routes', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL);
SELECT t.call($$SELECT * FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES')$$);
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_verify FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
SELECT t.call($$SELECT * FROM claims.verify(1, 'dbname=postgres', 'RAILS_TABLE_ROUTES')$$);
CREATE USER MAPPING FOR postgres SERVER regress_claims_verify OPTIONS (user 'postgres');
-- t.verify() calls verify and shows the counts that are not zero
CREATE FUNCTION t.verify(correct boolean DEFAULT false, recent interval DEFAULT '1 hour', batch int DEFAULT 10,
      source text DEFAULT 'RAILS_TABLE_ROUTES', max_runtime interval DEFAULT NULL)
RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(key || ' ' || value, ', ' ORDER BY n)
      FROM claims.verify(1, 'regress_claims_verify', source, batch, recent, correct, max_runtime) v,
        LATERAL json_each_text(to_json(v)) WITH ORDINALITY AS c (key, value, n) WHERE value <> '0' $$;
-- t.in_order() makes the claims that the rows need, two hours old
CREATE FUNCTION t.in_order() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM claims.claims;
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id,
          status, created_at, updated_at)
    SELECT 1, path, 2, grp, 3, id, 1, 1, clock_timestamp() - interval '2 hours', clock_timestamp() - interval '2 hours'
      FROM t.routes WHERE path IS NOT NULL;
    SELECT count(*) FROM claims.claims $$;
CREATE FUNCTION t.claims_of(VARIADIC vals text[]) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s: cell %s, source %s, subject %s, status %s', bucket_value, creator_id, source_id, subject_id, status)
      FROM claims.claims WHERE bucket_value = ANY (vals) ORDER BY bucket_value COLLATE "C" $$;
-- empty tables on both sides
SELECT t.verify();
-- claims without discrepancies
INSERT INTO t.routes SELECT i, 'p' || i, i % 7 FROM generate_series(-30, 3000) i;
SELECT t.in_order();
SELECT t.verify(), t.verify(correct => true);
SELECT t.verify(batch => 1), t.verify(batch => 10000);
-- missing, different and extra claims at both ends and in the middle
CREATE FUNCTION t.damage() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM claims.claims WHERE bucket_value IN ('p-30', 'p0', 'p1500', 'p3000');
    UPDATE claims.claims SET subject_id = '99' WHERE bucket_value IN ('p-29', 'p1', 'p1501', 'p2999');
    UPDATE claims.claims SET source_id = '77' WHERE bucket_value IN ('p1502');
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status, updated_at)
    SELECT 1, 'extra ' || id, 2, '1', 3, id, 1, 1, now() - interval '2 hours'
      FROM unnest('{-31,-30,1500,3001,999999999999999999999999,abc,01,é}'::text[]) id $$;
SELECT t.damage();
SELECT t.verify();
SELECT t.verify(correct => true, batch => 1000);
SELECT t.verify();
SELECT count(*) FROM claims.check() WHERE problem NOT IN ('capture trigger does not fire', 'event trigger does not fire');
-- claims with source ids that no claimed column can have stay
SELECT t.claims_of('extra abc', 'extra é', 'extra 01', 'extra 999999999999999999999999', 'extra 3001');
SELECT t.in_order(), t.damage();
SELECT t.verify(correct => true, batch => 1);
SELECT t.verify();
-- corrected claims are recent, and are left alone until they are older
SELECT t.in_order(), t.damage();
SELECT t.verify(correct => true);
UPDATE t.routes SET grp = 98 WHERE id = 1500;
SELECT t.verify(correct => true);
SELECT t.verify(correct => true, recent => '0');
SELECT t.claims_of('p1500');
-- leased claims are left alone
SELECT t.in_order();
SELECT claims.begin_update(1,
      '[{"bucket": {"type": "ROUTES", "value": "new"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1234}}]',
      t.destroys('p5'), t.u(4601));
DELETE FROM t.routes WHERE id = 6; UPDATE t.routes SET grp = 97 WHERE id = 5;
SELECT t.verify(correct => true, recent => '0');
SELECT t.claims_of('new', 'p5', 'p6');
SELECT claims.rollback_update(1, t.u(4601));
SELECT t.verify(correct => true, recent => '0');
-- claims of another cell are reported each time, and the others are corrected
SELECT t.in_order();
UPDATE claims.claims SET creator_id = 2 WHERE bucket_value IN ('p7', 'p8'); DELETE FROM claims.claims WHERE bucket_value = 'p9';
SELECT t.verify(), t.verify(correct => true);
SELECT t.verify(correct => true);
SELECT t.claims_of('p7', 'p9');
-- swapped and moved names are corrected without being free in between
SELECT t.in_order();
UPDATE t.routes SET path = CASE id WHEN 10 THEN 'p2500' ELSE 'p10' END WHERE id IN (10, 2500);
DELETE FROM t.routes WHERE id = 20; UPDATE t.routes SET path = 'p20' WHERE id = 2600; INSERT INTO t.routes VALUES (5000, 'p2600', 1);
DELETE FROM t.routes WHERE id = 2700; UPDATE t.routes SET path = 'p2700' WHERE id = 3;
CREATE TABLE t.deleted (bucket text);
CREATE FUNCTION t.must_stay() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO t.deleted VALUES (OLD.bucket_value);
    RETURN NULL;
END $$;
CREATE TRIGGER must_stay AFTER DELETE ON claims.claims FOR EACH ROW EXECUTE FUNCTION t.must_stay();
SELECT t.verify();
SELECT t.verify(correct => true);
SELECT t.claims_of('p10', 'p2500', 'p20', 'p2600', 'p2700', 'p3');
SELECT * FROM t.deleted;
SELECT t.verify();
DROP TRIGGER must_stay ON claims.claims;
-- a bucket that a table of another source type has is not extra
CREATE TABLE t.redirects (id int PRIMARY KEY, path varchar(100), grp int);
INSERT INTO claims.claimed_attributes VALUES ('t.redirects', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_REDIRECT_ROUTES', 'id', NULL);
SELECT t.in_order();
DELETE FROM t.routes WHERE id = 30; INSERT INTO t.redirects VALUES (1, 'p30', 2);
SELECT t.verify(), t.verify(source => 'RAILS_TABLE_REDIRECT_ROUTES');
SELECT t.verify(correct => true);
SELECT t.verify(), t.verify(source => 'RAILS_TABLE_REDIRECT_ROUTES');
-- two rows with one bucket: the claim stays with the row that has it
SELECT t.in_order();
INSERT INTO t.redirects VALUES (2, 'p40', 1); INSERT INTO t.routes VALUES (6000, 'p41', 1); UPDATE t.routes SET path = 'p2990' WHERE id = 2991;
DELETE FROM t.redirects WHERE id = 1;
SELECT t.verify(correct => true), t.verify(correct => true, source => 'RAILS_TABLE_REDIRECT_ROUTES');
SELECT t.claims_of('p40', 'p41', 'p2990');
DELETE FROM t.redirects; DELETE FROM t.routes WHERE id = 6000; UPDATE t.routes SET path = 'p2991' WHERE id = 2991;
-- rows that cannot be claimed are reported and do not stop the others
SELECT t.in_order();
INSERT INTO t.routes VALUES (6001, '', 1), (6002, repeat('x', 1025), 1), (6003, 'no group', NULL), (6004, 'fine', 1), (6005, NULL, NULL);
SELECT t.verify(correct => true);
SELECT t.verify(correct => true);
DELETE FROM t.routes WHERE id > 6000;
-- an empty local table: all claims are extra
SELECT t.in_order();
DELETE FROM t.routes;
SELECT t.verify();
SELECT t.verify(correct => true);
SELECT count(*) FROM claims.claims;
-- a service without claims: all are missing
INSERT INTO t.routes SELECT i, 'p' || i, i % 7 FROM generate_series(-30, 3000) i;
SELECT t.verify(correct => true);
SELECT t.verify();
-- a source type without declared columns is an error
SELECT t.call($$SELECT * FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_USERS', correct => true)$$);
-- max_runtime: the next call continues, and the call after the end starts anew
SELECT t.in_order(), t.damage();
CREATE TABLE t.steps (n int, result text, source_id text);
DO $$ DECLARE k int := 0; r text; BEGIN
    LOOP
        k := k + 1;
        r := t.verify(correct => true, batch => 10, max_runtime => '0');
        INSERT INTO t.steps VALUES (k, r, (SELECT p.source_id FROM claims.verification_progress p));
        EXIT WHEN k > 1000 OR r LIKE '%finished true';
    END LOOP;
END $$;
SELECT result, source_id FROM t.steps WHERE n <= 3 ORDER BY n;
SELECT max(n) BETWEEN 5 AND 100, (array_agg(result ORDER BY n DESC))[1], count(DISTINCT source_id) = count(source_id) FROM t.steps;
SELECT t.verify();
SELECT count(*) FROM claims.verification_progress;
-- a position belongs to a cell and a source type, and verification_progress shows it
SELECT t.verify(max_runtime => '0');
SELECT cell_id, source_type, running, pid, checked, source_id, stopped_at > now() - interval '1 minute' FROM claims.verification_progress;
SELECT t.verify(source => 'RAILS_TABLE_REDIRECT_ROUTES', max_runtime => '0');
SELECT cell_id, source_type, running, source_id FROM claims.verification_progress;
-- a position is rolled back with its transaction
BEGIN; SELECT t.verify(max_runtime => '0'); SELECT source_id FROM claims.verification_progress; ROLLBACK;
SELECT source_id FROM claims.verification_progress;
SELECT t.verify(max_runtime => '1 month 1 day');
SELECT count(*) FROM claims.verification_progress;
-- a running verification shows its progress in pg_stat_activity, and code of a table's owner no view of it
CREATE TABLE t.shown (at serial, line text);
CREATE FUNCTION t.look(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    IF id IN (700, 2000) THEN
        INSERT INTO t.shown (line) SELECT concat(a.query, '; rows ', (SELECT count(*) FROM claims.verification_progress))
          FROM pg_stat_activity a WHERE a.pid = pg_backend_pid();
    END IF;
    RETURN true; END $$;
ANALYZE t.routes;
UPDATE claims.claimed_attributes SET condition = 't.look(id)' WHERE table_name = 't.routes'::regclass;
SELECT t.in_order();
DELETE FROM claims.claims WHERE bucket_value = 'p100';
SELECT t.verify();
SELECT DISTINCT line FROM t.shown ORDER BY 1;
-- the client's statement is shown again afterwards
SELECT query LIKE 'SELECT query%' FROM pg_stat_activity WHERE pid = pg_backend_pid();
DO $$
BEGIN
    PERFORM t.verify();
    PERFORM pg_stat_clear_snapshot();
    PERFORM 1 FROM pg_stat_activity WHERE pid = pg_backend_pid() AND query LIKE 'claims.verify%';
    IF FOUND THEN
        RAISE 'still shown';
    END IF;
END $$;
SELECT count(*) FROM claims.verification_progress;
-- the client's statement is shown again after an error
DO $$ BEGIN
    UPDATE claims.claimed_attributes SET condition = 'id / 0 = 1' WHERE table_name = 't.routes'::regclass;
    BEGIN PERFORM t.verify(); EXCEPTION WHEN division_by_zero THEN RAISE NOTICE '%', SQLERRM; END;
    PERFORM pg_stat_clear_snapshot();
    PERFORM 1 FROM pg_stat_activity WHERE pid = pg_backend_pid() AND query LIKE 'claims.verify%';
    IF FOUND THEN RAISE 'still shown';
    END IF;
END $$;
-- a statement that looks like a verification's has no progress
/* */ SELECT count(*) FROM claims.running_verifications();
-- rows with a false condition have no claim
UPDATE claims.claimed_attributes SET condition = 'grp <> 3' WHERE table_name = 't.routes'::regclass;
SELECT t.in_order();
SELECT t.verify(), (SELECT count(*) FROM t.routes WHERE grp = 3);
UPDATE claims.claimed_attributes SET condition = NULL WHERE table_name = 't.routes'::regclass;
-- REPEATABLE READ (an old snapshot would restore deleted claims) and read-only transactions are refused
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT t.call($$SELECT t.verify()$$); ROLLBACK;
BEGIN READ ONLY; SELECT t.call($$SELECT t.verify()$$); ROLLBACK;
-- a rolled-back verify keeps its corrections at the service
SELECT t.in_order(); DELETE FROM claims.claims WHERE bucket_value = 'p50';
BEGIN; SELECT t.verify(correct => true); ROLLBACK;
SELECT t.claims_of('p50');
-- a correction leaves no lock on the local row
DELETE FROM claims.claims WHERE bucket_value = 'p51';
BEGIN; SELECT t.verify(correct => true); SELECT xmax = 0 OR pg_xact_status(xmax::text::xid8) = 'aborted' FROM t.routes WHERE id = 51; COMMIT;
-- invalid arguments are refused
SELECT t.call(format('SELECT * FROM claims.verify(%s)', array_to_string(args[:n - 1] || ARRAY['NULL'] || args[n + 1:], ', ')))
  FROM (SELECT '{1,''regress_claims_verify'',''RAILS_TABLE_ROUTES'',10,''1 hour'',false}'::text[]) a (args), generate_series(1, 6) n;
SELECT t.call($$SELECT t.verify(batch => 0)$$);
SELECT t.call($$SELECT t.verify(batch => 10001)$$);
SELECT t.call($$SELECT t.verify(source => 'no such')$$);
SELECT t.call($$SELECT * FROM claims.verify(77, 'regress_claims_verify', 'RAILS_TABLE_ROUTES')$$);
-- the application's role needs no privileges on the table or the claims
SET ROLE regress_claims_one;
SELECT * FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES');
SELECT t.call($$SELECT * FROM claims.verify(2, 'regress_claims_verify', 'RAILS_TABLE_ROUTES')$$);
SET ROLE regress_claims_nobody;
SELECT t.call($$SELECT * FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES')$$);
RESET ROLE;
SET client_min_messages = warning;
DELETE FROM claims.claimed_attributes;
DROP TABLE t.routes, t.redirects, t.steps, t.deleted, t.shown;
DROP SERVER regress_claims_verify CASCADE;
RESET client_min_messages;
SELECT t.clean();
