-- Conditions and casts of a table's owner run with the owner's rights only: literals and casts are code, too.
SET client_min_messages = error;
CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO regress_claims_one;
-- app.as_owner and app.as_other record the role for which the owner's code ran
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
-- a literal in a condition, declared by the owner
SELECT claims.declare_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id',
      $$'{x}'::app.noting[] IS NOT NULL$$, NULL, NULL);
RESET SESSION AUTHORIZATION; SELECT t.seen(); SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.claim_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id',
      $$'{x}'::app.noting[] IS NOT NULL AND username <> 'x'::app.noting$$);
RESET SESSION AUTHORIZATION; SELECT t.seen();
-- a literal in a condition, declared by a superuser
SELECT claims.claim_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', $$'{x}'::app.noting[] IS NOT NULL$$);
SELECT t.seen();
-- captured by the owner and by others, and after the plan was made anew
SET debug_discard_caches = 0; -- a plan that is kept runs nothing
INSERT INTO app.users VALUES (1, 'a'); SELECT t.seen();
ALTER DOMAIN app.noting ADD CHECK (length(value) > 0); SELECT t.seen();
INSERT INTO app.users VALUES (2, 'b'); SELECT t.seen();
ALTER TABLE app.users ADD more text;
INSERT INTO app.users VALUES (3, 'c'); SELECT t.seen();
RESET debug_discard_caches;
-- read by expected_records
SELECT count(*) FROM claims.expected_records('RAILS_TABLE_USERS'); SELECT t.seen();
-- a condition over a table of another owner is refused
CREATE TABLE app.theirs (id int PRIMARY KEY);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.spell_out_condition('app.theirs'::regclass, '''{x}''::app.noting[] IS NOT NULL', false)$$);
RESET SESSION AUTHORIZATION; SELECT t.seen();
SELECT claims.unclaim_attribute('app.users', 'username');
-- capture of requests runs the owner's cast to json
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
-- an owner without other rights adds partitions to a claimed and captured table; they refuse TRUNCATE
SET SESSION AUTHORIZATION regress_claims_one;
CREATE TABLE app.parts (id bigint PRIMARY KEY, name text) PARTITION BY RANGE (id);
CREATE TABLE app.low PARTITION OF app.parts FOR VALUES FROM (0) TO (10);
SELECT claims.claim_attribute('app.parts', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS');
RESET SESSION AUTHORIZATION;
SELECT claims.capture_requests('app.parts', 'rights', 'name');
SET SESSION AUTHORIZATION regress_claims_one;
CREATE TABLE app.middle PARTITION OF app.parts FOR VALUES FROM (10) TO (20);
CREATE TABLE app.high (id bigint NOT NULL, name text) PARTITION BY RANGE (id);
CREATE TABLE app.highest PARTITION OF app.high FOR VALUES FROM (20) TO (30);
ALTER TABLE app.parts ATTACH PARTITION app.high FOR VALUES FROM (20) TO (30);
SELECT tgrelid::regclass, count(*), count(*) FILTER (WHERE tgname LIKE 'claims_truncate%') FROM pg_trigger
  WHERE tgrelid IN (SELECT relid FROM pg_partition_tree('app.parts')) GROUP BY tgrelid ORDER BY tgrelid::regclass::text COLLATE "C";
BEGIN; INSERT INTO app.parts VALUES (11, 'middle'), (21, 'high'); SELECT * FROM t.pending(); COMMIT;
SELECT t.call('TRUNCATE app.middle'); SELECT t.call('TRUNCATE app.highest');
-- a trigger that an owner puts on a table that is not captured records nothing
CREATE TABLE app.aside (id text);
CREATE TRIGGER aside AFTER INSERT ON app.aside FOR EACH ROW EXECUTE FUNCTION claims.capture_change('of others', 'id');
CREATE TRIGGER aside AFTER INSERT ON app.middle FOR EACH ROW EXECUTE FUNCTION claims.capture_change('of others', 'name');
INSERT INTO app.aside VALUES ('1'); INSERT INTO app.middle VALUES (12, 'x');
RESET SESSION AUTHORIZATION;
DELETE FROM claims.requests WHERE queue IN ('rights', 'of others') RETURNING queue, entity;
-- only tables that lack a trigger are locked, and only by a command that adds partitions
BEGIN; CREATE TABLE app.later PARTITION OF app.parts FOR VALUES FROM (30) TO (40);
SELECT relation::regclass, mode FROM pg_locks
  WHERE pid = pg_backend_pid() AND relation IN ('app.low'::regclass, 'app.middle'::regclass) AND mode LIKE '%Exclusive%';
ROLLBACK;
DROP TRIGGER claims_truncate ON app.low; ALTER TABLE app.parts ADD more text;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.low'::regclass AND tgname = 'claims_truncate';
-- a table without its own triggers is being restored: its partitions get none
DROP TRIGGER claims_truncate ON app.parts;
CREATE TABLE app.later PARTITION OF app.parts FOR VALUES FROM (30) TO (40);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.later'::regclass AND tgname = 'claims_truncate';
-- DROP TABLE deletes the declarations of the table
DROP TABLE app.parts, app.things; SELECT count(*) FROM claims.claimed_attributes; SELECT count(*) FROM claims.captured_tables WHERE queue = 'rights';
DROP SCHEMA app CASCADE; DROP FUNCTION t.seen();
