-- begin_pending and finish, with a service in the same database.
SET client_min_messages = error;
SET claims.lease_wait = 0;
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
SET claims.service_timeout = '5min';
-- NULLs, an unregistered cell and an unknown server are refused
SELECT t.call($$SELECT claims.begin_pending(NULL, 'regress_claims_pending')$$);
SELECT t.call($$SELECT claims.begin_pending(1, NULL)$$);
SELECT t.call($$SELECT claims.begin_pending(77, 'regress_claims_pending')$$);
SELECT t.call($$SELECT claims.finish(NULL, 'regress_claims_pending', t.u(5100))$$);
SELECT t.call($$SELECT claims.finish(1, NULL, t.u(5100))$$);
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', NULL)$$);
SELECT t.call($$SELECT claims.finish(1, 'nothing', t.u(5100))$$);

-- one name in two pending rows is refused: one of the rows could lose it to another cell
CREATE TABLE app.others (id bigint PRIMARY KEY, path text UNIQUE, namespace_id int);
SELECT claims.claim_attribute('app.others', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_GROUPS');
INSERT INTO app.routes VALUES (50, 'moving', 10);
SELECT claims.begin_update(1, t.creates('moving'), lease_uuid => t.u(5150)), claims.commit_update(1, t.u(5150));
BEGIN;
DELETE FROM app.routes WHERE id = 50; INSERT INTO app.others VALUES (1, 'moving', 10); SELECT * FROM t.pending();
INSERT INTO app.routes VALUES (51, 'moving', 10);
SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_pending')$$);
ROLLBACK;
DELETE FROM app.routes; DROP TABLE app.others; SELECT t.clean();

-- the application's role has no privileges on the server or on tables of claims
SET SESSION AUTHORIZATION regress_claims_one;
-- without pending changes begin_pending does not contact the service
SELECT claims.begin_pending(1, 'regress_claims_gone') IS NULL;
SELECT t.call($$SELECT claims.begin_pending(2, 'regress_claims_pending')$$);
-- finish refuses another cell before it looks up the server and the lease
SELECT t.call($$SELECT claims.finish(2, 'nothing', t.u(5100))$$);
SELECT t.call($$SELECT claims.finish(1, 'nothing', t.u(5100))$$);
-- begin_pending sends the pending batch once and tracks the lease
BEGIN;
INSERT INTO app.routes VALUES (1, 'one', 10), (2, 'two', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
SELECT count(*) FROM t.pending();
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NULL;
SELECT regexp_replace(c, '[0-9a-f-]{36}', '<lease>') FROM t.call(format($$SELECT claims.finish(1, 'regress_claims_pending', %L)$$, :'lease')) c;
COMMIT;
-- the lease has a fresh UUIDv7 and the id of the local transaction
SELECT substr(:'lease', 15, 1), cell_xid IS NOT NULL, jsonb_pretty(payload #> '{create_records,0}') FROM claims.list_leases(1);
SELECT * FROM t.state();
SELECT claims.finish(1, 'regress_claims_pending', :'lease');
SELECT * FROM t.state();
SELECT t.tracked_leases();
SELECT claims.finish(1, 'regress_claims_pending', :'lease');
-- a second begin_pending sends what changed since the first
BEGIN;
UPDATE app.routes SET path = 'uno' WHERE id = 1;
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease1 \gset
SAVEPOINT s;
INSERT INTO app.routes VALUES (3, 'three', 10); DELETE FROM app.routes WHERE id = 2;
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease2 \gset
SELECT payload -> 'create_records' #>> '{0,bucket,value}', payload -> 'destroy_records' #>> '{0,bucket,value}' FROM claims.list_leases(1);
ROLLBACK TO s;
-- after ROLLBACK TO the lease of the savepoint is rolled back, and nothing of it is pending
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

-- conflicts and invalid names fail the call with their SQLSTATE
RESET SESSION AUTHORIZATION;
SELECT t.have(2, 'taken'), claims.begin_update(2, t.creates('leased'), lease_uuid => t.u(5101)) IS NULL,
    claims.commit_update(1, claims.begin_update(1, '[]', t.destroys('four')));
SET SESSION AUTHORIZATION regress_claims_one;
CREATE FUNCTION pg_temp.try(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        EXECUTE statement;
        RETURN QUERY SELECT t.call($c$SELECT claims.begin_pending(1, 'regress_claims_pending')$c$);
        RAISE 'undo';
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
END $$;
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (5, 'taken', 10), (6, 'leased', 10), (7, 'free', 10)$$);
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (6, 'leased', 10)$$);
-- destroying a claim that does not exist any more is no error
SELECT regexp_replace(c, '[0-9a-f-]{36}', '<lease>') FROM pg_temp.try($$DELETE FROM app.routes$$) c;
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (5, '', 10)$$);
SELECT pg_temp.try($$INSERT INTO app.routes VALUES (5, 'no subject', NULL)$$);
RESET SESSION AUTHORIZATION;
SET debug_discard_caches = 0;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT regexp_replace(c, '[0-9a-f-]{36}', '<lease>')
  FROM pg_temp.try($$INSERT INTO app.routes SELECT n, 'many' || n, 10 FROM generate_series(100, 2100) n$$) c;
RESET SESSION AUTHORIZATION;
RESET debug_discard_caches;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT regexp_replace(c, '[0-9a-f-]{36}', '<lease>') FROM pg_temp.try($$INSERT INTO app.routes VALUES (5, 'gone', 10)$$) c;
-- the rollback that an abort sent is answered before the next call
SELECT processed FROM claims.reconcile(1, 'regress_claims_pending');
SELECT * FROM t.state();
-- a service that cannot be reached, or does not answer in time: connection errors
BEGIN; INSERT INTO app.routes VALUES (5, 'five', 10);
SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_gone')$$);
SELECT t.call($$SELECT claims.begin_pending(1, 'no server')$$);
SELECT t.call($$SELECT claims.begin_pending(1, 'dbname=regress')$$);
ROLLBACK;
RESET SESSION AUTHORIZATION;
CREATE TABLE t.canceled (pid int);
CREATE FUNCTION t.sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_cancel_backend(pid) FROM t.canceled; PERFORM pg_sleep(0.3);
    WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77) LOOP PERFORM pg_sleep(0.01); END LOOP; RETURN NULL; END $$;
CREATE TRIGGER sleep BEFORE INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION t.sleep();
SET SESSION AUTHORIZATION regress_claims_one;
SELECT boot_val, unit FROM pg_settings WHERE name = 'claims.service_timeout';
SET claims.service_timeout = 100;
-- service_timeout ends the wait for a service that waits for a lock of this session
SELECT pg_advisory_lock(77);
BEGIN; INSERT INTO app.routes VALUES (5, 'slow', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending');
\echo :SQLSTATE
ROLLBACK;
SELECT pg_advisory_unlock(77);
SET claims.service_timeout = '5min';
BEGIN; INSERT INTO app.routes VALUES (5, 'slow but in time', 10); SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL; COMMIT;
SELECT t.state_of('SET claims.service_timeout = 0');
-- a cancel ends the wait for the service
RESET SESSION AUTHORIZATION; INSERT INTO t.canceled VALUES (pg_backend_pid()); SET SESSION AUTHORIZATION regress_claims_one;
SELECT pg_advisory_lock(77);
BEGIN; INSERT INTO app.routes VALUES (6, 'slower', 10); SELECT claims.begin_pending(1, 'regress_claims_pending'); ROLLBACK;
SELECT pg_advisory_unlock(77);
RESET SESSION AUTHORIZATION;
DO $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active') LOOP
        PERFORM pg_sleep(0.01);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
END $$;
DROP TRIGGER sleep ON claims.claim_leases; DROP TABLE t.canceled;
-- recovery rolls back a lease whose begin had an unknown outcome
SELECT bucket_value FROM claims.claims WHERE bucket_value LIKE 'slow%' AND status = 2 ORDER BY 1;
SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'regress_claims_pending');
SELECT * FROM t.state();

-- t.conceded() counts the destroys that begin_pending left out
CREATE FUNCTION t.conceded() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$
    SELECT format('missing %s, not_owner %s', m.last_value - current_setting('t.missing')::bigint,
          n.last_value - current_setting('t.not_owner')::bigint)
      FROM claims.capture_left_out_missing m, claims.capture_left_out_not_owner n $$;
SELECT set_config('t.missing', m.last_value::text, false) IS NULL, set_config('t.not_owner', n.last_value::text, false) IS NULL
  FROM claims.capture_left_out_missing m, claims.capture_left_out_not_owner n;
-- names that were never claimed, or belong to another cell, can be given up
INSERT INTO app.routes VALUES (30, 'unclaimed', 10), (31, 'of two', 10), (32, 'also of two', 10), (33, '', 10), (34, 'never', 10);
BEGIN; INSERT INTO app.routes VALUES (40, 'mine', 10); SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
COMMIT;
SELECT t.have(2, 'of two', 'also of two'), claims.finish(1, 'regress_claims_pending', :'lease');
SET SESSION AUTHORIZATION regress_claims_one;
BEGIN;
UPDATE app.routes SET path = path || '!' WHERE id IN (30, 31); DELETE FROM app.routes WHERE id IN (32, 33, 40); SELECT * FROM t.pending();
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
SELECT jsonb_path_query_array(payload, '$.create_records[*].bucket.value'),
    jsonb_path_query_array(payload, '$.destroy_records[*].bucket.value') FROM claims.list_leases(1);
SELECT count(*) FROM t.pending();
COMMIT;
SELECT claims.finish(1, 'regress_claims_pending', :'lease'), t.conceded();
SELECT * FROM t.state() WHERE claim ~ 'of two|unclaimed|mine';
-- a batch of left-out destroys only makes no lease, and nothing stays pending
BEGIN;
DELETE FROM app.routes WHERE id = 34;
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NULL, t.leases();
SELECT count(*) FROM t.pending();
ROLLBACK;
-- a conflict of a create fails the call, and its left-out destroys are not counted
SELECT pg_temp.try($$UPDATE app.routes SET path = 'taken' WHERE id = 34$$), t.conceded();
RESET SESSION AUTHORIZATION;
-- the cell's own lease in the way is settled, and is not counted as left out
BEGIN; UPDATE app.routes SET path = 'busy' WHERE id = 30; SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL; COMMIT;
SELECT t.tracked_leases();
BEGIN;
UPDATE app.routes SET path = 'busier' WHERE id = 30;
DELETE FROM app.routes WHERE id = 34;
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL;
COMMIT;
SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'regress_claims_pending');
SELECT t.conceded(), string_agg(path, ', ' ORDER BY path) FROM app.routes WHERE id BETWEEN 30 AND 40;
SELECT * FROM t.state() WHERE claim ~ 'bus|never';
-- left-out destroys under REPEATABLE READ and in a savepoint
INSERT INTO app.routes VALUES (35, 'five', 10), (36, 'six', 10);
BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM app.routes WHERE id = 35; SELECT claims.begin_pending(1, 'regress_claims_pending') IS NULL; COMMIT;
BEGIN; SAVEPOINT s; DELETE FROM app.routes WHERE id = 36; SELECT claims.begin_pending(1, 'regress_claims_pending') IS NULL; ROLLBACK TO s;
UPDATE app.routes SET path = 'sixth' WHERE id = 36;
SELECT * FROM t.pending();
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL;
COMMIT;
SELECT committed FROM claims.reconcile(1, 'regress_claims_pending');
DELETE FROM app.routes WHERE id >= 30; DELETE FROM claims.claims WHERE bucket_value ~ 'bus|two|unclaimed|sixth';
DROP FUNCTION t.conceded();

-- finish settles only leases whose local transaction has committed
SELECT claims.begin_update(1, t.creates('nobodys'), lease_uuid => t.u(5102)) IS NULL;
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5102))$$);
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5103))$$);
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5101))$$);
SELECT claims.track_lease(t.u(5102));
SELECT t.call($$SELECT claims.finish(1, 'regress_claims_gone', t.u(5102))$$);
SELECT claims.finish(1, 'regress_claims_pending', t.u(5102));
BEGIN READ ONLY; SELECT t.call($$SELECT claims.finish(1, 'regress_claims_pending', t.u(5102))$$); ROLLBACK;
SELECT t.tracked_leases(), (SELECT count(*) FROM claims.check());

-- begin_pending settles the cell's own leases that conflict with its batch
BEGIN; INSERT INTO app.routes VALUES (20, 'busy', 10); SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL; COMMIT;
SELECT claims.lease_outcome(1, uuid), t.tracked_leases() FROM claims.cells_outstanding_leases;
BEGIN;
UPDATE app.routes SET path = 'busier' WHERE id = 20;
SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL;
SELECT t.tracked_leases();
COMMIT;
SELECT bucket_value, status FROM claims.claims WHERE bucket_value LIKE 'bus%' ORDER BY 1;
-- begin_pending does not settle leases of its own transaction
BEGIN; UPDATE app.routes SET path = 'busiest' WHERE id = 20; SELECT claims.begin_pending(1, 'regress_claims_pending') IS NOT NULL;
UPDATE app.routes SET path = 'lazy' WHERE id = 20; SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_pending')$$); ROLLBACK;
SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'regress_claims_pending');
SELECT bucket_value, status FROM claims.claims WHERE bucket_value ~ '^(bus|laz)' ORDER BY 1;
-- an own lease with more names than one lookup takes is settled, too
ALTER SERVER regress_claims_pending OPTIONS (ADD options '-c claims.max_batch_size=30000');
BEGIN; SELECT pg_current_xact_id() AS xid \gset
ROLLBACK;
SET claims.max_batch_size = 30000;
SELECT claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'many/' || n),
          'subject', '{"type": "GROUP", "id": 10}'::jsonb,
    'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))) FROM generate_series(100001, 110001) n), lease_uuid => t.u(5190),
      cell_xid => :'xid') IS NOT NULL;
RESET claims.max_batch_size;
BEGIN;
INSERT INTO app.routes SELECT n, 'many/' || n, 10 FROM generate_series(100001, 110001) n;
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
COMMIT;
SELECT claims.finish(1, 'regress_claims_pending', :'lease'), claims.lease_outcome(1, t.u(5190));
SELECT status, count(*) FROM claims.claims WHERE bucket_value LIKE 'many/%' GROUP BY 1;

-- cleans up
SELECT claims.unclaim_attribute('app.routes', 'path');
DROP SERVER regress_claims_pending CASCADE; DROP SCHEMA app CASCADE;
DROP SERVER IF EXISTS regress_claims_gone CASCADE;
SELECT t.clean();
