-- Tracked leases are written without statements, and as statements would write them. The service is in the same database.
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS amcheck;
SELECT t.clean();
CREATE SCHEMA app;
GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE, namespace_id int);
GRANT ALL ON app.routes TO PUBLIC;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_pending FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_pending OPTIONS (user 'postgres');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
SET claims.service_timeout = '5min';
RESET client_min_messages;
-- The plans of this session for an INSERT of a tracked lease: none, if leases were only tracked directly.
CREATE FUNCTION pg_temp.plans() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE 'INSERT INTO claims.cells_outstanding_leases%'
$$;
CREATE FUNCTION pg_temp.rows() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', l.cell_id, l.service, clock_timestamp() - l.created_at BETWEEN '0' AND '1 min',
                     clock_timestamp() - l.updated_at BETWEEN '0' AND '1 min', claims.lease_outcome(1, l.uuid))
      FROM claims.cells_outstanding_leases l
$$;
-- Saves a row after a change of the table, reads the tracked lease, and undoes all.
CREATE FUNCTION pg_temp.saved(change text, reads text DEFAULT 'SELECT * FROM pg_temp.rows()') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT * FROM t.after_change(change || '; INSERT INTO app.routes VALUES (1, ''one'', 10)',
        $u$SELECT t.state_of($c$SELECT claims.begin_pending(1, 'regress_claims_pending')$c$)$u$, reads)
$$;
-- a row for the lease, without a statement
SELECT pg_temp.saved('SELECT');
SELECT pg_temp.plans();
-- a cell has no right on the table, and needs none
BEGIN;
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
INSERT INTO app.routes VALUES (2, 'two', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
SELECT count(*) FROM claims.cells_outstanding_leases;
ROLLBACK;
-- the row survives with the transaction, and its index entry is complete
BEGIN;
INSERT INTO app.routes VALUES (4, 'four', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
COMMIT;
SELECT * FROM pg_temp.rows();
SELECT bt_index_check('claims.cells_outstanding_leases_pkey', true);
SELECT count(*) FROM verify_heapam('claims.cells_outstanding_leases');
SELECT claims.finish(1, 'regress_claims_pending', :'lease');
SELECT count(*) FROM claims.cells_outstanding_leases;
SELECT pg_temp.plans();
-- a table with other columns, constraints, triggers, rules or indexes is written with statements; the NOTICE comes once
SELECT pg_temp.saved('ALTER TABLE claims.cells_outstanding_leases ADD note text DEFAULT ''added''',
    'SELECT note FROM claims.cells_outstanding_leases');
SELECT pg_temp.plans() > 0;
SELECT pg_temp.saved('ALTER TABLE claims.cells_outstanding_leases ADD CHECK (cell_id <> 1)', 'SELECT ''none''');
SELECT pg_temp.saved('CREATE UNIQUE INDEX one_lease ON claims.cells_outstanding_leases ((cell_id % 1))',
    'SELECT (bt_index_check(''claims.one_lease'', true) IS NOT NULL)::text');
SELECT pg_temp.saved('ALTER TABLE claims.cells_outstanding_leases ALTER service SET DEFAULT ''other''');
SELECT pg_temp.saved('ALTER TABLE claims.cells_outstanding_leases ALTER service TYPE text COLLATE "C"');
CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% % %', tg_op, tg_table_name, new.service;
    RETURN new;
END $$;
SELECT pg_temp.saved('CREATE TRIGGER tell BEFORE INSERT ON claims.cells_outstanding_leases FOR EACH ROW EXECUTE FUNCTION pg_temp.tell()');
-- check() says so
SELECT pg_temp.saved('ALTER TABLE claims.cells_outstanding_leases ALTER created_at DROP NOT NULL',
    'SELECT problem || '': '' || detail FROM claims.check() WHERE problem LIKE ''table is not%''');
-- nothing of this is left, and a new session writes directly again
\c -
SET claims.service_timeout = '5min';
BEGIN;
INSERT INTO app.routes VALUES (5, 'five', 10);
SELECT claims.begin_pending(1, 'regress_claims_pending') AS lease \gset
ROLLBACK;
SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE 'INSERT INTO claims.cells_outstanding_leases%';
SET client_min_messages = error;
SELECT claims.unclaim_attribute('app.routes', 'path');
DROP SCHEMA app CASCADE;
DROP SERVER regress_claims_pending CASCADE;
DELETE FROM claims.lease_fences;
SELECT t.clean();
