-- Conditions: which rows are claimed, and with whose rights a condition is evaluated.
SET client_min_messages = error;
CREATE SCHEMA app;
CREATE TABLE app.users (id int PRIMARY KEY, name text UNIQUE, kind text, state int DEFAULT 1);
SELECT claims.claim_attribute('app.users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS',
      condition => $$ kind <> 'bot' AND users.state > 0 $$);
SELECT condition FROM claims.claimed_attributes;
-- a condition that is true, false and NULL
BEGIN; INSERT INTO app.users VALUES (1, 'human', 'human'), (2, 'bot', 'bot'), (3, 'null', NULL); SELECT * FROM t.pending(); COMMIT;
-- a changed condition creates or destroys the claim, also together with a changed value
BEGIN; UPDATE app.users SET kind = 'human'; SELECT * FROM t.pending(); UPDATE app.users SET state = 0; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.users SET kind = 'bot' WHERE id = 1; UPDATE app.users SET kind = 'human' WHERE id = 1; SELECT count(*) FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.users SET kind = 'bot', name = 'gone' WHERE id = 1; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.users SET kind = 'human', name = 'come' WHERE id = 2; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.users SET name = 'bot2' WHERE id = 2; DELETE FROM app.users WHERE id > 1; SELECT count(*) FROM t.pending(); ROLLBACK;
-- a changed or removed condition applies from the next change on
SELECT claims.claim_attribute('app.users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', condition => 'kind IS NULL');
BEGIN; DELETE FROM app.users; SELECT * FROM t.pending(); ROLLBACK;
SELECT claims.claim_attribute('app.users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS');
BEGIN; DELETE FROM app.users; SELECT * FROM t.pending(); ROLLBACK;
SELECT count(*) FROM claims.claimed_attributes;
-- names in a condition are resolved when it is declared, and stay so under any search_path
CREATE FUNCTION app.wanted(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT $1 = 'human' $$;
CREATE FUNCTION t.wanted(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT true $$;
SET search_path = app;
SELECT claims.claim_attribute('users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', condition => 'wanted(kind)');
SET search_path = t;
BEGIN; DELETE FROM app.users; SELECT * FROM t.pending(); ROLLBACK;
RESET search_path;
SELECT condition FROM claims.claimed_attributes;
DROP FUNCTION t.wanted(text);
-- a column or table in the condition that was renamed is an error, until the condition fits again
ALTER TABLE app.users RENAME kind TO sort;
SELECT t.call('DELETE FROM app.users RETURNING 1');
ALTER TABLE app.users RENAME sort TO kind;
BEGIN; DELETE FROM app.users; SELECT * FROM t.pending(); ROLLBACK;
SELECT claims.claim_attribute('app.users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', condition => 'users IS NOT NULL');
ALTER TABLE app.users RENAME TO people;
SELECT t.call('DELETE FROM app.people RETURNING 1');
SELECT claims.claim_attribute('app.people', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', condition => 'app.wanted(kind)');
ALTER TABLE app.people RENAME TO users;
BEGIN; DELETE FROM app.users; SELECT * FROM t.pending(); ROLLBACK;

-- a condition runs with the rights of the table's owner, whoever writes, in a restricted operation
CREATE ROLE regress_claims_owner; CREATE ROLE regress_claims_writer;
GRANT USAGE, CREATE ON SCHEMA app TO regress_claims_owner; GRANT USAGE ON SCHEMA app TO regress_claims_writer;
ALTER TABLE app.users OWNER TO regress_claims_owner;
GRANT ALL ON app.users TO regress_claims_writer;
CREATE TABLE app.secret (x int); CREATE TABLE app.seen (by name); ALTER TABLE app.seen OWNER TO regress_claims_owner;
SET ROLE regress_claims_owner;
CREATE FUNCTION app.spy() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO app.seen VALUES (current_user); RETURN true; END $$;
CREATE FUNCTION app.peek() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM FROM app.secret; RETURN true; END $$;
CREATE FUNCTION app.escape() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RETURN true; END $$;
CREATE FUNCTION app.temp() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE x (); RETURN true; END $$;
RESET ROLE;
GRANT USAGE ON SCHEMA claims TO regress_claims_owner;
GRANT EXECUTE ON FUNCTION claims.claim_attribute, claims.declare_attribute, claims.spell_out_condition TO regress_claims_owner;
CREATE FUNCTION t.with_condition(condition text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
    SET LOCAL ROLE regress_claims_owner;
    PERFORM claims.claim_attribute('app.users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', condition => condition);
    SET LOCAL ROLE regress_claims_writer;
    RETURN QUERY SELECT t.call('UPDATE app.users SET name = name || ''x'' WHERE id = 1 RETURNING id, name');
    SET LOCAL ROLE postgres;
END $$;
SELECT t.with_condition('app.spy()');
SELECT DISTINCT by FROM app.seen;
SELECT t.with_condition('app.peek()');
SELECT t.with_condition('app.escape()');
SELECT t.with_condition('app.temp()');
SELECT t.with_condition(NULL);
-- an error in a condition fails the write
SELECT t.with_condition('1 / (id - 1) > 0');
SELECT claims.unclaim_attribute('app.users', 'name');
DROP SCHEMA app CASCADE;
REVOKE ALL ON ALL ROUTINES IN SCHEMA claims FROM regress_claims_owner; REVOKE ALL ON SCHEMA claims FROM regress_claims_owner;
DROP ROLE regress_claims_owner; DROP ROLE regress_claims_writer;
