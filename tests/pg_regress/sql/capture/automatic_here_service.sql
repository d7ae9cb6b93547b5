-- Automatic mode in the shared database, beside what else the service does: shares, audit, limits, transfers, look-alikes. Leases 64xx.
SET client_min_messages = error;
\set VERBOSITY terse
SELECT t.clean();
CREATE SCHEMA app;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE DEFERRABLE, source_type text DEFAULT 'Namespace', source_id bigint DEFAULT 10);
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'source_id', 'RAILS_TABLE_ROUTES',
                              condition => $$source_type = 'Namespace'$$, declaration => 'groups'),
       claims.claim_attribute('app.routes', 'path', 'ROUTES', 'PROJECT', 'source_id', 'RAILS_TABLE_ROUTES',
                              condition => $$source_type IN ('Project', 'Both')$$, declaration => 'projects');
SELECT claims.automatic_here(1);
-- t.owned() returns the claims with their owners; those that are not ACTIVE show their status
CREATE FUNCTION t.owned() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(string_agg(concat_ws(' ', bucket_value, creator_id, CASE subject_type WHEN 2 THEN 'group' ELSE 'project' END, subject_id,
                                         'row', source_id,
                                         CASE WHEN status <> 1 OR lease_uuid IS NOT NULL THEN 'status ' || status END), ', '
                               ORDER BY bucket_value COLLATE "C"), 'none')
      FROM claims.claims $$;
CREATE FUNCTION t.log() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('cell %s %s by %s: %s %s %s', cell_id, what, session_role = session_user, ops, bucket_types, bucket_values)
      FROM claims.audit_log ORDER BY at, id $$;

-- a column with two declarations: each row has the subject of its own, a row that goes from one to the other is replaced
INSERT INTO app.routes VALUES (1, 'one', 'Namespace', 10), (2, 'two', 'Project', 20), (3, 'three', 'Other', 30);
SELECT t.owned();
UPDATE app.routes SET source_type = 'Project', source_id = 21 WHERE id = 1; SELECT t.owned();
UPDATE app.routes SET source_type = 'Other' WHERE id = 1; SELECT t.owned();
UPDATE app.routes SET source_type = 'Namespace' WHERE id = 1; SELECT t.owned();
-- each has its own enforcement
SELECT t.have(2, 'theirs');
SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'test', declaration => 'projects');
SET claims.observe_timeout = '1min';
INSERT INTO app.routes VALUES (4, 'theirs', 'Project');
DELETE FROM app.routes WHERE id = 4;
INSERT INTO app.routes VALUES (4, 'theirs', 'Namespace');
\echo :SQLSTATE
SELECT outcome, bucket_value, count FROM claims.observations;
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test');

-- a share: names of the share are refused, the others are saved and counted; what is free is claimed on both sides
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'half', 50);
SELECT claims.commit_update(2, claims.begin_update(2, (SELECT jsonb_agg(t.claim('held ' || n)) FROM generate_series(1, 40) n)));
DO $$ DECLARE refused int := 0; BEGIN
    FOR n IN 1..40 LOOP
        BEGIN
            SET CONSTRAINTS ALL IMMEDIATE;
            INSERT INTO app.routes VALUES (100 + n, 'held ' || n);
        EXCEPTION WHEN unique_violation THEN refused := refused + 1; END;
    END LOOP;
    RAISE INFO '% are refused, % are saved', refused, (SELECT count(*) FROM app.routes WHERE id > 100); END $$;
SELECT count(*), sum(count) FROM claims.observations WHERE bucket_value LIKE 'held%';
INSERT INTO app.routes SELECT 200 + n, 'free ' || n FROM generate_series(1, 40) n;
SELECT count(*) FROM claims.claims WHERE creator_id = 1 AND bucket_value LIKE 'free%' AND status = 1;
-- one statement with names of both sides, one of them refused: nothing of it is left
INSERT INTO app.routes SELECT 300 + n, CASE WHEN n = 20 THEN 'held ' || m ELSE 'more ' || n END
  FROM generate_series(1, 40) n,
       (SELECT n AS m FROM generate_series(1, 40) n WHERE NOT EXISTS (SELECT FROM app.routes WHERE id = 100 + n) LIMIT 1) m;
\echo :SQLSTATE
SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'more%';
DELETE FROM app.routes WHERE id > 4;
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'all');
SELECT claims.purge_observations('0') > 0;
SELECT claims.commit_update(2, claims.begin_update(2, '[]', (SELECT jsonb_agg(t.destroys('held ' || n) -> 0) FROM generate_series(1, 40) n)));
SELECT t.owned();

-- a row that was never claimed does not give up the claim of another row with its name; a row that takes the name adopts it
SELECT t.have(1, 'by hand');
BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO app.routes VALUES (90, 'by hand'); COMMIT;
DELETE FROM app.routes WHERE id = 90; SELECT t.owned();
BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO app.routes VALUES (1000, 'by hand'); COMMIT;
UPDATE app.routes SET path = 'by hand too' WHERE id = 1000; SELECT t.owned();
INSERT INTO app.routes VALUES (91, 'by hand'); SELECT t.owned();
DELETE FROM app.routes WHERE id IN (91, 1000);

-- the audit log has each save that changed names, once, and none that was rolled back
SET claims.audit = settled;
INSERT INTO app.routes VALUES (5, 'logged');
BEGIN; INSERT INTO app.routes VALUES (6, 'undone'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK;
BEGIN; UPDATE app.routes SET path = 'renamed' WHERE id = 5; INSERT INTO app.routes VALUES (7, 'logged', 'Project'); COMMIT;
BEGIN; INSERT INTO app.routes VALUES (8, 'eight'); SET CONSTRAINTS ALL IMMEDIATE;
SAVEPOINT s; DELETE FROM app.routes WHERE id = 8; ROLLBACK TO s; COMMIT;
INSERT INTO app.routes VALUES (9, 'theirs');
\echo :SQLSTATE
DELETE FROM app.routes WHERE id IN (5, 7, 8);
SELECT t.log();
SELECT count(DISTINCT lease_uuid) = count(*) FROM claims.audit_log;
TRUNCATE claims.audit_log;
RESET claims.audit;

-- the change feed has one change of each name
SET claims.change_feed = on;
BEGIN; UPDATE app.routes SET source_id = 22 WHERE id = 2; DELETE FROM app.routes WHERE id = 1; INSERT INTO app.routes VALUES (5, 'fed');
SELECT pg_current_xact_id()::text AS xid \gset
COMMIT;
SELECT op, bucket_value, old_cell_id, new_cell_id FROM claims.changes WHERE xid = :'xid'::xid8 ORDER BY op;
RESET claims.change_feed;
SELECT t.owned();

-- limits of the cell: records in a batch divide a save, a rate refuses it, and a limit of outstanding leases counts those of sessions elsewhere
SELECT claims.set_cell_limits(1, 'test', max_batch_size => 1) IS NULL;
INSERT INTO app.routes SELECT 20 + g, 'many ' || g FROM generate_series(1, 3) g;
UPDATE app.routes SET path = 'one more' WHERE id = 21;
SELECT t.owned();
-- a destroy and a create of one name stay in one batch, which may not be too large
BEGIN; DELETE FROM app.routes WHERE id = 22; INSERT INTO app.routes VALUES (31, 'many 2', 'Namespace', 31); COMMIT;
\echo :SQLSTATE
SELECT claims.set_cell_limits(1, 'test', max_batch_size => 2) IS NULL;
BEGIN; DELETE FROM app.routes WHERE id = 22; INSERT INTO app.routes VALUES (31, 'many 2', 'Namespace', 31); COMMIT;
SELECT t.owned();
SELECT claims.set_cell_limits(1, 'test', max_outstanding => 1) IS NULL;
SELECT claims.begin_update(1, t.creates('by hand'), lease_uuid => t.u(6401)) IS NULL;
INSERT INTO app.routes VALUES (40, 'over the limit');
\echo :SQLSTATE
SELECT claims.rollback_update(1, t.u(6401));
INSERT INTO app.routes VALUES (40, 'within the limit');
INSERT INTO app.routes VALUES (41, 'and again');
SELECT claims.set_cell_limits(1, 'test') IS NULL;
-- claims.max_batch_size of the server divides a save, too
SET claims.max_batch_size = 2;
INSERT INTO app.routes SELECT 50 + g, 'part ' || g FROM generate_series(1, 5) g;
SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'part%' AND status = 1;
DELETE FROM app.routes WHERE id > 50; SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'part%';
RESET claims.max_batch_size;
DELETE FROM app.routes; SELECT t.owned();

-- a mode that ends begins refuses it, as does the mode of all
SELECT claims.set_mode('read_only', 'test') IS NULL;
INSERT INTO app.routes VALUES (1, 'not now');
\echo :SQLSTATE
SELECT claims.set_mode('open', 'test') IS NULL;

-- a transfer beside it: what it holds can be neither renamed nor deleted; the rest can
INSERT INTO app.routes VALUES (1, 'moves', 'Namespace', 70), (2, 'stays', 'Namespace', 71);
SELECT finished FROM claims.prepare_transfer(t.u(6450), 1, 2, '[{"type": "GROUP", "ids": [70]}]', 'test');
UPDATE app.routes SET path = 'moves away' WHERE id = 1;
\echo :SQLSTATE
DELETE FROM app.routes WHERE id = 1;
\echo :SQLSTATE
UPDATE app.routes SET source_id = 72 WHERE id = 1;
\echo :SQLSTATE
UPDATE app.routes SET path = 'stays here' WHERE id = 2;
INSERT INTO app.routes VALUES (3, 'new', 'Namespace', 70);
SELECT t.owned();
SELECT claims.switch_transfer(t.u(6450), 'test');
DELETE FROM app.routes WHERE id = 1;
\echo :SQLSTATE
SELECT finished FROM claims.finish_transfer(t.u(6450));
DELETE FROM app.routes WHERE id = 1;
\echo :SQLSTATE
INSERT INTO app.routes VALUES (4, 'moves');
\echo :SQLSTATE
SELECT t.owned();
DELETE FROM app.routes;
-- and back: a row adopts the claim that came
SELECT finished FROM claims.prepare_transfer(t.u(6451), 2, 1, '[{"type": "GROUP", "ids": [70]}]', 'test');
SELECT claims.switch_transfer(t.u(6451), 'test'); SELECT finished FROM claims.finish_transfer(t.u(6451));
INSERT INTO app.routes VALUES (5, 'moves', 'Project', 73);
SELECT t.owned();

-- types that refuse look-alikes
SELECT claims.add_bucket_type(100, 'HANDLES', 'username', 'reject');
CREATE TABLE app.users (id bigint PRIMARY KEY, handle text UNIQUE DEFERRABLE);
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'id', 'RAILS_TABLE_USERS');
INSERT INTO app.users VALUES (1, 'Paypal');
INSERT INTO app.users VALUES (2, U&'p\0430yp\0430l');
\echo :SQLSTATE
UPDATE app.users SET handle = U&'p\0430yp\0430l' WHERE id = 1;
UPDATE app.users SET handle = 'PAYPAL' WHERE id = 1;
SELECT bucket_value, display_value, status FROM claims.claims WHERE bucket_type = 100;
BEGIN; INSERT INTO app.users VALUES (3, 'gone'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK;
INSERT INTO app.users VALUES (4, 'g0ne'), (5, 'other');
BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE app.users SET handle = CASE id WHEN 4 THEN 'Other' ELSE 'G0ne' END WHERE id IN (4, 5); COMMIT;
SELECT bucket_value, display_value, source_id, status FROM claims.claims WHERE bucket_type = 100 ORDER BY bucket_value COLLATE "C";
DELETE FROM app.users;
INSERT INTO app.users VALUES (6, 'paypal');
DELETE FROM app.users; DELETE FROM app.routes;
SELECT t.owned(), (SELECT count(*) FROM claims.skeletons), (SELECT count(*) FROM claims.claim_leases), (SELECT count(*) FROM claims.check());

-- rows from before: an import, and verification, by a server that leads to this database
BEGIN; SET LOCAL session_replication_role = replica;
INSERT INTO app.routes SELECT g, 'old ' || g, CASE g WHEN 2 THEN 'Project' ELSE 'Namespace' END FROM generate_series(1, 4) g; COMMIT;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_itself FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_itself OPTIONS (user 'postgres');
SET claims.service_timeout = '5min';
CALL claims.import_claims(1, 'regress_claims_itself', 'RAILS_TABLE_ROUTES');
SELECT t.owned();
UPDATE app.routes SET path = 'new 1' WHERE id = 1; DELETE FROM app.routes WHERE id = 2; SELECT t.owned();
BEGIN; SET LOCAL session_replication_role = replica; UPDATE app.routes SET path = 'new 3' WHERE id = 3; COMMIT;
SELECT missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_itself', 'RAILS_TABLE_ROUTES', recent => '0 s', correct => true);
SELECT t.owned();
DROP SERVER regress_claims_itself CASCADE; DELETE FROM claims.import_runs;
DELETE FROM app.routes; SELECT t.owned();

-- a table of claims that somebody has altered is written all the same, and its triggers see the claims
CREATE TABLE app.seen (bucket_value text, status int);
CREATE FUNCTION app.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO app.seen VALUES (coalesce(NEW.bucket_value, OLD.bucket_value), NEW.status); RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON claims.claims FOR EACH ROW EXECUTE FUNCTION app.see();
INSERT INTO app.routes VALUES (1, 'watched'); DELETE FROM app.routes;
DROP TRIGGER see ON claims.claims;
SELECT DISTINCT bucket_value FROM app.seen;
SELECT t.owned();

-- cleans up
SELECT claims.automatic(NULL, NULL);
SELECT claims.unclaim_attribute('app.routes', 'path'), claims.unclaim_attribute('app.users', 'handle');
DROP SCHEMA app CASCADE; DROP FUNCTION t.owned(), t.log();
DELETE FROM claims.transfer_subjects; DELETE FROM claims.cell_transfers; DELETE FROM claims.change_sets;
DELETE FROM claims.bucket_types WHERE id = 100; DELETE FROM claims.type_names WHERE id = 100;
SELECT claims.purge_observations('0') >= 0;
SELECT t.clean();
