-- Which row of a cell calls for a name: by an index of canonical forms where there is one, by reading the table where there is none.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SET client_min_messages = error;
SET claims.service_timeout = '10s';
SELECT t.clean();
\echo -- a function for indexes: NULL for what is no name, and immutable
SELECT profile, name, claims.canonical_form(profile, name) FROM (VALUES ('exact', 'Ada'), ('casefold', 'STRASSE'), ('username', 'ＡＤＡ'), ('domain', 'Bücher.example.'), ('email', 'Ada@Example.COM'), ('path', 'A/B'),
    ('username', 'no name'), ('username', U&'a\0378'), ('path', 'a//b'), ('username', ''), ('username', repeat('a', 1025)), (NULL, 'a'), ('path', NULL)) AS n (profile, name);
SELECT t.call($$SELECT claims.canonical_form('usernames', 'a')$$);
SELECT provolatile, proisstrict, proparallel, prosecdef, proconfig FROM pg_proc WHERE oid = 'claims.canonical_form(text, text)'::regprocedure;
BEGIN; SET LOCAL ROLE regress_claims_one; SELECT claims.canonical_form('username', 'Ada'); ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_router; SELECT claims.canonical_form('username', 'Ada'); ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_nobody; SELECT t.call($$SELECT claims.canonical_form('username', 'Ada')$$); ROLLBACK;

SELECT claims.add_bucket_type(110, 'HANDLES', 'username');
CREATE SCHEMA app; GRANT USAGE, CREATE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.users (id bigint PRIMARY KEY, handle varchar(100), org int NOT NULL DEFAULT 1);
CREATE TABLE app.parts (id bigint, handle text, org int NOT NULL DEFAULT 1, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE app.part PARTITION OF app.parts FOR VALUES FROM (0) TO (1000);
ALTER TABLE app.users OWNER TO regress_claims_one;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_names FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_names OPTIONS (user 'postgres');
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
SELECT claims.claim_attribute('app.parts', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_EMAILS');
SELECT claims.automatic(1, 'regress_claims_names');
\set VERBOSITY terse
-- Claims that no row calls for, as the triggers of the table had been passed by.
CREATE PROCEDURE t.names_behind(statement text) LANGUAGE plpgsql AS $$ BEGIN SET LOCAL session_replication_role = replica; EXECUTE statement; SET LOCAL session_replication_role = origin; END $$;
-- A row adopts the claim of a name: which way its callers were looked for. Nothing is kept.
CREATE FUNCTION t.adopted(name text, index regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE before bigint := pg_stat_get_xact_numscans(index); outcome text := 'adopted';
BEGIN
    BEGIN
        INSERT INTO app.users VALUES (1000, name);
        SET CONSTRAINTS ALL IMMEDIATE;
    EXCEPTION WHEN OTHERS THEN outcome := SQLSTATE; END;
    RETURN format('%s, %s', outcome, CASE WHEN pg_stat_get_xact_numscans(index) > before THEN 'by the index' ELSE 'without it' END);
END $$;
INSERT INTO app.users SELECT n, 'User-' || n FROM generate_series(1, 300) n;
INSERT INTO app.parts SELECT n, 'Part-' || n FROM generate_series(1, 300) n;
SELECT count(*) FROM claims.reconcile(1, 'regress_claims_names');
CALL t.names_behind('DELETE FROM app.users WHERE id = 7');
ANALYZE app.users, app.parts;

\echo -- without an index; with one; also of a partitioned table
BEGIN; SELECT t.adopted('USER-7', NULL); ROLLBACK;
CREATE UNIQUE INDEX users_handle ON app.users (claims.canonical_form('username', handle));
CREATE INDEX parts_handle ON app.parts (claims.canonical_form('username', handle));
ANALYZE app.users, app.parts;
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
BEGIN; SELECT t.adopted('USER-7', 'app.part_canonical_form_idx'); ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT t.adopted('uSER-7', 'app.users_handle'); ROLLBACK;
-- the answers are the same: a row that calls for it, in whatever spelling and table
CALL t.names_behind($$UPDATE app.parts SET handle = 'uSeR-7' WHERE id = 5$$);
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
CALL t.names_behind($$UPDATE app.parts SET handle = 'Part-5' WHERE id = 5$$);
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
\echo -- the index also refuses a second row by itself
INSERT INTO app.users VALUES (1001, 'USER-8');
\echo -- of another profile it is of no use; nor where the owner may not use the function
DROP INDEX app.users_handle;
CREATE INDEX users_handle ON app.users (claims.canonical_form('casefold', handle));
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
DROP INDEX app.users_handle;
CREATE INDEX users_handle ON app.users (claims.canonical_form('username', handle));
BEGIN; ALTER TABLE app.users OWNER TO regress_claims_nobody; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
BEGIN; REVOKE USAGE ON SCHEMA claims FROM regress_claims_one; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
\echo -- verification looks in the same way
BEGIN;
CALL t.names_behind($$UPDATE app.users SET handle = 'USER-9' WHERE id = 10$$);
CALL t.names_behind('DELETE FROM app.users WHERE id = 9');
SELECT pg_stat_get_xact_numscans('app.users_handle'::regclass) AS before \gset
SELECT missing, different, extra, corrected, finished FROM claims.verify(1, 'regress_claims_names', 'RAILS_TABLE_USERS', 1000, '0');
SELECT pg_stat_get_xact_numscans('app.users_handle'::regclass) > :before;
ROLLBACK;

SELECT claims.automatic(NULL, NULL);
SELECT claims.unclaim_attribute('app.users', 'handle'), claims.unclaim_attribute('app.parts', 'handle');
DROP SERVER regress_claims_names CASCADE;
DROP SCHEMA app CASCADE;
DROP FUNCTION t.adopted; DROP PROCEDURE t.names_behind;
DELETE FROM claims.cells_outstanding_leases;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
RESET client_min_messages;
SELECT t.clean();
