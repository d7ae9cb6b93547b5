-- Automatic mode in the shared database: a transaction claims in itself.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE DEFERRABLE, namespace_id int, other int);
CREATE TABLE app.redirects (id bigint PRIMARY KEY, path text, namespace_id int);
GRANT ALL ON app.routes, app.redirects TO PUBLIC;
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES'),
       claims.claim_attribute('app.redirects', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_REDIRECT_ROUTES');
DROP ROLE IF EXISTS regress_claims_app; CREATE ROLE regress_claims_app;
GRANT USAGE ON SCHEMA t TO regress_claims_app;
-- t.names() returns the claims with their owners; those that are not ACTIVE show their status
CREATE FUNCTION t.names() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(string_agg(concat_ws(' ', bucket_value, creator_id, 'for', source_id,
                                         CASE WHEN status <> 1 OR lease_uuid IS NOT NULL THEN 'status ' || status END), ', '
                               ORDER BY bucket_value COLLATE "C"), 'none') || ', leases ' || (SELECT count(*) FROM claims.claim_leases)
           || ', tracked ' || (SELECT count(*) FROM claims.cells_outstanding_leases)
      FROM claims.claims $$;

-- only administrators turn it on, for a registered cell
SELECT t.call($$SELECT claims.automatic_here(NULL)$$);
SELECT t.call($$SELECT claims.automatic_here(77)$$);
SET ROLE regress_claims_nobody; SELECT t.call($$SELECT claims.automatic_here(1)$$);
SET ROLE regress_claims_one; SELECT t.call($$SELECT claims.automatic_here(1)$$);
RESET ROLE;
SELECT claims.automatic_here(2), claims.automatic_here(1);
SELECT cell_id, service IS NULL FROM claims.automatic_service;
SELECT count(*) FROM claims.attended_cells;
-- another cell's role cannot turn it off
SET ROLE regress_claims_two; SELECT t.call($$SELECT claims.automatic(NULL, NULL)$$); RESET ROLE;

-- a role with privileges on the tables only: the claims are there with the COMMIT, and only then
SET SESSION AUTHORIZATION regress_claims_app;
INSERT INTO app.routes VALUES (1, 'one', 10);
SELECT t.names();
BEGIN; INSERT INTO app.routes VALUES (2, 'two', 10); SELECT t.names(); ROLLBACK;
SELECT t.names();
UPDATE app.routes SET path = 'eins' WHERE id = 1; SELECT t.names();
UPDATE app.routes SET other = 1; DELETE FROM app.routes; SELECT t.names();
-- savepoints
BEGIN;
INSERT INTO app.routes VALUES (1, 'kept', 10);
SAVEPOINT a; INSERT INTO app.routes VALUES (2, 'gone', 10); ROLLBACK TO a;
SAVEPOINT b; INSERT INTO app.routes VALUES (3, 'released', 10); RELEASE b;
COMMIT;
SELECT t.names();
-- a name goes from a deleted row to a new one, to another table, along a chain, and two rows swap theirs
BEGIN; DELETE FROM app.routes WHERE id = 1; INSERT INTO app.routes VALUES (4, 'kept', 11); COMMIT; SELECT t.names();
BEGIN; DELETE FROM app.routes WHERE id = 4; INSERT INTO app.redirects VALUES (5, 'kept', 11); COMMIT;
SELECT t.names();
DELETE FROM app.redirects; INSERT INTO app.routes VALUES (4, 'a', 10), (5, 'b', 10);
BEGIN; UPDATE app.routes SET path = 'c' WHERE id = 5; UPDATE app.routes SET path = 'b' WHERE id = 4; COMMIT; SELECT t.names();
BEGIN; SET CONSTRAINTS app.routes_path_key DEFERRED;
UPDATE app.routes SET path = CASE id WHEN 4 THEN 'c' ELSE 'b' END WHERE id IN (4, 5); COMMIT; SELECT t.names();
-- SET CONSTRAINTS IMMEDIATE claims at once, and a savepoint undoes it
BEGIN;
INSERT INTO app.routes VALUES (6, 'now', 10);
SET CONSTRAINTS ALL IMMEDIATE;
SELECT t.names();
SAVEPOINT a; DELETE FROM app.routes WHERE id = 6; INSERT INTO app.routes VALUES (7, 'now', 10); SELECT t.names(); ROLLBACK TO a;
SELECT t.names();
UPDATE app.routes SET path = 'then' WHERE id = 6; UPDATE app.routes SET path = 'now' WHERE id = 6;
COMMIT;
SELECT t.names();
BEGIN; INSERT INTO app.routes VALUES (8, 'undone', 10); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK;
DELETE FROM app.routes; SELECT t.names();
-- COPY
COPY app.routes FROM stdin;
1	copied	10	\N
2	copied too	10	\N
\.
SELECT t.names();
-- every isolation level
BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE app.routes SET path = 'repeatable' WHERE id = 1; COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE app.routes SET path = 'serializable' WHERE id = 2; COMMIT;
SELECT t.names();

-- a conflict with another cell fails the save as a unique violation of PostgreSQL's own
RESET SESSION AUTHORIZATION;
SELECT t.have(2, 'taken'); SELECT claims.begin_update(2, t.creates('leased'), lease_uuid => t.u(6301)) IS NULL;
SET SESSION AUTHORIZATION regress_claims_app;
\set SHOW_CONTEXT always
\set VERBOSITY default
INSERT INTO app.routes VALUES (3, 'taken', 10);
\echo :SQLSTATE
\set VERBOSITY terse
RESET SESSION AUTHORIZATION; GRANT USAGE ON SCHEMA claims TO regress_claims_app;
GRANT EXECUTE ON FUNCTION claims.last_conflicts() TO regress_claims_app;
SET SESSION AUTHORIZATION regress_claims_app;
SELECT table_name, attribute, bucket_value, source_id, reason, retryable, holder_cell_id FROM claims.last_conflicts();
UPDATE app.routes SET path = 'leased' WHERE id = 1;
\echo :SQLSTATE
-- with the fields that drivers read
DO $$ DECLARE s text; t text; c text; k text; BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    INSERT INTO app.routes VALUES (3, 'taken', 10);
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS s = SCHEMA_NAME, t = TABLE_NAME, c = COLUMN_NAME, k = CONSTRAINT_NAME;
    RAISE INFO '% % % %', s, t, c, k; END $$;
BEGIN; INSERT INTO app.routes VALUES (3, 'taken', 10); SET CONSTRAINTS ALL IMMEDIATE;
\echo :SQLSTATE
ROLLBACK;
BEGIN; SAVEPOINT a; INSERT INTO app.routes VALUES (3, 'taken', 10); SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO a; INSERT INTO app.routes VALUES (3, 'free', 10); COMMIT;
INSERT INTO app.redirects VALUES (1, 'same', 10), (2, 'same', 10);
\echo :SQLSTATE
INSERT INTO app.redirects VALUES (1, 'free', 10);
\echo :SQLSTATE
INSERT INTO app.routes VALUES (4, 'no subject', NULL);
\echo :SQLSTATE
SELECT t.names();
RESET SESSION AUTHORIZATION; SELECT claims.rollback_update(2, t.u(6301));

-- rows without claims, or with a name of another cell, can be renamed and deleted; a claim without a row is adopted
BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO app.routes VALUES (60, 'old', 10), (61, 'taken', 10); COMMIT;
SELECT t.have(1, 'spare');
SET SESSION AUTHORIZATION regress_claims_app;
UPDATE app.routes SET path = 'renamed' WHERE id = 60; DELETE FROM app.routes WHERE id = 61; INSERT INTO app.routes VALUES (62, 'spare', 12);
SELECT t.names();
RESET SESSION AUTHORIZATION;
DELETE FROM app.routes; SELECT t.names();

-- modes and limits of the cell hold, and a refused save leaves nothing
SELECT claims.set_mode('settle_only', 'test', 1) IS NULL;
INSERT INTO app.routes VALUES (1, 'not now', 10);
\echo :SQLSTATE
SELECT claims.set_mode('open', 'test', 1) IS NULL;
SELECT claims.set_cell_limits(1, 'test', max_batch_size => 2) IS NULL;
INSERT INTO app.routes SELECT g, 'many ' || g, 10 FROM generate_series(1, 5) g;
SELECT t.names();
DELETE FROM app.routes;
SELECT claims.set_cell_limits(1, 'test') IS NULL;
-- more changes than a batch may have, in one statement; the last one is taken
INSERT INTO app.routes SELECT g, 'bulk ' || g, 10 FROM generate_series(1, 5000) g;
SELECT count(*), count(*) FILTER (WHERE status = 1) FROM claims.claims WHERE creator_id = 1;
UPDATE app.routes SET path = CASE id WHEN 5000 THEN 'taken' ELSE 'more ' || id END;
\echo :SQLSTATE
SELECT count(*) FILTER (WHERE bucket_value LIKE 'bulk%'), count(*) FROM claims.claims WHERE creator_id = 1;
SELECT count(*) FROM app.routes WHERE path LIKE 'more%';
DELETE FROM app.routes; SELECT t.names();

-- enforcement: observed names are claimed where they can be, off claims nothing
SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'test');
SET claims.observe_timeout = '1min';
INSERT INTO app.routes VALUES (1, 'taken', 10), (2, 'seen', 10);
SELECT t.names();
SELECT attribute, outcome, bucket_value, holder_cell_id, count FROM claims.observations;
DELETE FROM app.routes; SELECT t.names();
-- in portions, where the cell may have fewer records in a batch
SELECT claims.set_cell_limits(1, 'test', max_batch_size => 2) IS NULL;
INSERT INTO app.routes SELECT g, CASE g WHEN 3 THEN 'taken' ELSE 'seen ' || g END, 10 FROM generate_series(1, 5) g; SELECT t.names();
SELECT attribute, outcome, bucket_value, count FROM claims.observations;
DELETE FROM app.routes; SELECT t.names();
SELECT claims.set_cell_limits(1, 'test') IS NULL;
SELECT claims.set_enforcement('app.routes', 'path', 'off', 'test');
INSERT INTO app.routes VALUES (1, 'unclaimed', 10); DELETE FROM app.routes; SELECT t.names();
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test');

-- is_available asks this database
SELECT claims.is_available('app.routes', 'path', 'taken'), claims.is_available('app.routes', 'path', 'free');

-- PREPARE TRANSACTION: the claims end with it
BEGIN; INSERT INTO app.routes VALUES (1, 'prepared', 10); PREPARE TRANSACTION 'regress_claims_here'; SELECT t.names();
COMMIT PREPARED 'regress_claims_here'; SELECT t.names();
BEGIN; INSERT INTO app.routes VALUES (2, 'undone', 10); PREPARE TRANSACTION 'regress_claims_here'; ROLLBACK PREPARED 'regress_claims_here';
SELECT t.names();

-- the change feed has the change of the transaction that made it
SET claims.change_feed = on;
BEGIN; UPDATE app.routes SET path = 'fed'; SELECT pg_current_xact_id()::text AS xid \gset
COMMIT;
SELECT op, bucket_value, old_cell_id, new_cell_id FROM claims.changes WHERE xid = :'xid'::xid8 ORDER BY op;
RESET claims.change_feed;

-- deferred triggers run first: nothing is claimed for what they refuse, and what they change is claimed
CREATE FUNCTION app.deferred() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.path = 'refused' THEN RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = 'refused'; END IF;
    IF NEW.path = 'more' THEN UPDATE app.routes SET path = 'changed' WHERE id = NEW.id; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER a_deferred AFTER INSERT OR UPDATE ON app.routes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.deferred();
INSERT INTO app.routes VALUES (9, 'refused', 10); INSERT INTO app.routes VALUES (10, 'more', 10); SELECT t.names();
DROP TRIGGER a_deferred ON app.routes;

-- what the tables' triggers do to the claims belongs to the save
CREATE FUNCTION app.refuse_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = 'no claim'; END $$;
CREATE TRIGGER refuse_claim BEFORE INSERT ON claims.claims FOR EACH ROW EXECUTE FUNCTION app.refuse_claim();
INSERT INTO app.routes VALUES (11, 'not claimed', 10);
\echo :SQLSTATE
DROP TRIGGER refuse_claim ON claims.claims;
SELECT count(*) FROM app.routes WHERE id = 11;

-- nothing is outstanding, check() finds nothing
SELECT t.names(); SELECT count(*) FROM claims.check();

-- a cell that is registered no more: no row is saved without its claim
INSERT INTO claims.automatic_service VALUES (true, 77, NULL) ON CONFLICT (single) DO UPDATE SET cell_id = 77;
INSERT INTO app.routes VALUES (12, 'nobody', 10);
\echo :SQLSTATE
SELECT claims.automatic_here(1);

-- turned off: rows are saved without claims
SET ROLE regress_claims_one; SELECT claims.automatic(NULL, NULL); RESET ROLE;
INSERT INTO app.routes VALUES (12, 'off', 10); SELECT t.names();
SELECT claims.unclaim_attribute('app.routes', 'path'), claims.unclaim_attribute('app.redirects', 'path');
DROP SCHEMA app CASCADE; DROP FUNCTION t.names();
REVOKE ALL ON SCHEMA t, claims FROM regress_claims_app; REVOKE ALL ON FUNCTION claims.last_conflicts() FROM regress_claims_app;
DROP ROLE regress_claims_app;
SELECT claims.purge_observations('0') > 0;
SELECT t.clean();
