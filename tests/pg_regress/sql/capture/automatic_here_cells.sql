-- Several cells in one database: only who may act for the cell of automatic mode has its tables claim names there, and reads its rows.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
DROP ROLE IF EXISTS regress_claims_app, regress_claims_deploy;
CREATE ROLE regress_claims_app; CREATE ROLE regress_claims_deploy IN ROLE regress_claims_app, regress_claims_one;
CREATE SCHEMA app; CREATE SCHEMA mine AUTHORIZATION regress_claims_one; CREATE SCHEMA theirs AUTHORIZATION regress_claims_two;
GRANT USAGE ON SCHEMA app TO PUBLIC; GRANT USAGE ON SCHEMA t, claims TO regress_claims_app;
GRANT EXECUTE ON FUNCTION claims.claim_attribute, claims.declare_attribute, claims.spell_out_condition TO regress_claims_app;
-- t.names() returns the claims with their owners and sources
CREATE FUNCTION t.names() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(string_agg(concat_ws(' ', bucket_value, 'of', creator_id, 'for', source_id), ', ' ORDER BY bucket_value COLLATE "C"), 'none')
      FROM claims.claims $$;
CREATE FUNCTION t.declare(table_name text, declaration text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT t.call(format($c$SELECT claims.claim_attribute(%L, 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', declaration => %L)$c$,
                         table_name, declaration)) $$;
GRANT EXECUTE ON FUNCTION t.names, t.declare TO PUBLIC;
CREATE TABLE app.users (id bigint PRIMARY KEY, name text UNIQUE); ALTER TABLE app.users OWNER TO regress_claims_app;

-- a table of another cell that was declared before automatic mode is turned on
SET SESSION AUTHORIZATION regress_claims_two;
CREATE TABLE theirs.before (id bigint PRIMARY KEY, name text UNIQUE); INSERT INTO theirs.before VALUES (1, 'alice');
SELECT t.declare('theirs.before');
CREATE TABLE theirs.users (id bigint PRIMARY KEY, name text UNIQUE);
RESET SESSION AUTHORIZATION;
SELECT claims.automatic_here(1);
SET SESSION AUTHORIZATION regress_claims_one;
CREATE TABLE mine.users (id bigint PRIMARY KEY, name text UNIQUE); SELECT t.declare('mine.users');
INSERT INTO mine.users VALUES (1, 'alice'), (2, 'bob');
SELECT t.names();

-- another cell cannot declare, whatever it owns, and its earlier declaration claims and frees nothing
SET SESSION AUTHORIZATION regress_claims_two;
SELECT t.declare('theirs.users');
SELECT t.declare('theirs.before'), t.declare('theirs.before', 'second');
INSERT INTO theirs.before VALUES (2, 'bob');
DELETE FROM theirs.before;
UPDATE theirs.before SET name = 'dave';
BEGIN; SAVEPOINT s; DELETE FROM theirs.before WHERE id = 1; ROLLBACK TO s; DELETE FROM theirs.before; COMMIT;
BEGIN; DELETE FROM theirs.before; SET CONSTRAINTS ALL IMMEDIATE; COMMIT;
SELECT t.names();
-- nor while it observes or is off
SELECT claims.set_enforcement('theirs.before', 'name', 'observe', 'test');
INSERT INTO theirs.before VALUES (2, 'bob'), (3, 'carol'); DELETE FROM theirs.before; SELECT t.names();
SELECT claims.set_enforcement('theirs.before', 'name', 'off', 'test');
INSERT INTO theirs.before VALUES (1, 'alice'); SELECT t.names();
SELECT claims.set_enforcement('theirs.before', 'name', 'enforce', 'test');
DELETE FROM theirs.before; SELECT t.names();
-- its rows do not stop the cell from taking over a claim without a row
RESET SESSION AUTHORIZATION;
BEGIN; SELECT claims.skip_capture('written past the triggers'); DELETE FROM mine.users WHERE id = 1; COMMIT;
SET ROLE regress_claims_one; INSERT INTO mine.users VALUES (7, 'alice'); SELECT t.names(); RESET ROLE;

-- it reads no row and sees no declaration of the other tables, and its own ones
SET SESSION AUTHORIZATION regress_claims_two;
SELECT t.call($$SELECT claims.expected_records('RAILS_TABLE_USERS')$$);
SELECT t.call($$SELECT * FROM claims.digest_expected('RAILS_TABLE_USERS')$$);
SELECT table_name, attribute FROM claims.claimed_columns ORDER BY 1;
-- nor by calls for its own cell
SELECT t.call($$SELECT * FROM claims.list_discrepancies(2, 'no server', 'RAILS_TABLE_USERS')$$);
SELECT t.call($$SELECT * FROM claims.preview_import(2, 'no server', 'RAILS_TABLE_USERS')$$);
SELECT t.call($$SELECT * FROM claims.verify(2, 'no server', 'RAILS_TABLE_USERS', correct => true)$$);
SELECT t.call($$SELECT claims.begin_verification(2, 'RAILS_TABLE_USERS')$$);
SELECT t.call($$SELECT claims.begin_import(2, 'no server', 'RAILS_TABLE_USERS', NULL, 10, NULL)$$);
SELECT t.call($$SELECT claims.import_step(2, 'RAILS_TABLE_USERS')$$);
-- nor where a verification is, which is a source id, nor the error of one, which may have a value
RESET SESSION AUTHORIZATION;
INSERT INTO claims.verification_positions (cell_id, source_type, source_id) VALUES (1, 'RAILS_TABLE_USERS', '77');
INSERT INTO claims.verification_passes (pass, cell_id, source_type, correct)
VALUES ('00000000-0000-4000-8000-000000000001', 1, 'RAILS_TABLE_USERS', false);
INSERT INTO claims.verification_ranges VALUES ('00000000-0000-4000-8000-000000000001', 1, '78', '79');
INSERT INTO claims.pass_log (id, kind, cell_id, source_type, started_at, ended_at, sqlstate, message)
VALUES ('00000000-0000-4000-8000-000000000002', 'verify', 1, 'RAILS_TABLE_USERS', now(), now(), '22P02', 'invalid input: "alice"');
-- t.seen() returns what the views of a verification show the caller
CREATE FUNCTION t.seen() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(', ', (SELECT string_agg(p.source_id, ' ') FROM claims.verification_progress p),
                     (SELECT string_agg(w.source_id_gt || ' to ' || w.source_id_lte, ' ') FROM claims.verification_workers w),
                     (SELECT string_agg(coalesce(p.message, p.sqlstate), ' ') FROM claims.passes p WHERE p.kind = 'verify')) $$;
GRANT EXECUTE ON FUNCTION t.seen TO PUBLIC;
SET SESSION AUTHORIZATION regress_claims_two; SELECT t.seen();
CREATE FUNCTION theirs.mine_only(source_id text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
    BEGIN IF source_id = '77' THEN RAISE 'leaked %', source_id; END IF; RETURN true; END $$;
SELECT count(*) FROM claims.verification_progress WHERE theirs.mine_only(source_id);
-- until it may read them: the tables, all their rows
RESET SESSION AUTHORIZATION;
GRANT SELECT ON mine.users TO regress_claims_two;
SET ROLE regress_claims_two; SELECT t.call($$SELECT claims.expected_records('RAILS_TABLE_USERS')$$);
RESET ROLE; GRANT USAGE ON SCHEMA mine TO regress_claims_two;
SET ROLE regress_claims_two; SELECT jsonb_array_length(claims.expected_records('RAILS_TABLE_USERS'));
SELECT count(*) FROM claims.claimed_columns; SELECT t.seen();
RESET ROLE; ALTER TABLE mine.users ENABLE ROW LEVEL SECURITY;
SET ROLE regress_claims_two; SELECT t.call($$SELECT claims.expected_records('RAILS_TABLE_USERS')$$);
RESET ROLE; ALTER TABLE mine.users DISABLE ROW LEVEL SECURITY; REVOKE ALL ON mine.users FROM regress_claims_two;
-- the cell's own role, and administrators
SET ROLE regress_claims_one;
SELECT jsonb_array_length(claims.expected_records('RAILS_TABLE_USERS')), (SELECT records FROM claims.digest_expected('RAILS_TABLE_USERS'));
SELECT count(*) FROM claims.claimed_columns; SELECT t.seen();
SET ROLE regress_claims_admin; SELECT t.seen(); RESET ROLE;
CREATE ROLE regress_claims_watch; SELECT claims.grant_monitor('regress_claims_watch'); GRANT USAGE ON SCHEMA t TO regress_claims_watch;
SET ROLE regress_claims_watch; SELECT message FROM claims.passes WHERE kind = 'verify'; RESET ROLE;
SELECT claims.revoke_monitor('regress_claims_watch'); DROP OWNED BY regress_claims_watch; DROP ROLE regress_claims_watch;
SET ROLE regress_claims_admin; SELECT jsonb_array_length(claims.expected_records('RAILS_TABLE_USERS'));
RESET ROLE;

-- who owns the table but may not act for the cell cannot declare it; who has both rights can, and so can an administrator
SET SESSION AUTHORIZATION regress_claims_app; SELECT t.declare('app.users');
SET SESSION AUTHORIZATION regress_claims_one; SELECT t.declare('app.users');
SET SESSION AUTHORIZATION regress_claims_deploy; SELECT t.declare('app.users');
SET SESSION AUTHORIZATION regress_claims_app; INSERT INTO app.users VALUES (5, 'erin'); SELECT t.names();
-- that ends when the table gets another owner, or the database another cell
RESET SESSION AUTHORIZATION; ALTER TABLE app.users OWNER TO regress_claims_two;
SET SESSION AUTHORIZATION regress_claims_two; DELETE FROM app.users; SELECT t.names();
RESET SESSION AUTHORIZATION; ALTER TABLE app.users OWNER TO regress_claims_app;
SELECT claims.automatic(NULL, NULL), claims.automatic_here(2);
SET SESSION AUTHORIZATION regress_claims_app; DELETE FROM app.users;
SET SESSION AUTHORIZATION regress_claims_one; DELETE FROM mine.users; SELECT t.names();
RESET SESSION AUTHORIZATION; SELECT claims.automatic(NULL, NULL), claims.automatic_here(1);
SET SESSION AUTHORIZATION regress_claims_app; DELETE FROM app.users; SELECT t.names();
RESET SESSION AUTHORIZATION; SELECT t.declare('app.users');
SELECT declaration, approved_owner, approved_cell FROM claims.claimed_attributes ORDER BY approved_owner::text;
SELECT claims.automatic(NULL, NULL);
DELETE FROM claims.verification_positions; DELETE FROM claims.verification_ranges; DELETE FROM claims.verification_passes;
DELETE FROM claims.pass_log WHERE kind = 'verify';
DROP SCHEMA app, mine, theirs CASCADE;
DROP OWNED BY regress_claims_app, regress_claims_deploy; DROP ROLE regress_claims_app, regress_claims_deploy;
RESET client_min_messages;
SELECT t.clean();
