-- Several declarations of a column, each with its condition.
SET client_min_messages = error;
SELECT t.clean();
CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO regress_claims_one;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE, source_type text, source_id bigint, note text);
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_declared FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_declared OPTIONS (user 'postgres');
SET claims.service_timeout = '5min';
-- t.declare() declares the path of one kind of routes
CREATE FUNCTION t.declare(declaration name, subject text, condition text, constraint_name name DEFAULT NULL) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.claim_attribute(%L, %L, %L, %L, %L, %L, condition => %L, declaration => %L, constraint_name => %L)',
        'app.routes', 'path', 'ROUTES', subject, 'source_id', 'RAILS_TABLE_ROUTES', condition, declaration, constraint_name)) $$;
CREATE FUNCTION t.declared() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', attribute, declaration, subject_type, constraint_name, condition) FROM claims.claimed_columns
     WHERE table_name = 'app.routes'::regclass ORDER BY 1 $$;
-- t.settle() waits until the sessions at the service are idle, and recovers what is left
CREATE FUNCTION t.settle() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active') LOOP
        PERFORM pg_sleep(0.01);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
    RETURN (SELECT pending FROM claims.reconcile(1, 'regress_claims_declared'));
END $$;
CREATE FUNCTION t.owned() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', bucket_value, subject_type, subject_id, source_id, status) FROM claims.records ORDER BY 1 $$;
-- names: by default that of the attribute, and of table and attribute; empty ones are refused
SELECT t.declare(NULL, 'GROUP', NULL); SELECT t.declared();
SELECT t.declare('', 'GROUP', NULL); SELECT t.declare('x', 'GROUP', NULL, '');
SELECT claims.unclaim_attribute('app.routes', 'path');
SELECT t.declare('groups', 'GROUP', $$source_type = 'Namespace'$$), t.declare('projects', 'PROJECT', $$source_type = 'Project'$$, 'routes_project');
SELECT t.declared();
-- the name of a constraint has at most 63 bytes; the longer part is cut
CREATE TABLE app.a_table_with_a_name_that_has_exactly_sixty_three_bytes_as_it_may (id int PRIMARY KEY, column_with_some_bytes text UNIQUE);
SELECT claims.claim_attribute('app.a_table_with_a_name_that_has_exactly_sixty_three_bytes_as_it_may', 'column_with_some_bytes', 'ROUTES', 'GROUP',
    'id', 'RAILS_TABLE_GROUPS');
SELECT constraint_name, length(constraint_name) FROM claims.claimed_columns WHERE attribute = 'column_with_some_bytes';
DROP TABLE app.a_table_with_a_name_that_has_exactly_sixty_three_bytes_as_it_may;
-- a repeated declaration changes its own row, and says so
SELECT t.declare('groups', 'GROUP', $$source_type = 'Namespace' AND id > 0$$, 'routes_group'); SELECT t.declared();
SET client_min_messages = notice;
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'source_id', 'RAILS_TABLE_ROUTES', condition => $$source_type = 'Namespace'$$,
    declaration => 'groups');
SET client_min_messages = error;
-- each row is claimed by the declaration whose condition holds; a row that goes from one to the other is a replace
BEGIN;
INSERT INTO app.routes VALUES (1, 'one', 'Namespace', 10), (2, 'two', 'Project', 20), (3, 'three', 'Nothing', 30);
SELECT * FROM t.pending();
ROLLBACK;
SELECT claims.automatic(1, 'regress_claims_declared');
INSERT INTO app.routes VALUES (1, 'one', 'Namespace', 10), (2, 'two', 'Project', 20), (3, 'three', 'Nothing', 30);
SELECT t.settle(); SELECT t.owned();
BEGIN;
UPDATE app.routes SET source_type = 'Project' WHERE id = 1;
SELECT * FROM t.pending();
COMMIT;
UPDATE app.routes SET source_type = 'Namespace' WHERE id = 3;
UPDATE app.routes SET source_type = 'Nothing' WHERE id = 2;
SELECT t.settle(); SELECT t.owned();
-- verification knows all of them, and corrects
SELECT checked, missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_declared', 'RAILS_TABLE_ROUTES');
SELECT claims.automatic(NULL, NULL);
UPDATE app.routes SET source_type = CASE source_type WHEN 'Project' THEN 'Namespace' ELSE 'Project' END;
SELECT discrepancy, bucket_value FROM claims.list_discrepancies(1, 'regress_claims_declared', 'RAILS_TABLE_ROUTES') ORDER BY 1, 2;
SELECT checked, missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_declared', 'RAILS_TABLE_ROUTES', correct => true,
    recent => '0 s');
SELECT t.settle(); SELECT t.owned();
SELECT claims.automatic(1, 'regress_claims_declared');
-- an import, and its preview, know all of them
BEGIN; SELECT claims.skip_capture('test');
INSERT INTO app.routes VALUES (11, 'eleven', 'Namespace', 110), (12, 'twelve', 'Project', 120), (13, 'thirteen', 'Nothing', 130); COMMIT;
SELECT t.have(2, 'eleven', 'twelve');
SELECT bucket_value, source_id, reason, holder_cell_id FROM claims.preview_import(1, 'regress_claims_declared', 'RAILS_TABLE_ROUTES');
SELECT claims.commit_update(2, claims.begin_update(2, '[]', t.destroys('eleven', 'twelve')));
CALL claims.import_claims(1, 'regress_claims_declared', 'RAILS_TABLE_ROUTES');
SELECT t.owned(); SELECT state, collisions FROM claims.imports;
BEGIN; DELETE FROM app.routes WHERE id > 10; COMMIT; SELECT t.settle(); SELECT t.owned();
-- a row of one declaration adopts the claim that no row of any other calls for
BEGIN; SELECT claims.skip_capture('test'); DELETE FROM app.routes WHERE id = 1; COMMIT;
INSERT INTO app.routes VALUES (4, 'one', 'Project', 40);
SELECT t.settle(); SELECT t.owned();
-- a row for which two declarations hold is refused, with both names, when it is written
SELECT t.declare('large', 'GROUP', 'source_id >= 100');
SELECT t.call($$INSERT INTO app.routes VALUES (5, 'five', 'Project', 100) RETURNING id$$);
SELECT t.call($$UPDATE app.routes SET source_id = 100 WHERE id = 4 RETURNING id$$);
SELECT t.call($$INSERT INTO app.routes VALUES (5, NULL, 'Project', 100) RETURNING id$$);
SELECT t.call($$UPDATE app.routes SET path = 'five' WHERE id = 5 RETURNING id$$);
-- such a row from before can be changed elsewhere, and deleted
BEGIN; SELECT claims.skip_capture('test'); UPDATE app.routes SET path = 'both' WHERE id = 5; COMMIT;
SELECT t.call($$UPDATE app.routes SET note = 'x' WHERE id = 5 RETURNING id$$);
SELECT t.call($$UPDATE app.routes SET path = 'other' WHERE id = 5 RETURNING id$$);
SELECT t.call($$DELETE FROM app.routes WHERE id = 5 RETURNING id$$);
-- errors of a save name the constraint of the declaration
SELECT t.have(2, 'taken');
\set VERBOSITY terse
INSERT INTO app.routes VALUES (6, 'taken', 'Project', 60);
INSERT INTO app.routes VALUES (6, 'taken', 'Namespace', 60);
\set VERBOSITY default
SELECT table_name, attribute, bucket_value, source_id, reason FROM claims.last_conflicts();
-- unclaim_attribute ends one declaration, or all
SELECT t.call($$SELECT claims.unclaim_attribute('app.routes', 'path', 'nothing')$$);
SELECT claims.unclaim_attribute('app.routes', 'path', 'large'); SELECT t.declared();
SELECT t.call($$INSERT INTO app.routes VALUES (7, 'seven', 'Namespace', 100) RETURNING id$$);
SELECT claims.unclaim_attribute('app.routes', 'path'); SELECT t.declared();
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.routes'::regclass AND tgname LIKE 'claims%';
SELECT t.call($$SELECT claims.unclaim_attribute('app.routes', 'path')$$);
SELECT claims.automatic(NULL, NULL);
SELECT t.clean();
DROP SCHEMA app CASCADE; DROP SERVER regress_claims_declared CASCADE;
DROP FUNCTION t.declare, t.declared, t.settle, t.owned;
