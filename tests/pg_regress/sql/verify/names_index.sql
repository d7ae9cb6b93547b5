-- The rows that have a name are found by an index on canonical forms, or by reading the table.
SET client_min_messages = error;
SET claims.service_timeout = '10s';
SELECT t.clean();
-- canonical_form returns NULL for an invalid name, and is immutable
SELECT profile, name, claims.canonical_form(profile, name)
  FROM (VALUES ('exact', 'Ada'), ('casefold', 'STRASSE'), ('username', 'ＡＤＡ'), ('domain', 'Bücher.example.'),
      ('email', 'Ada@Example.COM'), ('path', 'A/B'),
    ('username', 'no name'), ('username', U&'a\0378'), ('path', 'a//b'), ('username', ''), ('username', repeat('a', 1025)), (NULL, 'a'),
      ('path', NULL)) AS n (profile, name);
SELECT t.call($$SELECT claims.canonical_form('usernames', 'a')$$);
SELECT provolatile, proisstrict, proparallel, prosecdef, proconfig FROM pg_proc WHERE oid = 'claims.canonical_form(text, text)'::regprocedure;
BEGIN; SET LOCAL ROLE regress_claims_one; SELECT claims.canonical_form('username', 'Ada'); ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_router; SELECT claims.canonical_form('username', 'Ada'); ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_nobody; SELECT t.call($$SELECT claims.canonical_form('username', 'Ada')$$); ROLLBACK;
-- a role without privileges can write to, own and reindex a table with such an index, but not call the function
BEGIN;
CREATE TABLE public.indexed (name text);
GRANT INSERT, SELECT ON public.indexed TO regress_claims_nobody;
CREATE UNIQUE INDEX ON public.indexed (claims.canonical_form('username', name));
SET LOCAL ROLE regress_claims_nobody;
INSERT INTO public.indexed VALUES ('Ada');
SELECT t.call($$INSERT INTO public.indexed VALUES ('ADA') RETURNING 1$$);
RESET ROLE; ALTER TABLE public.indexed OWNER TO regress_claims_nobody; REINDEX TABLE public.indexed; ANALYZE public.indexed;
ROLLBACK;

SELECT claims.add_bucket_type(110, 'HANDLES', 'username');
CREATE SCHEMA app; GRANT USAGE, CREATE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.users (id bigint PRIMARY KEY, handle varchar(100), org int NOT NULL DEFAULT 1);
CREATE TABLE app.parts (id bigint, handle text, org int NOT NULL DEFAULT 1, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE app.part PARTITION OF app.parts FOR VALUES FROM (0) TO (1000);
ALTER TABLE app.users OWNER TO regress_claims_one;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_names FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_names OPTIONS (user 'postgres');
-- claim_attribute accepts a unique index on the canonical form of the column; its HINT names one otherwise
SET client_min_messages = warning;
ALTER TABLE app.users ADD other text, ADD "Odd 'one'" char(10);
BEGIN;
CREATE UNIQUE INDEX ON app.users (handle);
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
ROLLBACK;
BEGIN;
CREATE UNIQUE INDEX ON app.users (claims.canonical_form('username', handle));
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
ROLLBACK;
BEGIN;
CREATE UNIQUE INDEX ON app.users (claims.canonical_form('username', other));
SELECT claims.claim_attribute('app.users', 'other', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
ROLLBACK;
BEGIN;
CREATE UNIQUE INDEX ON app.users (claims.canonical_form('username', "Odd 'one'"));
SELECT claims.claim_attribute('app.users', 'Odd ''one''', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
ROLLBACK;
BEGIN;
CREATE INDEX ON app.users (claims.canonical_form('username', handle));
CREATE UNIQUE INDEX ON app.users (claims.canonical_form('casefold', handle));
CREATE UNIQUE INDEX ON app.users (claims.canonical_form('username', other));
CREATE UNIQUE INDEX ON app.users (claims.canonical_form('username', handle), org); CREATE UNIQUE INDEX ON app.users (lower(handle));
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS'); ROLLBACK;
BEGIN;
SELECT claims.claim_attribute('app.users', 'Odd ''one''', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
SELECT claims.claim_attribute('app.users', 'org', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
ROLLBACK;
ALTER TABLE app.users DROP other, DROP "Odd 'one'";
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
SELECT claims.claim_attribute('app.parts', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_EMAILS');
SET client_min_messages = error;
SELECT claims.automatic(1, 'regress_claims_names');
\set VERBOSITY terse
-- t.names_behind() changes rows without capture
CREATE PROCEDURE t.names_behind(statement text) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    EXECUTE statement;
    SET LOCAL session_replication_role = origin;
END $$;
-- t.adopted() shows whether a row adopted a claim, and whether the index was used
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

-- adoption without an index, with one, and with a partitioned table
BEGIN; SELECT t.adopted('USER-7', NULL); ROLLBACK;
CREATE UNIQUE INDEX users_handle ON app.users (claims.canonical_form('username', handle));
CREATE INDEX parts_handle ON app.parts (claims.canonical_form('username', handle));
ANALYZE app.users, app.parts;
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
BEGIN; SELECT t.adopted('USER-7', 'app.part_canonical_form_idx'); ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT t.adopted('uSER-7', 'app.users_handle'); ROLLBACK;
-- adoption finds the row that has the name, in whatever spelling and table
CALL t.names_behind($$UPDATE app.parts SET handle = 'uSeR-7' WHERE id = 5$$);
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
CALL t.names_behind($$UPDATE app.parts SET handle = 'Part-5' WHERE id = 5$$);
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
-- the unique index refuses a second row
INSERT INTO app.users VALUES (1001, 'USER-8');
-- an index of another profile, or that the owner may not use, is not used
DROP INDEX app.users_handle;
CREATE INDEX users_handle ON app.users (claims.canonical_form('casefold', handle));
BEGIN; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
DROP INDEX app.users_handle;
CREATE INDEX users_handle ON app.users (claims.canonical_form('username', handle));
BEGIN; ALTER TABLE app.users OWNER TO regress_claims_nobody; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
BEGIN; REVOKE USAGE ON SCHEMA claims FROM regress_claims_one; SELECT t.adopted('USER-7', 'app.users_handle'); ROLLBACK;
-- verification uses the index
BEGIN;
CALL t.names_behind($$UPDATE app.users SET handle = 'USER-9' WHERE id = 10$$);
CALL t.names_behind('DELETE FROM app.users WHERE id = 9');
SELECT pg_stat_get_xact_numscans('app.users_handle'::regclass) AS before \gset
SELECT missing, different, extra, corrected, finished FROM claims.verify(1, 'regress_claims_names', 'RAILS_TABLE_USERS', 1000, '0');
SELECT pg_stat_get_xact_numscans('app.users_handle'::regclass) > :before;
ROLLBACK;

-- a search that takes longer than the service may is no failure of the service: the save goes through,
-- nothing counts for the breaker, and a WARNING has the index
DROP INDEX app.users_handle, app.parts_handle;
CREATE SEQUENCE app.reads; GRANT USAGE ON SEQUENCE app.reads TO PUBLIC;
-- Called for every row that is read, before its name is compared.
-- The first search takes longer than the service may, all others a little more than a second.
CREATE FUNCTION app.read_slowly(id bigint) RETURNS boolean LANGUAGE plpgsql COST 0.00001 AS $$ BEGIN
    IF id = 8 THEN PERFORM pg_sleep(CASE nextval('app.reads') WHEN 1 THEN 10.5 ELSE 1.1 END); END IF; RETURN true; END $$;
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS', condition => 'app.read_slowly(id)');
\set VERBOSITY default
SET claims.breaker_timeout = 1; SET client_min_messages = warning;
INSERT INTO app.users VALUES (1002, 'USER-7');
SELECT nextval('app.reads'), failures FROM (SELECT max(failures) AS failures FROM claims.service_state) s;
SELECT count(*) FROM claims.reconcile(1, 'regress_claims_names');
SELECT source_id FROM claims.records WHERE bucket_type = 'HANDLES' AND bucket_value = 'user-7';
-- once in a session for each table
CALL t.names_behind('DELETE FROM app.users WHERE id = 9');
INSERT INTO app.users VALUES (1003, 'USER-9');
-- a column that is no text; an index that the table's owner may not use
CREATE TABLE app.codes (id bigint PRIMARY KEY, "Code" int, org int NOT NULL DEFAULT 1); CREATE INDEX ON app.codes ("Code");
CREATE TABLE app.members (id bigint PRIMARY KEY, name text, org int NOT NULL DEFAULT 1);
CREATE INDEX ON app.members (claims.canonical_form('username', name));
SET client_min_messages = error;
SELECT claims.unclaim_attribute('app.users', 'handle'),
       claims.claim_attribute('app.codes', 'Code', 'ROUTES', 'GROUP', 'org', 'RAILS_TABLE_ROUTES', condition => 'app.read_slowly(id)'),
       claims.claim_attribute('app.members', 'name', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS', condition => 'app.read_slowly(id)');
ALTER TABLE app.members OWNER TO regress_claims_nobody;
INSERT INTO app.codes VALUES (8, 80), (9, 90); INSERT INTO app.members VALUES (8, 'Member-8'), (9, 'Member-9');
SELECT count(*) FROM claims.reconcile(1, 'regress_claims_names');
CALL t.names_behind('DELETE FROM app.codes WHERE id = 9'); CALL t.names_behind('DELETE FROM app.members WHERE id = 9');
SET client_min_messages = warning;
INSERT INTO app.codes VALUES (10, 90);
INSERT INTO app.members VALUES (10, 'MEMBER-9');
SET client_min_messages = error;
SELECT claims.unclaim_attribute('app.codes', 'Code'), claims.unclaim_attribute('app.members', 'name');
\set VERBOSITY terse
RESET claims.breaker_timeout;

-- cleans up
SELECT claims.automatic(NULL, NULL);
SELECT claims.unclaim_attribute('app.parts', 'handle');
DROP SERVER regress_claims_names CASCADE;
DROP SCHEMA app CASCADE;
DROP FUNCTION t.adopted; DROP PROCEDURE t.names_behind;
DELETE FROM claims.cells_outstanding_leases;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
RESET client_min_messages;
SELECT t.clean();
