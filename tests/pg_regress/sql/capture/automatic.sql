-- Automatic mode: the batch is sent to the service when the transaction is about to commit.
SET client_min_messages = error;
SET lock_timeout = '10s'; SET claims.service_timeout = '5min';
SELECT t.clean();
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE, namespace_id int, other int);
GRANT ALL ON app.routes TO PUBLIC;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_auto FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_auto OPTIONS (user 'postgres');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
-- t.sent() returns the leases begun at the service since the last call: payload, and whether the cell tracks the lease
CREATE TABLE t.begun (uuid uuid PRIMARY KEY, payload jsonb);
CREATE FUNCTION t.note_begun() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t.begun VALUES (NEW.uuid, NEW.payload); RETURN NULL; END $$;
CREATE TRIGGER note_begun AFTER INSERT ON claims.claim_leases FOR EACH ROW WHEN (NEW.creator_id = 1) EXECUTE FUNCTION t.note_begun();
CREATE FUNCTION t.sent() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH seen AS (DELETE FROM t.begun RETURNING uuid, payload)
    SELECT 'create ' || coalesce((SELECT string_agg(c #>> '{bucket,value}', ',') FROM jsonb_array_elements(payload -> 'create_records') c), '-')
        || ' destroy ' || coalesce((SELECT string_agg(c #>> '{bucket,value}', ',') FROM jsonb_array_elements(payload -> 'destroy_records') c), '-')
        || CASE WHEN EXISTS (SELECT FROM claims.cells_outstanding_leases o WHERE o.uuid = l.uuid) THEN ', tracked' ELSE ', lost' END
      FROM seen l ORDER BY uuid $$;
-- t.settle() waits until the sessions at the service are idle, and recovers what is left
CREATE FUNCTION t.settle() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active') LOOP
        PERFORM pg_sleep(0.01);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
    RETURN (SELECT r::text FROM claims.reconcile(1, 'regress_claims_auto') r);
END $$;
-- automatic() checks its arguments and whether the caller may act for the cell
SELECT t.call($$SELECT claims.automatic(1, NULL)$$);
SELECT t.call($$SELECT claims.automatic(NULL, 'regress_claims_auto')$$);
SELECT t.call($$SELECT claims.automatic(77, 'regress_claims_auto')$$);
SELECT t.call($$SELECT claims.automatic(1, 'host=localhost')$$);
SET ROLE regress_claims_nobody;
SELECT t.call($$SELECT claims.automatic(1, 'regress_claims_auto')$$);
SET ROLE regress_claims_two;
SELECT t.call($$SELECT claims.automatic(1, 'regress_claims_auto')$$);
SELECT claims.automatic(2, 'regress_claims_auto');
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.automatic(1, 'regress_claims_auto')$$);
SELECT t.call($$SELECT claims.automatic(NULL, NULL)$$);
SET ROLE regress_claims_two;
SELECT claims.automatic(NULL, NULL);
SET ROLE regress_claims_one;
SELECT claims.automatic(1, 'regress_claims_auto'), claims.automatic(NULL, NULL);
RESET ROLE;
-- automatic mode for a cell that is not registered: only an administrator can turn it off
INSERT INTO claims.automatic_service (cell_id, service) VALUES (77, 'x');
SET ROLE regress_claims_one; SELECT t.call($$SELECT claims.automatic(NULL, NULL)$$); RESET ROLE;
SELECT claims.automatic(NULL, NULL); SELECT count(*) FROM claims.automatic_service;
-- nothing is sent before automatic mode is on
INSERT INTO app.routes VALUES (90, 'before', 1); DELETE FROM app.routes; SELECT * FROM t.sent();
SELECT claims.automatic(1, 'regress_claims_auto');
SELECT cell_id, service FROM claims.automatic_service;

-- a role with privileges on the table only: each commit sends one batch
DROP ROLE IF EXISTS regress_claims_app; CREATE ROLE regress_claims_app;
GRANT USAGE ON SCHEMA t TO regress_claims_app;
SET SESSION AUTHORIZATION regress_claims_app;
INSERT INTO app.routes VALUES (1, 'one', 10);
SELECT * FROM t.sent();
BEGIN;
INSERT INTO app.routes VALUES (2, 'two', 10), (3, 'three', 10);
UPDATE app.routes SET path = 'drei' WHERE id = 3;
SAVEPOINT s;
DELETE FROM app.routes;
ROLLBACK TO s;
SELECT * FROM t.sent();
COMMIT;
SELECT * FROM t.sent();
RESET SESSION AUTHORIZATION; SELECT t.settle(); SELECT count(*) FROM claims.cells_outstanding_leases; SET SESSION AUTHORIZATION regress_claims_app;
-- one batch per transaction; none where no claimed column changed, none after a rollback
UPDATE app.routes SET other = 1; SELECT * FROM t.sent();
BEGIN; UPDATE app.routes SET path = 'x' WHERE id = 1; UPDATE app.routes SET path = 'one' WHERE id = 1; COMMIT; SELECT * FROM t.sent();
BEGIN; DELETE FROM app.routes; ROLLBACK; SELECT * FROM t.sent();
BEGIN; SAVEPOINT a; DELETE FROM app.routes; ROLLBACK TO a; COMMIT; SELECT * FROM t.sent();
BEGIN; SAVEPOINT a; DELETE FROM app.routes; ROLLBACK TO a; UPDATE app.routes SET path = 'eins' WHERE id = 1; COMMIT; SELECT * FROM t.sent();
-- changes of a released savepoint are rolled back with the outer one, and later changes are sent
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
UPDATE app.routes SET path = 'gone' WHERE id = 2;
RELEASE b;
ROLLBACK TO a;
UPDATE app.routes SET path = 'zwei' WHERE id = 2;
COMMIT;
SELECT * FROM t.sent();
RESET SESSION AUTHORIZATION; SELECT t.settle();

-- a conflict fails the transaction at COMMIT with its own SQLSTATE
SELECT t.have(2, 'taken'), claims.begin_update(2, t.creates('leased'), lease_uuid => t.u(5201)) IS NULL;
SET SESSION AUTHORIZATION regress_claims_app;
\set VERBOSITY terse
INSERT INTO app.routes VALUES (4, 'taken', 10);
\echo :SQLSTATE
UPDATE app.routes SET path = 'leased' WHERE id = 1;
\echo :SQLSTATE
BEGIN; INSERT INTO app.routes VALUES (4, 'taken', 10); COMMIT;
\echo :SQLSTATE
INSERT INTO app.routes VALUES (5, 'no subject', NULL);
\echo :SQLSTATE
RESET SESSION AUTHORIZATION;
ALTER TABLE app.routes DROP CONSTRAINT routes_path_key;
INSERT INTO app.routes VALUES (5, 'same', 10), (6, 'same', 10);
\echo :SQLSTATE
ALTER TABLE app.routes ADD UNIQUE (path);
-- a row whose name was never claimed, or belongs to another cell, can be renamed and deleted
BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO app.routes VALUES (60, 'old', 10), (61, 'taken', 10), (62, 'older', 10); COMMIT;
SET SESSION AUTHORIZATION regress_claims_app;
UPDATE app.routes SET path = 'renamed' WHERE id = 60; DELETE FROM app.routes WHERE id = 62;
UPDATE app.routes SET namespace_id = 11 WHERE id = 61; UPDATE app.routes SET path = 'no more' WHERE id = 61;
DELETE FROM app.routes WHERE id IN (60, 61);
RESET SESSION AUTHORIZATION;
SELECT claim, cell FROM t.state() WHERE claim ~ 'old|taken';
SELECT path FROM app.routes ORDER BY 1;
SELECT * FROM t.sent();

-- PREPARE TRANSACTION sends the batch before it prepares
BEGIN; INSERT INTO app.routes VALUES (7, 'prepared', 10); PREPARE TRANSACTION 'regress_claims_auto'; SELECT * FROM t.sent();
SELECT committed, rolled_back, pending FROM claims.reconcile(1, 'regress_claims_auto');
COMMIT PREPARED 'regress_claims_auto'; SELECT * FROM t.sent(); SELECT t.settle();
BEGIN;
INSERT INTO app.routes VALUES (8, 'undone', 10);
PREPARE TRANSACTION 'regress_claims_auto';
ROLLBACK PREPARED 'regress_claims_auto';
SELECT * FROM t.sent();
SELECT t.settle();
BEGIN; INSERT INTO app.routes VALUES (8, 'taken', 10); PREPARE TRANSACTION 'regress_claims_auto';
SELECT count(*) FROM pg_prepared_xacts WHERE gid = 'regress_claims_auto';

-- other deferred triggers run first: nothing is leased for what they refuse, and what they change is in the batch
CREATE FUNCTION app.deferred() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.path = 'refused' THEN RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = 'refused'; END IF;
    IF NEW.path LIKE 'more%' AND length(NEW.path) < 7 THEN UPDATE app.routes SET path = path || '+' WHERE id = NEW.id; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER a_deferred AFTER INSERT OR UPDATE ON app.routes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.deferred();
BEGIN; INSERT INTO app.routes VALUES (9, 'first', 10); INSERT INTO app.routes VALUES (10, 'refused', 10); COMMIT;
SELECT * FROM t.sent();
-- several rounds of deferred triggers make one batch
BEGIN; INSERT INTO app.routes VALUES (9, 'first', 10); INSERT INTO app.routes VALUES (10, 'more', 10); COMMIT; SELECT * FROM t.sent();
SELECT path FROM app.routes WHERE id IN (9, 10) ORDER BY 1;
SELECT t.settle();
SELECT bucket_value FROM claims.claims WHERE creator_id = 1 ORDER BY 1;
DROP TRIGGER a_deferred ON app.routes;
-- SET CONSTRAINTS IMMEDIATE sends at once; later changes are sent in a batch of their own
BEGIN;
UPDATE app.routes SET path = 'now' WHERE id = 10;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT * FROM t.sent();
UPDATE app.routes SET path = 'later' WHERE id = 9;
SELECT * FROM t.sent();
COMMIT;
SELECT * FROM t.sent();
SELECT t.settle();
-- SET CONSTRAINTS finds nothing to send, and a later change is sent at COMMIT
BEGIN;
UPDATE app.routes SET path = 'there' WHERE id = 10;
UPDATE app.routes SET path = 'now' WHERE id = 10;
SET CONSTRAINTS ALL IMMEDIATE;
UPDATE app.routes SET path = 'later still' WHERE id = 9;
COMMIT;
SELECT * FROM t.sent();
SELECT t.settle();
-- a batch that was sent in a savepoint and rolled back is not sent again; a later change is
BEGIN;
SAVEPOINT s;
UPDATE app.routes SET path = 'lost' WHERE id = 10;
SET CONSTRAINTS claims.automatic IMMEDIATE;
ROLLBACK TO s;
UPDATE app.routes SET path = 'kept' WHERE id = 9;
COMMIT;
SELECT * FROM t.sent();
SELECT t.settle();
-- begin_pending sends the batch, and COMMIT has nothing more to send
BEGIN;
UPDATE app.routes SET path = 'by hand' WHERE id = 9;
SELECT claims.begin_pending(1, 'regress_claims_auto') IS NOT NULL;
COMMIT;
SELECT * FROM t.sent();
SELECT t.settle();
-- with the deferred trigger disabled, SET CONSTRAINTS sends nothing at once, and COMMIT sends everything
ALTER TABLE claims.automatic_queue DISABLE TRIGGER automatic;
BEGIN;
UPDATE app.routes SET path = 'without' WHERE id = 9;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT * FROM t.sent();
UPDATE app.routes SET path = 'without it' WHERE id = 9;
COMMIT;
SELECT * FROM t.sent();
SELECT t.settle();
BEGIN;
UPDATE app.routes SET path = 'by hand' WHERE id = 9;
SET CONSTRAINTS claims.automatic IMMEDIATE;
PREPARE TRANSACTION 'regress_claims_auto';
SELECT * FROM t.sent();
COMMIT PREPARED 'regress_claims_auto';
SELECT t.settle();
ALTER TABLE claims.automatic_queue ENABLE TRIGGER automatic; SELECT count(*) FROM claims.automatic_queue; DELETE FROM claims.automatic_queue;
-- without SET CONSTRAINTS nothing is queued
BEGIN;
UPDATE app.routes SET path = 'unqueued' WHERE id = 9;
SELECT count(*) FROM claims.automatic_queue;
UPDATE app.routes SET path = 'by hand' WHERE id = 9;
COMMIT;
SELECT * FROM t.sent();
-- SET CONSTRAINTS before the first change sends each change at once, until DEFERRED
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
UPDATE app.routes SET path = 'at once' WHERE id = 9;
SELECT * FROM t.sent();
SET CONSTRAINTS ALL DEFERRED;
UPDATE app.routes SET path = 'not at once' WHERE id = 10;
SELECT * FROM t.sent();
COMMIT;
SELECT * FROM t.sent();
SELECT t.settle();
BEGIN; UPDATE app.routes SET path = 'by hand' WHERE id = 9; UPDATE app.routes SET path = 'now' WHERE id = 10; COMMIT; SELECT * FROM t.sent();
-- SET CONSTRAINTS in a savepoint that is rolled back has no effect
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
UPDATE app.routes SET path = 'in the end' WHERE id = 9;
SELECT * FROM t.sent();
UPDATE app.routes SET path = 'by hand' WHERE id = 9;
UPDATE app.routes SET path = 'in the end' WHERE id = 9;
COMMIT;
SELECT * FROM t.sent();
SELECT t.settle();
-- SET CONSTRAINTS for an unknown constraint fails, and nothing is sent
BEGIN; UPDATE app.routes SET path = 'by hand' WHERE id = 9; SET CONSTRAINTS app.no_such IMMEDIATE; COMMIT; SELECT * FROM t.sent();
UPDATE app.routes SET path = 'by hand' WHERE id = 9; SELECT * FROM t.sent(); SELECT t.settle();
-- a WITH HOLD cursor is run before the batch is sent: its changes are in the batch
CREATE FUNCTION app.rename(to_path text) RETURNS text LANGUAGE sql AS $$ UPDATE app.routes SET path = to_path WHERE id = 9 RETURNING path $$;
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT app.rename('by cursor');
COMMIT;
SELECT * FROM t.sent();
CLOSE c;
SELECT app.rename('by hand');
SELECT * FROM t.sent();
SELECT t.settle();
-- a transaction that drops the extension after a captured change cannot commit
BEGIN; UPDATE app.routes SET path = 'unclaimed' WHERE id = 9; DROP EXTENSION claims CASCADE; COMMIT;
\echo :SQLSTATE
SELECT path FROM app.routes WHERE id = 9;

-- a procedure with two transactions sends two batches; SERIALIZABLE and REPEATABLE READ send, too
CREATE PROCEDURE app.two() LANGUAGE plpgsql AS $$
BEGIN
    UPDATE app.routes SET path = 'p1' WHERE id = 9;
    COMMIT;
    UPDATE app.routes SET path = 'p2' WHERE id = 10;
END $$;
CALL app.two(); SELECT * FROM t.sent(); SELECT t.settle();
BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE app.routes SET path = 's1' WHERE id = 9; COMMIT; SELECT * FROM t.sent();
BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE app.routes SET path = 's2' WHERE id = 9; COMMIT; SELECT * FROM t.sent();
SELECT t.settle();
-- a hostile search_path, another DateStyle and another quoting change nothing
CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.evil(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.evil);
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
SET SESSION AUTHORIZATION regress_claims_app;
SET search_path = evil, pg_catalog;
SET standard_conforming_strings = off;
SET escape_string_warning = off;
UPDATE app.routes SET path = 'it''s \\ evil' WHERE id OPERATOR(pg_catalog.=) 9;
RESET ALL; SET lock_timeout = '10s'; SET claims.service_timeout = '5min'; RESET SESSION AUTHORIZATION; SELECT * FROM t.sent(); SELECT t.settle();
SELECT count(*) FROM claims.automatic_queue;

-- writes under session_replication_role = replica are not captured, and nothing is sent
BEGIN;
SET LOCAL session_replication_role = replica;
UPDATE app.routes SET path = 'replica' WHERE id = 9;
SELECT * FROM t.pending();
COMMIT;
SELECT * FROM t.sent();
-- nothing is sent after automatic mode is off
SELECT claims.automatic(NULL, NULL); SELECT claims.automatic(NULL, NULL);
UPDATE app.routes SET path = 'off' WHERE id = 9; SELECT * FROM t.sent();
-- automatic mode that is turned on and off in one transaction sends nothing
BEGIN;
SELECT claims.automatic(1, 'regress_claims_auto');
UPDATE app.routes SET path = 'on' WHERE id = 10;
SELECT claims.automatic(NULL, NULL);
COMMIT;
SELECT * FROM t.sent();
-- automatic mode that is turned on in a transaction that is rolled back stays off
BEGIN; SELECT claims.automatic(1, 'regress_claims_auto'); ROLLBACK; UPDATE app.routes SET path = 'off2' WHERE id = 9; SELECT * FROM t.sent();
DROP TRIGGER note_begun ON claims.claim_leases; DROP TABLE t.begun; DROP FUNCTION t.note_begun(), t.sent(), t.settle();
SELECT count(*) FROM claims.check();
SELECT claims.unclaim_attribute('app.routes', 'path');
DROP SERVER regress_claims_auto CASCADE; DROP SCHEMA app, evil CASCADE;
REVOKE USAGE ON SCHEMA t FROM regress_claims_app; DROP ROLE regress_claims_app;
SELECT t.clean();
