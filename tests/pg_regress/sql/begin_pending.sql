-- begin_pending and finish, against a service that is this same database.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SET client_min_messages = error;
SELECT t.clean();
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE, namespace_id int);
GRANT ALL ON app.routes TO PUBLIC;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_pending FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE SERVER regress_claims_gone FOREIGN DATA WRAPPER claims_service OPTIONS (host '/nowhere', port '1');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_pending OPTIONS (user 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_gone OPTIONS (user 'postgres');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
CREATE FUNCTION t.tracked_leases() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT count(*) FROM claims.cells_outstanding_leases $$;
SELECT t.tracked_leases();
SET claims.service_timeout = '10s';
\echo -- arguments, before anything else
SELECT t.call($$SELECT claims.begin_pending(NULL, 'regress_claims_pending')$$);
SELECT t.call($$SELECT claims.begin_pending(1, NULL)$$);
SELECT t.call($$SELECT claims.begin_pending(77, 'regress_claims_pending')$$);
SELECT t.call($$SELECT claims.finish(NULL, 'regress_claims_pending', t.u(5100))$$);
SELECT t.call($$SELECT claims.finish(1, NULL, t.u(5100))$$);
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', NULL)$$);
SELECT t.call($$SELECT claims.finish(1, 'nothing', t.u(5100))$$);

\echo -- a name that goes from one table to two rows: one of them could lose it to another cell
CREATE TABLE app.others (id bigint PRIMARY KEY, path text UNIQUE, namespace_id int);
SELECT claims.claim_attribute('app.others', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_GROUPS');
INSERT INTO app.routes VALUES (50, 'moving', 10);
SELECT claims.begin_update(1, t.creates('moving'), lease_uuid => t.u(5150)), claims.commit_update(1, t.u(5150));
BEGIN;
DELETE FROM app.routes WHERE id = 50; INSERT INTO app.others VALUES (1, 'moving', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NULL;
INSERT INTO app.routes VALUES (51, 'moving', 10);
SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_pending')$$);
ROLLBACK;
DELETE FROM app.routes; DROP TABLE app.others; SELECT t.clean();

\echo -- as the role of the application, which has no right on server or tables of claims
SET SESSION AUTHORIZATION regress_claims_one;
-- nothing to send: the service is not even asked
SELECT claims.begin_pending(1, 'regress_claims_gone') IS NULL;
SELECT t.call($$SELECT claims.begin_pending(2, 'regress_claims_pending')$$);
-- nor is it for the lease of another cell, which this one has no business with; before the service and the lease are looked at
SELECT t.call($$SELECT claims.finish(2, 'nothing', t.u(5100))$$);
SELECT t.call($$SELECT claims.finish(1, 'nothing', t.u(5100))$$);
BEGIN;
INSERT INTO app.routes VALUES (1, 'one', 10), (2, 'two', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
SELECT count(*) FROM t.pending();
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NULL;
SELECT regexp_replace(c, '[0-9a-f-]{36}', '<lease>') FROM t.call(format($$SELECT claims.finish(1, 'regress_claims_pending', %L)$$, :'lease')) c;
COMMIT;
-- a fresh UUIDv7, and the transaction that took it
SELECT substr(:'lease', 15, 1), cell_xid IS NOT NULL, jsonb_pretty(payload #> '{create_records,0}') FROM claims.list_leases(1);
SELECT * FROM t.state();
SELECT claims.finish(1, 'regress_claims_pending', :'lease');
SELECT * FROM t.state();
SELECT t.tracked_leases();
SELECT claims.finish(1, 'regress_claims_pending', :'lease');
-- a second call sends what came since; each savepoint with its own
BEGIN;
UPDATE app.routes SET path = 'uno' WHERE id = 1;
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease1 \gset
SAVEPOINT s;
INSERT INTO app.routes VALUES (3, 'three', 10); DELETE FROM app.routes WHERE id = 2;
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease2 \gset
SELECT payload -> 'create_records' #>> '{0,bucket,value}', payload -> 'destroy_records' #>> '{0,bucket,value}' FROM claims.list_leases(1);
ROLLBACK TO s;
-- what was sent in the savepoint is given back, and nothing of it is pending
SELECT count(*) FROM t.pending();
SAVEPOINT s; INSERT INTO app.routes VALUES (3, 'three', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL;
ROLLBACK TO s;
INSERT INTO app.routes VALUES (3, 'four', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease3 \gset
COMMIT;
SELECT processed, committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'regress_claims_pending');
SELECT claims.finish(1, 'regress_claims_pending', :'lease1'), claims.finish(1, 'regress_claims_pending', :'lease3');
SELECT regexp_replace(c, '[0-9a-f-]{36}', '<lease>') FROM t.call(format($$SELECT claims.finish(1, 'regress_claims_pending', %L)$$, :'lease2')) c;
SELECT path FROM app.routes ORDER BY 1;
SELECT * FROM t.state();

\echo -- what cannot be had
RESET SESSION AUTHORIZATION;
SELECT t.have(2, 'taken'), claims.begin_update(2, t.creates('leased'), lease_uuid => t.u(5101)) IS NULL, claims.commit_update(1, claims.begin_update(1, '[]', t.destroys('four')));
SET SESSION AUTHORIZATION regress_claims_one;
CREATE FUNCTION pg_temp.try(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
    BEGIN EXECUTE statement; RETURN QUERY SELECT t.call($c$SELECT claims.begin_pending(1, 'regress_claims_pending')$c$); RAISE 'undo'; EXCEPTION WHEN raise_exception THEN NULL; END; END $$;
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (5, 'taken', 10), (6, 'leased', 10), (7, 'free', 10)$$);
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (6, 'leased', 10)$$);
SELECT pg_temp.try($$DELETE FROM app.routes$$);
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (5, '', 10)$$);
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (5, repeat('x', 1025), 10)$$);
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (5, 'no subject', NULL)$$);
SELECT pg_temp.try($$INSERT INTO app.routes SELECT n, 'many' || n, 10 FROM generate_series(100, 1100) n$$);
SELECT regexp_replace(c, '[0-9a-f-]{36}', '<lease>') FROM pg_temp.try($$INSERT INTO app.routes VALUES (5, 'gone', 10)$$) c;
-- what an abort has sent is answered before the next call
SELECT processed FROM claims.reconcile(1, 'regress_claims_pending');
SELECT * FROM t.state();
-- the service cannot be reached, does not answer in time
BEGIN; INSERT INTO app.routes VALUES (5, 'five', 10);
SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_gone')$$);
SELECT t.call($$SELECT claims.begin_pending(1, 'no server')$$);
SELECT t.call($$SELECT claims.begin_pending(1, 'dbname=regress')$$);
ROLLBACK;
RESET SESSION AUTHORIZATION;
CREATE FUNCTION t.sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
CREATE TRIGGER sleep BEFORE INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION t.sleep();
SET SESSION AUTHORIZATION regress_claims_one;
SELECT boot_val, unit FROM pg_settings WHERE name = 'claims.service_timeout';
SET claims.service_timeout = 100;
BEGIN; INSERT INTO app.routes VALUES (5, 'slow', 10); SELECT clock_timestamp() AS before \gset
SELECT claims.begin_pending(1, 'regress_claims_pending');
\echo :SQLSTATE
ROLLBACK;
SELECT clock_timestamp() - :'before'::timestamptz < interval '0.9 s';
SET claims.service_timeout = '5s';
BEGIN; INSERT INTO app.routes VALUES (5, 'slow but in time', 10); SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL; COMMIT;
SET claims.service_timeout = '10s';
SELECT t.state_of('SET claims.service_timeout = 0');
-- a cancel is obeyed meanwhile
SET statement_timeout = 150; SET claims.service_timeout = '5s';
BEGIN; INSERT INTO app.routes VALUES (6, 'slower', 10); SELECT claims.begin_pending(1, 'regress_claims_pending'); ROLLBACK;
RESET statement_timeout; SET claims.service_timeout = '10s';
RESET SESSION AUTHORIZATION;
SELECT pg_sleep(1);
DROP TRIGGER sleep ON claims.claim_leases;
-- the outcome was unknown: recovery rolls back what was begun after all
SELECT bucket_value FROM claims.claims WHERE bucket_value LIKE 'slow%' AND status = 2 ORDER BY 1;
SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'regress_claims_pending');
SELECT * FROM t.state();

\echo -- finish: only leases whose local transaction has committed
SELECT claims.begin_update(1, t.creates('nobodys'), lease_uuid => t.u(5102)) IS NULL;
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5102))$$);
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5103))$$);
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5101))$$);
SELECT claims.track_lease(t.u(5102));
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_gone', t.u(5102))$$);
SELECT claims.finish(1, 'regress_claims_pending', t.u(5102));
BEGIN READ ONLY; SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5102))$$); ROLLBACK;
SELECT t.tracked_leases(), (SELECT count(*) FROM claims.check());

\echo -- own leases are settled when they are in the way of its next batch
BEGIN; INSERT INTO app.routes VALUES (20, 'busy', 10); SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL; COMMIT;
SELECT claims.lease_outcome(1, uuid), t.tracked_leases() FROM claims.cells_outstanding_leases;
BEGIN; UPDATE app.routes SET path = 'busier' WHERE id = 20; SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL; SELECT t.tracked_leases(); COMMIT;
SELECT bucket_value, status FROM claims.claims WHERE bucket_value LIKE 'bus%' ORDER BY 1;
-- not those of this very transaction
BEGIN; UPDATE app.routes SET path = 'busiest' WHERE id = 20; SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL;
UPDATE app.routes SET path = 'lazy' WHERE id = 20; SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_pending')$$); ROLLBACK;
SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'regress_claims_pending');
SELECT bucket_value, status FROM claims.claims WHERE bucket_value ~ '^(bus|laz)' ORDER BY 1;

SELECT claims.unclaim_attribute('app.routes', 'path');
DROP SERVER regress_claims_pending CASCADE; DROP SCHEMA app CASCADE;
DROP SERVER IF EXISTS regress_claims_gone CASCADE;
SELECT t.clean();
