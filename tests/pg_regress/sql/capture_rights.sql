-- Whose rights the code of a table's owner gets: literals and casts are code, too, and run when they are read.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SET client_min_messages = error;
CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO regress_claims_one;
-- whoever they were called for is noted by code that needs no rights to do so
CREATE SEQUENCE app.as_owner; CREATE SEQUENCE app.as_other; GRANT USAGE, SELECT ON app.as_owner, app.as_other TO PUBLIC;
CREATE FUNCTION t.seen() RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text := format('as the owner: %s, as somebody else: %s', (SELECT is_called FROM app.as_owner), (SELECT is_called FROM app.as_other));
BEGIN
    ALTER SEQUENCE app.as_owner RESTART; ALTER SEQUENCE app.as_other RESTART;
    RETURN r;
END $$;
SET SESSION AUTHORIZATION regress_claims_one;
CREATE FUNCTION app.note(value text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval(CASE WHEN current_user = 'regress_claims_one' THEN 'app.as_owner' ELSE 'app.as_other' END);
    RETURN true;
END $$;
CREATE DOMAIN app.noting AS text CHECK (app.note(value));
CREATE TABLE app.users (id bigint PRIMARY KEY, username text UNIQUE);
\echo -- a literal in a condition: declared, with and without claim_attribute
SELECT claims.declare_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', $$'{x}'::app.noting[] IS NOT NULL$$);
RESET SESSION AUTHORIZATION; SELECT t.seen(); SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.claim_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', $$'{x}'::app.noting[] IS NOT NULL AND username <> 'x'::app.noting$$);
RESET SESSION AUTHORIZATION; SELECT t.seen();
\echo -- by a superuser
SELECT claims.claim_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', $$'{x}'::app.noting[] IS NOT NULL$$);
SELECT t.seen();
\echo -- captured, by the owner and by others; planned anew
INSERT INTO app.users VALUES (1, 'a'); SELECT t.seen();
ALTER DOMAIN app.noting ADD CHECK (length(value) > 0); SELECT t.seen();
INSERT INTO app.users VALUES (2, 'b'); SELECT t.seen();
ALTER TABLE app.users ADD more text;
INSERT INTO app.users VALUES (3, 'c'); SELECT t.seen();
\echo -- compared
SELECT count(*) FROM claims.expected_records('RAILS_TABLE_USERS'); SELECT t.seen();
\echo -- a condition over a table of somebody else
CREATE TABLE app.theirs (id int PRIMARY KEY);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.spell_out_condition('app.theirs'::regclass, '''{x}''::app.noting[] IS NOT NULL', false)$$);
RESET SESSION AUTHORIZATION; SELECT t.seen();
SELECT claims.unclaim_attribute('app.users', 'username');
\echo -- requests: a cast to json
SET SESSION AUTHORIZATION regress_claims_one;
CREATE TYPE app.kind AS ENUM ('a');
CREATE FUNCTION app.note(value app.kind) RETURNS json LANGUAGE plpgsql AS $$ BEGIN PERFORM app.note('x'::text); RETURN '1'; END $$;
CREATE CAST (app.kind AS json) WITH FUNCTION app.note(app.kind);
CREATE TABLE app.things (id text PRIMARY KEY, kind app.kind);
RESET SESSION AUTHORIZATION;
SELECT claims.capture_requests('app.things', 'rights', 'id');
INSERT INTO app.things VALUES ('1', 'a'); SELECT t.seen();
SET SESSION AUTHORIZATION regress_claims_one;
INSERT INTO app.things VALUES ('2', 'a');
RESET SESSION AUTHORIZATION; SELECT t.seen();
DELETE FROM claims.requests WHERE queue = 'rights' RETURNING entity, payload;
DROP SCHEMA app CASCADE; DROP FUNCTION t.seen();
