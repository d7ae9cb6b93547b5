-- claim_attribute and unclaim_attribute: refusals, privileges, locks.
-- signatures, and the privileges of a cell that owns no captured table
BEGIN;
CREATE ROLE regress_claims_fresh;
SELECT claims.register_cell(79, 'regress_claims_fresh');
SELECT p.oid::regprocedure, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
    has_function_privilege('regress_claims_fresh', p.oid, 'EXECUTE') FROM pg_proc p
 WHERE pronamespace = 'claims'::regnamespace AND proname IN ('claim_attribute', 'unclaim_attribute', 'pending_batch', 'begin_pending',
   'finish', 'automatic', 'change_capture_triggers', 'capture_row', 'send_automatically') ORDER BY proname;
ROLLBACK;
CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO regress_claims_one;
CREATE TABLE app.routes (id int PRIMARY KEY, path text UNIQUE, owner_id bigint, name text, label varchar);
CREATE TABLE app.pair (a int, b int, path text UNIQUE, PRIMARY KEY (a, b));
CREATE DOMAIN app.moment AS timestamptz;
CREATE TABLE app.uuids (id uuid PRIMARY KEY, path text UNIQUE, n int);
CREATE TYPE app.mood AS ENUM ('good');
CREATE FUNCTION app.said(app.mood) RETURNS text LANGUAGE sql STABLE AS $$ SELECT current_setting('DateStyle') $$;
CREATE CAST (app.mood AS text) WITH FUNCTION app.said(app.mood);
CREATE TABLE app.moments (id app.moment PRIMARY KEY, path text UNIQUE, n int, weight float8, days date[], raw bytea, took interval,
      way path, area polygon, mood app.mood);
CREATE TABLE app.parent (id int PRIMARY KEY, path text); CREATE TABLE app.child () INHERITS (app.parent);
CREATE VIEW app.view AS SELECT * FROM app.routes;
CREATE UNLOGGED TABLE app.unlogged (id int PRIMARY KEY, path text UNIQUE);
CREATE TEMP TABLE temporary (id int PRIMARY KEY, path text UNIQUE);
-- t.claim_column() calls claim_attribute with one argument changed
CREATE FUNCTION t.claim_column(table_name text DEFAULT 'app.routes', attribute text DEFAULT 'path', bucket text DEFAULT 'ROUTES',
      subject text DEFAULT 'GROUP', subject_key text DEFAULT 'owner_id', source text DEFAULT 'RAILS_TABLE_ROUTES',
      source_key text DEFAULT NULL, condition text DEFAULT NULL) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.claim_attribute(%L, %L, %L, %L, %L, %L, %L, %L)', table_name, attribute, bucket, subject,
            subject_key, source, source_key, condition)) $$;
-- NULL arguments are refused
SELECT t.claim_column(table_name => NULL); SELECT t.claim_column(attribute => NULL); SELECT t.claim_column(bucket => NULL);
SELECT t.claim_column(subject => NULL); SELECT t.claim_column(subject_key => NULL); SELECT t.claim_column(source => NULL);
-- tables that do not exist or cannot be claimed are refused
SELECT t.claim_column('app.nothing');
SELECT t.claim_column('1234567');
SELECT t.claim_column('app.view');
SELECT t.claim_column('temporary');
SELECT t.claim_column('app.routes_pkey');
SELECT t.claim_column('app.parent');
SELECT t.claim_column('app.child');
SELECT t.claim_column('pg_catalog.pg_class');
SELECT t.claim_column('claims.cells');
-- columns that do not exist or have no fixed text are refused
SELECT t.claim_column(attribute => 'nothing');
SELECT t.claim_column(attribute => 'ctid');
SELECT t.claim_column(subject_key => 'nothing');
SELECT t.claim_column(source_key => 'nothing');
SELECT t.claim_column('app.moments', subject_key => 'n');
SELECT t.claim_column('app.moments', subject_key => 'weight', source_key => 'n');
SELECT t.claim_column('app.moments', subject_key => 'n', source_key => 'days');
SELECT t.claim_column('app.moments', subject_key => 'raw', source_key => 'n');
SELECT t.claim_column('app.pair', subject_key => 'a');
SELECT attribute || ': ' || (SELECT string_agg(c, ' ')
      FROM t.call(format($$SELECT claims.claim_attribute('app.moments', %L, 'ROUTES', 'GROUP', 'n', 'RAILS_TABLE_ROUTES', 'n')$$, attribute)) c)
  FROM unnest('{took,way,area,mood}'::name[]) attribute;
-- unknown types are refused
SELECT t.claim_column(bucket => 'NOTHING');
SELECT t.claim_column(bucket => 'UNSPECIFIED');
SELECT t.claim_column(bucket => 'routes');
SELECT t.claim_column(bucket => '1');
SELECT t.claim_column(subject => 'UNSPECIFIED');
SELECT t.claim_column(source => 'NOTHING');
SELECT t.claim_column(source => repeat('x', 100));
-- conditions that are no single boolean expression over the row are refused
SELECT t.claim_column(condition => '');
SELECT t.claim_column(condition => 'path');
SELECT t.claim_column(condition => 'nothing = 1');
SELECT t.claim_column(condition => 'path =');
SELECT t.claim_column(condition => 'true, true');
SELECT t.claim_column(condition => 'true) OR (true');
SELECT t.claim_column(condition => 'true FROM app.pair');
SELECT t.claim_column(condition => 'true AS x');
SELECT t.claim_column(condition => 'true; DROP TABLE app.pair');
SELECT t.claim_column(condition => 'true LIMIT 1');
SELECT t.claim_column(condition => 'true UNION SELECT true');
SELECT t.claim_column(condition => '*');
SELECT t.claim_column(condition => 'routes.*');
SELECT t.claim_column(condition => 'routes');
SELECT t.claim_column(condition => 'routes.* IS NOT NULL AND pg_temp.nothing()');
SELECT t.claim_column(condition => 'CAST(* AS boolean)');
SELECT t.claim_column(condition => 'DEFAULT');
SELECT t.claim_column(condition => 'EXISTS (SELECT FROM app.pair)');
SELECT t.claim_column(condition => 'count(*) > 1');
SELECT t.claim_column(condition => 'generate_series(1, 2) > 1');
SELECT t.claim_column(condition => 'row_number() OVER () = 1');
SELECT t.claim_column(condition => '$1');
SELECT t.claim_column(condition => 'pair.a > 1');
SELECT t.claim_column(condition => 'xmin::text > ''1''');
SELECT t.claim_column(condition => 'tableoid > 0');
SELECT t.claim_column(condition => 'routes.tableoid::regclass::text = ''x''');
-- a refused declaration leaves no row and no trigger
SELECT count(*) FROM claims.claimed_attributes; SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'claims_c%' OR tgname LIKE 'claims_t%';
-- valid, repeated and changed declarations; a warning for a missing unique index and for a condition that is not immutable
SELECT t.claim_column(); SELECT t.claim_column(); SELECT t.claim_column(source_key => 'owner_id', condition => E'-- a comment\npath <> ''x''');
SELECT * FROM claims.claimed_attributes;
SELECT t.claim_column(source_key => 'owner_id', condition => 'path <> ''x''');
SELECT t.claim_column(bucket => 'USERNAMES', subject => 'USER', subject_key => 'id', source => 'RAILS_TABLE_USERS',
      source_key => 'owner_id', condition => 'path <> ''x''');
SELECT t.claim_column();
SELECT t.claim_column(source_key => 'owner_id', condition => 'path <> ''x''');
SELECT t.claim_column(attribute => 'name');
SELECT t.claim_column(attribute => 'label', condition => 'current_date > ''2020-01-01''');
SELECT t.claim_column('app.unlogged', subject_key => 'id');
SELECT t.claim_column('app.pair', subject_key => 'a', source_key => 'b'); SELECT t.claim_column('app.uuids', subject_key => 'n', source_key => 'n');
SELECT count(*) FROM claims.claimed_attributes;
-- missing triggers are created again
DROP TRIGGER claims_truncate ON app.routes; DROP TRIGGER claims_capture ON app.routes;
SELECT t.claim_column(); SELECT tgname FROM pg_trigger WHERE tgrelid = 'app.routes'::regclass ORDER BY 1;
-- unclaim_attribute deletes the declaration and the triggers
SELECT t.call($$SELECT claims.unclaim_attribute(NULL, 'path')$$);
SELECT t.call($$SELECT claims.unclaim_attribute('app.routes', NULL)$$);
SELECT t.call($$SELECT claims.unclaim_attribute('app.routes', 'nothing')$$);
SELECT t.call($$SELECT claims.unclaim_attribute(1234567, 'path')$$);
SELECT count(claims.unclaim_attribute(table_name, attribute)) FROM claims.claimed_attributes;
SELECT count(*) FROM claims.claimed_attributes; SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'claims_c%' OR tgname LIKE 'claims_t%';
-- only the owner of the table, and roles with the owner's privileges, may declare
SET client_min_messages = error;
SET ROLE regress_claims_nobody; SELECT t.claim_column(); RESET ROLE;
SET ROLE regress_claims_one; SELECT t.claim_column();
SELECT t.call($$SELECT claims.unclaim_attribute('app.routes', 'path')$$);
-- internal functions and tables cannot be used directly
SELECT t.call($$SELECT claims.declare_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES', NULL, NULL, NULL, NULL)$$);
SELECT t.call($$SELECT claims.change_capture_triggers('app.routes'::regclass, true)$$);
SELECT t.call($$INSERT INTO claims.claimed_attributes
      VALUES ('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES', 'id') RETURNING 1$$);
SELECT t.call($$INSERT INTO claims.automatic_queue VALUES (0) RETURNING 1$$);
SELECT t.call('TABLE claims.claimed_attributes'), t.call('TABLE claims.claimed_columns');
CREATE TABLE app.own (id int PRIMARY KEY, path text UNIQUE);
SELECT t.claim_column('app.own', subject_key => 'id');
-- trigger functions on other tables: capture_row does nothing, and send_automatically cannot be used
CREATE TABLE app.other (id int);
CREATE TRIGGER x AFTER INSERT ON app.other FOR EACH ROW EXECUTE FUNCTION claims.capture_row();
BEGIN;
INSERT INTO app.other VALUES (1);
SELECT count(*) FROM t.pending();
COMMIT;
DROP TRIGGER x ON app.other;
SELECT t.call('DO $d$ BEGIN CREATE TRIGGER x AFTER INSERT ON app.other FOR EACH ROW EXECUTE FUNCTION claims.send_automatically(); END $d$');
BEGIN; INSERT INTO app.own VALUES (1, 'own'); SELECT * FROM t.pending(); COMMIT;
SELECT claims.unclaim_attribute('app.own', 'path');
RESET ROLE;
-- a member of the owner's role may declare
GRANT regress_claims_one TO regress_claims_two;
SET ROLE regress_claims_two;
SELECT t.claim_column('app.own', subject_key => 'id');
RESET ROLE;
REVOKE regress_claims_one FROM regress_claims_two;
-- the current role counts, not the owner of a SECURITY DEFINER function
CREATE FUNCTION t.as_definer(statement text) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS $$ SELECT t.call(statement) $$;
SET ROLE regress_claims_one;
SELECT t.as_definer($$SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES')$$);
RESET ROLE;
-- code of another owner that a superuser runs cannot declare
CREATE FUNCTION app.claims_it() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES');
    RETURN 1;
END $$;
CREATE MATERIALIZED VIEW app.trap AS SELECT app.claims_it() AS x WITH NO DATA;
DO $$
BEGIN
    REFRESH MATERIALIZED VIEW app.trap;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING MESSAGE = SQLSTATE || ' ' || SQLERRM;
END $$;
-- a hostile search_path changes nothing
CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.evil(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE FUNCTION evil.evil(name, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.evil);
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = text, FUNCTION = evil.evil);
CREATE FUNCTION evil.format(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE TABLE evil.pg_class (oid oid); CREATE TABLE evil.pg_trigger (tgrelid oid);
SET search_path = evil, app, pg_catalog;
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES',
      condition => 'routes.id OPERATOR(pg_catalog.>) 0');
BEGIN;
INSERT INTO app.routes VALUES (1, 'evil', 1);
SELECT create_records OPERATOR(pg_catalog.->) 0 OPERATOR(pg_catalog.->) 'bucket' FROM claims.pending_batch();
ROLLBACK;
SELECT claims.unclaim_attribute('app.routes', 'path');
RESET search_path;
-- table and column names that need quotes
CREATE TABLE app."Odd ""table" ("Id" int PRIMARY KEY, "the 'path'" text UNIQUE);
SELECT claims.claim_attribute('app."Odd ""table"', 'the ''path''', 'ROUTES', 'GROUP', 'Id', 'RAILS_TABLE_ROUTES',
      condition => '"Odd ""table"."the ''path''" <> ''''');
BEGIN; INSERT INTO app."Odd ""table" VALUES (1, 'x'), (2, ''); SELECT * FROM t.pending(); ROLLBACK;
SELECT claims.unclaim_attribute('app."Odd ""table"', 'the ''path''');
-- claim_attribute waits for open writers of the table
BEGIN; SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES');
SELECT mode FROM pg_locks WHERE relation = 'app.routes'::regclass AND pid = pg_backend_pid() AND mode ~ 'Exclusive' ORDER BY 1; ROLLBACK;
-- a rollback removes the declaration and the triggers
SELECT count(*) FROM claims.claimed_attributes; BEGIN; INSERT INTO app.routes VALUES (1, 'x', 1); SELECT count(*) FROM t.pending(); ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES');
INSERT INTO app.routes VALUES (1, 'x', 1);
SELECT * FROM t.pending();
ROLLBACK TO s;
INSERT INTO app.routes VALUES (1, 'x', 1);
SELECT * FROM t.pending();
ROLLBACK;
-- dropped tables are not declared any more
SET client_min_messages = error; DROP SCHEMA app, evil CASCADE; SELECT count(*) FROM claims.claimed_attributes;
