-- Services by type: the names of some bucket types are claimed at one service, those of all others at another one.
SELECT current_database() AS main \gset
SET client_min_messages = error;
DROP DATABASE IF EXISTS regress_claims_second;
CREATE DATABASE regress_claims_second TEMPLATE template0 ENCODING 'UTF8';
\c regress_claims_second
SET client_min_messages = error;
CREATE EXTENSION claims;
SELECT claims.register_cell(1, 'regress_claims_one'), claims.register_cell(2, 'regress_claims_two');
\c :main
SET client_min_messages = error;
SET lock_timeout = '10s'; SET claims.service_timeout = '5min';
SELECT t.clean();
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE);
CREATE TABLE app.users (id bigint PRIMARY KEY, username text UNIQUE, email text UNIQUE);
GRANT ALL ON app.routes, app.users TO PUBLIC;
-- t.server() makes a foreign server that leads to a database of this cluster
CREATE FUNCTION t.server(name text, dbname text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
        name, current_setting('unix_socket_directories'), current_setting('port'), dbname);
    EXECUTE format('CREATE USER MAPPING FOR PUBLIC SERVER %I OPTIONS (user ''postgres'')', name);
END $$;
SELECT t.server('regress_claims_first', current_database()), t.server('regress_claims_second', 'regress_claims_second');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES'),
       claims.claim_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS'),
       claims.claim_attribute('app.users', 'email', 'EMAILS', 'USER', 'id', 'RAILS_TABLE_USERS');
-- t.names(): where the cell has which names. t.done(): the same, when nothing is tracked any more
CREATE FUNCTION t.names() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$
    WITH wanted AS (SELECT jsonb_agg(jsonb_build_object('type', y, 'value', v)) AS buckets
                      FROM unnest(ARRAY['ROUTES', 'USERNAMES', 'EMAILS']) y, unnest(ARRAY['a', 'b', 'c', 'd', 'e']) v)
    SELECT string_agg(s || ': ' || coalesce((
               SELECT string_agg(r.bucket_type || ' ' || r.bucket_value || CASE r.status WHEN 'ACTIVE' THEN '' ELSE '*' END,
                                 ', ' ORDER BY r.bucket_type, r.bucket_value)
                 FROM claims.look_up(1, 'regress_claims_' || s, buckets) r WHERE r.cell_id = 1), '-'), '; ' ORDER BY s)
      FROM wanted, unnest(ARRAY['first', 'second']) s $$;
CREATE FUNCTION t.recovered() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(s || ' ' || committed || ' ' || rolled_back || ' ' || pending || ' ' || orphaned, ', ' ORDER BY s)
      FROM unnest(ARRAY['first', 'second']) s, LATERAL claims.reconcile(1, 'regress_claims_' || s) $$;
CREATE FUNCTION t.done() RETURNS text LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN
    FOR i IN 1..3000 LOOP
        PERFORM t.recovered();
        EXIT WHEN NOT EXISTS (SELECT FROM claims.cells_outstanding_leases) AND t.names() !~ '\*';
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN t.names();
END $$;

-- automatic() checks its arguments and whether the caller may act for the cell
SELECT t.call($$SELECT claims.automatic(1, 'regress_claims_second', '{}')$$);
SELECT t.call($$SELECT claims.automatic(1, 'regress_claims_second', '{EMAILS,NULL}')$$);
SELECT t.call($$SELECT claims.automatic(1, 'regress_claims_second', '{NOTHING}')$$);
SELECT t.call($$SELECT claims.automatic(NULL, 'regress_claims_second', '{EMAILS}')$$);
SELECT t.call($$SELECT claims.automatic(77, 'regress_claims_second', '{EMAILS}')$$);
SELECT t.call($$SELECT claims.automatic(1, 'nowhere', '{EMAILS}')$$);
SET ROLE regress_claims_two;
SELECT t.call($$SELECT claims.automatic(1, 'regress_claims_second', '{EMAILS}')$$);
RESET ROLE;
-- several rows; the worker attends to the cell at either service
SELECT claims.automatic(1, 'regress_claims_first'), claims.automatic(1, 'regress_claims_second', '{EMAILS,USERNAMES,EMAILS}');
SELECT cell_id, service FROM claims.automatic_service; SELECT * FROM claims.automatic_types ORDER BY 1;
SELECT cell_id, service, by_type FROM claims.attended_cells ORDER BY by_type;
SELECT t.call($$SELECT claims.remove_service('regress_claims_second', 'in use')$$);
-- one cell: not another one for all, nor for some types, nor here
SELECT t.call($$SELECT claims.automatic(2, 'regress_claims_first')$$);
SELECT t.call($$SELECT claims.automatic(2, 'regress_claims_second', '{ROUTES}')$$);
SELECT t.call($$SELECT claims.automatic_here(2)$$);
SET ROLE regress_claims_two;
SELECT t.call($$SELECT claims.automatic(NULL, NULL, '{EMAILS}')$$);
RESET ROLE;

-- a save with names of both services: a lease at each, tracked by the one transaction
BEGIN;
INSERT INTO app.routes VALUES (1, 'a'); INSERT INTO app.users VALUES (1, 'a', 'a');
SET CONSTRAINTS ALL IMMEDIATE;
SELECT t.names();
SELECT service, cell_id, (get_byte(uuid_send(uuid), 15) & 15) FROM claims.cells_outstanding_leases ORDER BY service;
COMMIT;
SELECT t.done();
-- names of one service: one lease, there
BEGIN; INSERT INTO app.users VALUES (2, NULL, 'b'); SET CONSTRAINTS ALL IMMEDIATE; SELECT service FROM claims.cells_outstanding_leases; COMMIT;
SELECT t.done();
-- each service follows an epoch of its own
SELECT service, predecessor IS NOT NULL FROM claims.own_epochs WHERE cell_id = 1 AND service LIKE 'regress_claims_%' ORDER BY 1;

-- what one service refuses ends the lease at the other one
\set VERBOSITY sqlstate
BEGIN; SELECT claims.skip_capture('a row without a claim'); INSERT INTO app.routes VALUES (3, 'c'); COMMIT;
SELECT claims.commit_update(2, claims.begin_update(2, t.creates('d')));
BEGIN; INSERT INTO app.users VALUES (4, 'd', 'd'); INSERT INTO app.routes VALUES (4, 'd'); COMMIT;
SELECT t.done(), (SELECT count(*) FROM app.users WHERE id = 4);
SELECT bucket_type, bucket_value, reason FROM claims.last_conflicts();
-- and a savepoint both
BEGIN; SAVEPOINT s; INSERT INTO app.routes VALUES (5, 'e'); INSERT INTO app.users VALUES (5, 'e', 'e'); SET CONSTRAINTS ALL IMMEDIATE;
SELECT t.names(); ROLLBACK TO s; COMMIT;
SELECT t.done();

-- a prepared transaction decides about both
BEGIN; INSERT INTO app.routes VALUES (5, 'e'); INSERT INTO app.users VALUES (5, NULL, 'e'); PREPARE TRANSACTION 'regress_claims_two';
SELECT t.recovered();
ROLLBACK PREPARED 'regress_claims_two';
SELECT t.recovered();
BEGIN; INSERT INTO app.routes VALUES (5, 'e'); INSERT INTO app.users VALUES (5, NULL, 'e'); PREPARE TRANSACTION 'regress_claims_two';
COMMIT PREPARED 'regress_claims_two';
-- recovery at one service leaves the lease of the other one alone
SELECT committed, orphaned FROM claims.reconcile(1, 'regress_claims_first'); SELECT service FROM claims.cells_outstanding_leases;
SELECT committed, orphaned FROM claims.reconcile(1, 'regress_claims_second'); SELECT count(*) FROM claims.cells_outstanding_leases;
DELETE FROM app.users WHERE id IN (2, 5); DELETE FROM app.routes WHERE id = 5;
SELECT t.done();
-- a lease that was tracked for one of them and is unknown there is an orphan there; of one that names no service the other types' service decides
INSERT INTO claims.cells_outstanding_leases (uuid, cell_id, service) VALUES (t.u(1), 1, 'regress_claims_second');
INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) VALUES (t.u(2), 1);
INSERT INTO claims.cells_outstanding_leases (uuid, cell_id, service) VALUES (t.u(3), 1, 'dropped since');
SELECT t.recovered();
SELECT right(lease_uuid::text, 1), service FROM claims.seen_orphans ORDER BY 1;
SELECT name, labels ->> 'service', value FROM claims.metrics() WHERE name IN ('claims_orphans', 'claims_tracked_leases') AND labels ->> 'cell' = '1'
 ORDER BY 1, 2;
SELECT claims.forget_leases(ARRAY[t.u(1), t.u(2), t.u(3)]); SELECT t.recovered(); SELECT count(*) FROM claims.seen_orphans;
SELECT DISTINCT kind, service FROM claims.passes WHERE service LIKE 'regress_claims_%' AND kind = 'reconcile' ORDER BY 2;

-- begin_pending and finish: types that are named go to their service, all others to the one of the call
SELECT claims.automatic(1, NULL, '{ROUTES,EMAILS}');
SELECT bucket_type FROM claims.automatic_types;
BEGIN; INSERT INTO app.routes VALUES (6, 'b'); INSERT INTO app.users VALUES (6, 'b', 'b');
SELECT claims.begin_pending(1, 'regress_claims_first') AS lease \gset
SELECT t.names(), (SELECT uuid = :'lease' FROM claims.cells_outstanding_leases ORDER BY uuid LIMIT 1);
COMMIT;
SELECT claims.finish(1, 'regress_claims_first', :'lease'), t.names();
SELECT count(*) FROM claims.cells_outstanding_leases;
SELECT claims.finish(1, 'regress_claims_first', :'lease');
-- a repeat finds the service of a lease that is not tracked any more: the one that automatic() names
BEGIN; INSERT INTO app.users VALUES (11, 'e', NULL);
SELECT claims.begin_pending(1, 'regress_claims_first') AS lease \gset
SELECT service FROM claims.cells_outstanding_leases;
COMMIT;
SELECT claims.finish(1, 'regress_claims_first', :'lease');
SELECT claims.finish(1, 'regress_claims_first', :'lease');
SELECT t.call(format($$SELECT claims.finish(1, 'regress_claims_first', %L)$$, t.u(9)));
DELETE FROM app.users WHERE id = 11;
SELECT t.done();
-- a row without a claim gives nothing up: no lease at its service, and the other one is the first
BEGIN; DELETE FROM app.routes WHERE id = 3; INSERT INTO app.users VALUES (10, 'c', NULL);
SELECT claims.begin_pending(1, 'regress_claims_first') AS lease \gset
SELECT service, uuid = :'lease' FROM claims.cells_outstanding_leases; ROLLBACK;
SELECT t.done();
-- where one of them is dead, finish() commits the lease at the other one
BEGIN; INSERT INTO app.routes VALUES (7, 'c7'); UPDATE app.routes SET path = 'e' WHERE id = 7; INSERT INTO app.users VALUES (7, 'e', NULL);
SELECT claims.begin_pending(1, 'regress_claims_first') AS lease \gset
COMMIT;
ALTER SERVER regress_claims_second OPTIONS (SET port '1');
SELECT claims.finish(1, 'regress_claims_first', :'lease');
SELECT string_agg(bucket_value, ' ') FROM claims.claims WHERE creator_id = 1 AND bucket_value = 'e' AND status = 1;
-- names of the living one can be saved, those of the dead one and of both cannot, and the living one is not asked
UPDATE app.routes SET path = 'd7' WHERE id = 7;
UPDATE app.users SET username = 'd' WHERE id = 7;
BEGIN; UPDATE app.users SET username = 'd' WHERE id = 7; UPDATE app.routes SET path = 'f' WHERE id = 7; COMMIT;
SELECT count(*) FROM claims.claims WHERE bucket_value = 'f';
SELECT orphaned FROM claims.reconcile(1, 'regress_claims_first');
ALTER SERVER regress_claims_second OPTIONS (SET port :'PORT');
DELETE FROM app.routes WHERE id IN (6, 7); DELETE FROM app.users WHERE id IN (6, 7);
SELECT t.done();

-- types without a service stay pending in automatic mode, and begin_pending sends them
SELECT claims.automatic(NULL, NULL); SELECT count(*) FROM claims.automatic_types;
SELECT claims.automatic(1, 'regress_claims_second', '{EMAILS}'); SELECT count(*) FROM claims.automatic_service;
BEGIN; INSERT INTO app.users VALUES (8, 'c', 'c'); SET CONSTRAINTS ALL IMMEDIATE; SELECT t.names();
SELECT jsonb_path_query_array(create_records, '$[*].bucket.type') FROM claims.pending_batch();
SELECT claims.begin_pending(1, 'regress_claims_first') IS NOT NULL; SELECT count(*) FROM claims.pending_batch() WHERE create_records <> '[]';
COMMIT;
SELECT t.done();
UPDATE app.users SET username = 'd' WHERE id = 8;
SELECT t.done();
UPDATE app.users SET username = 'c' WHERE id = 8;
SELECT claims.is_available('app.users', 'email', 'c'), claims.is_available('app.users', 'email', 'free'),
       claims.is_available('app.users', 'username', 'c'), claims.is_available('app.users', 'username', 'free');
-- however many there are, names with a service are claimed; calls that need the others fail, and COMMIT if their type gets a service later
CREATE TABLE app.many (id bigint, name text);
SELECT claims.claim_attribute('app.many', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_GROUPS', 'id');
BEGIN; INSERT INTO app.users VALUES (12, NULL, 'd');
INSERT INTO app.many SELECT i, 'many-' || i FROM generate_series(1, 200001) i;
INSERT INTO app.users VALUES (13, NULL, 'e');
SAVEPOINT s; SELECT * FROM claims.pending_batch(); ROLLBACK TO s;
SAVEPOINT s; SELECT claims.begin_pending(1, 'regress_claims_first'); ROLLBACK TO s;
SAVEPOINT s; SELECT claims.automatic(1, 'regress_claims_first', '{ROUTES}'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO s;
COMMIT;
SELECT t.done(), (SELECT count(*) FROM app.many);
BEGIN; DELETE FROM app.many; SELECT claims.automatic(1, 'regress_claims_first', '{ROUTES}'); COMMIT;
-- without a service, and with one for a type of which nothing was forgotten
BEGIN; DELETE FROM app.many; SELECT claims.automatic(1, 'regress_claims_first', '{USERNAMES}');
UPDATE app.users SET username = 'd' WHERE id = 12; COMMIT;
DELETE FROM app.users WHERE id IN (12, 13); SELECT claims.automatic(1, NULL, '{USERNAMES}');
SELECT t.done(), (SELECT count(*) FROM app.many);
SELECT claims.unclaim_attribute('app.many', 'name');

-- verification: each service for its own types
SELECT claims.automatic(1, 'regress_claims_first');
SELECT s, source_type, missing, different, extra, skipped, finished
  FROM unnest(ARRAY['first', 'second']) s, unnest(ARRAY['RAILS_TABLE_ROUTES', 'RAILS_TABLE_USERS']) source_type,
       LATERAL claims.verify(1, 'regress_claims_' || s, source_type, recent => '0')
 ORDER BY 1, 2;
SELECT s, v.discrepancy, v.bucket_type, v.bucket_value FROM unnest(ARRAY['first', 'second']) s,
       LATERAL claims.list_discrepancies(1, 'regress_claims_' || s, 'RAILS_TABLE_ROUTES', recent => '0') v;
SELECT missing, corrected FROM claims.verify(1, 'regress_claims_first', 'RAILS_TABLE_ROUTES', recent => '0', correct => true);
-- a type goes from one service to another one: its claims at the first one are reported, and not destroyed before the second one has them
SELECT t.names();
SELECT claims.automatic(1, 'regress_claims_second', '{USERNAMES}');
SELECT missing, extra, corrected, skipped FROM claims.verify(1, 'regress_claims_first', 'RAILS_TABLE_USERS', recent => '0');
SELECT discrepancy, bucket_type, bucket_value, source_id, outcome
  FROM claims.list_discrepancies(1, 'regress_claims_first', 'RAILS_TABLE_USERS', recent => '0');
SELECT extra, corrected, skipped FROM claims.verify(1, 'regress_claims_first', 'RAILS_TABLE_USERS', recent => '0', correct => true);
SELECT missing, extra FROM claims.verify(1, 'regress_claims_second', 'RAILS_TABLE_USERS', recent => '0');
-- what it could not import, and then the import at its service
SELECT t.call($$SELECT claims.begin_import(1, 'regress_claims_first', 'RAILS_TABLE_USERS', NULL, 10, NULL)$$);
CALL claims.import_claims(1, 'regress_claims_second', 'RAILS_TABLE_USERS');
SELECT source_type, service, state, rows_done, collisions FROM claims.imports ORDER BY 1, 2;
SELECT t.names();
SELECT extra, corrected, skipped FROM claims.verify(1, 'regress_claims_first', 'RAILS_TABLE_USERS', recent => '0', correct => true);
SELECT t.names();
SELECT extra, skipped FROM claims.verify(1, 'regress_claims_first', 'RAILS_TABLE_USERS', recent => '0');

-- two servers lead to one service: the claim that a row needs is no second one there, and stays
SELECT t.server('regress_claims_alias', current_database());
SELECT claims.automatic(1, 'regress_claims_alias', '{ROUTES}');
SELECT missing, extra, corrected, skipped FROM claims.verify(1, 'regress_claims_first', 'RAILS_TABLE_ROUTES', recent => '0', correct => true);
SELECT missing, extra FROM claims.verify(1, 'regress_claims_alias', 'RAILS_TABLE_ROUTES', recent => '0');
SELECT t.names();
SELECT claims.automatic(1, NULL, '{ROUTES}');

-- in one database: the named types at their service, all others here
SELECT claims.automatic_here(1);
BEGIN; INSERT INTO app.routes VALUES (9, 'e'); INSERT INTO app.users VALUES (9, NULL, 'e'); SET CONSTRAINTS ALL IMMEDIATE;
SELECT service FROM claims.cells_outstanding_leases; ROLLBACK;
SELECT t.done();
INSERT INTO app.routes VALUES (9, 'e'); INSERT INTO app.users VALUES (9, NULL, 'e');
SELECT t.done();
-- observed names go to their service, too, and one that is dead fails no save
SELECT claims.set_enforcement('app.users', 'email', 'observe', 'test');
UPDATE app.users SET email = 'd' WHERE id = 9;
SELECT t.done();
ALTER SERVER regress_claims_second OPTIONS (SET port '1');
UPDATE app.users SET email = 'a9' WHERE id = 9; UPDATE app.routes SET path = 'b' WHERE id = 9;
SELECT outcome, count FROM claims.observations ORDER BY 1;
ALTER SERVER regress_claims_second OPTIONS (SET port :'PORT');

-- cleans up
SELECT claims.automatic(NULL, NULL);
SELECT claims.attend(1, NULL); SELECT count(*) FROM claims.attended_cells;
SELECT claims.unclaim_attribute('app.routes', 'path');
SELECT claims.unclaim_attribute('app.users', 'username'), claims.unclaim_attribute('app.users', 'email');
DROP SERVER regress_claims_alias CASCADE;
DROP SERVER regress_claims_first CASCADE; DROP SERVER regress_claims_second CASCADE; DROP SCHEMA app CASCADE;
DELETE FROM claims.own_epochs; DELETE FROM claims.cell_epochs; DELETE FROM claims.import_runs; DELETE FROM claims.observed;
SELECT t.clean();
DROP DATABASE regress_claims_second WITH (FORCE);
