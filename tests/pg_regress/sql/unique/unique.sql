-- Unique across tables of one database: a value stands once in a column of all tables together.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
CREATE SCHEMA one; CREATE SCHEMA two;
CREATE TABLE one.users (id int PRIMARY KEY, email text, kind text);
CREATE TABLE two.users (kind text, id int, email varchar(100));
CREATE TABLE events (id int, day date, key text) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
GRANT ALL ON one.users, two.users, events TO PUBLIC; GRANT USAGE ON SCHEMA one, two TO PUBLIC;
-- t.claimed() returns the values with the tables in which they stand
CREATE FUNCTION t.claimed() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(string_agg(c.bucket_value || ' in ' || coalesce(u.table_name::text, 'none'), ', ' ORDER BY c.bucket_value COLLATE "C"), 'none')
      FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id $$;

-- who may call it, and with what
SET ROLE regress_claims_one; SELECT t.state_of($$SELECT claims.add_unique('u', '{one.users}', 'email')$$); RESET ROLE;
SELECT t.call($$SELECT claims.add_unique(NULL, '{one.users}', 'email')$$);
SELECT t.call($$SELECT claims.add_unique('u', '{}', 'email')$$);
SELECT t.call($$SELECT claims.add_unique('u', '{one.users}', 'nothing')$$);
SELECT t.call($$SELECT claims.add_unique('u', '{events_1}', 'key')$$);
SELECT t.call($$SELECT claims.add_unique('ROUTES', '{one.users}', 'email')$$);
SELECT t.call($$SELECT claims.add_unique('u', '{one.users}', 'email', 'no profile')$$);
SELECT t.call($$SELECT claims.add_unique('17', '{one.users}', 'email')$$);
SELECT t.call($$SELECT claims.add_unique(repeat('x', 64), '{one.users}', 'email')$$);
SELECT t.call($$SELECT claims.drop_unique('u', 'test')$$);

-- tenants: values that are there twice are refused, and nothing is changed
INSERT INTO one.users VALUES (1, 'Ann@x', 'a'), (2, NULL, 'a'); INSERT INTO two.users VALUES ('b', 1, 'ann@x'), ('b', 2, NULL);
SELECT t.call($$SELECT claims.add_unique('emails', '{one.users, two.users}', 'email', 'casefold')$$);
SELECT * FROM claims.unique_duplicates('{one.users, two.users}', 'email', 'casefold');
SELECT * FROM claims.unique_duplicates('{one.users, two.users}', 'email');
SELECT count(*) FROM claims.uniques; SELECT count(*) FROM claims.automatic_service;
UPDATE two.users SET email = 'bob@x' WHERE id = 1;
SELECT claims.add_unique('emails', '{two.users, one.users}', 'email', 'casefold', reason => 'tenants');
SELECT name, table_names, column_name, profile, condition, cell_id, reason FROM claims.uniques;
SELECT t.claimed();
SELECT t.call($$SELECT claims.add_unique('emails', '{events}', 'key')$$);
-- it is needed
SELECT t.call($$SELECT claims.automatic(NULL, NULL)$$);
SELECT t.call($$SELECT claims.automatic(1, 'elsewhere')$$);

-- a violation reads like PostgreSQL's own
CREATE FUNCTION t.fields(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text; of_schema text; of_table text; of_column text; of_constraint text;
BEGIN
    EXECUTE command;
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN 'done';
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, of_schema = SCHEMA_NAME, of_table = TABLE_NAME, of_column = COLUMN_NAME,
                            of_constraint = CONSTRAINT_NAME;
    RETURN concat_ws(' ', state, of_schema, of_table, of_column, of_constraint);
END $$;
SET ROLE regress_claims_nobody;
SELECT t.fields($$INSERT INTO two.users VALUES ('b', 3, 'ANN@X')$$);
INSERT INTO two.users VALUES ('b', 3, 'ANN@X');
BEGIN; INSERT INTO two.users VALUES ('b', 3, 'ann@x'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK;
INSERT INTO two.users VALUES ('b', 3, 'new@x'), ('b', 4, 'New@x');
INSERT INTO two.users VALUES ('b', 3, NULL), ('b', 4, NULL);
RESET ROLE;
SELECT t.claimed();

-- the empty text is refused
INSERT INTO two.users VALUES ('b', 3, '');
CREATE TABLE one.empty (key text); INSERT INTO one.empty VALUES ('');
SELECT t.call($$SELECT claims.add_unique('empty', '{one.empty}', 'key')$$);
SELECT claims.add_unique('empty', '{one.empty}', 'key', condition => $$key <> ''$$); INSERT INTO one.empty VALUES (''), ('a');
UPDATE one.empty SET key = 'a' WHERE key = ''; DELETE FROM one.empty; SELECT claims.drop_unique('empty', 'test');

-- an AFTER trigger of the owner changes the row again, before or after the claim
CREATE TABLE one.slugs (id int, key text); SELECT claims.add_unique('slugs', '{one.slugs}', 'key');
CREATE FUNCTION one.add_slug() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN UPDATE one.slugs SET key = NEW.key || NEW.id WHERE id = NEW.id; RETURN NULL; END $$;
CREATE TRIGGER a_slug AFTER INSERT ON one.slugs FOR EACH ROW EXECUTE FUNCTION one.add_slug();
BEGIN; SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO one.slugs VALUES (1, 'v'); COMMIT;
INSERT INTO one.slugs VALUES (2, 'v'); SELECT t.claimed();
SELECT claims.drop_unique('slugs', 'test'); DROP TABLE one.slugs;

-- a value moves between tables, in any order, and with savepoints
BEGIN; INSERT INTO two.users VALUES ('b', 5, 'ann@x'); DELETE FROM one.users WHERE id = 1; COMMIT; SELECT t.claimed();
BEGIN; DELETE FROM two.users WHERE id = 5; INSERT INTO one.users VALUES (1, 'ann@x', 'a'); COMMIT; SELECT t.claimed();
BEGIN; SAVEPOINT a; DELETE FROM one.users; ROLLBACK TO a; INSERT INTO two.users VALUES ('b', 6, 'ann@x'); COMMIT;
SELECT t.claimed();
UPDATE one.users SET email = 'ANN@x' WHERE id = 1; UPDATE one.users SET kind = 'c'; SELECT t.claimed();
BEGIN; UPDATE one.users SET email = 'bob@x' WHERE id = 1; UPDATE two.users SET email = 'ann@x' WHERE id = 1; COMMIT; SELECT t.claimed();
BEGIN; INSERT INTO one.users VALUES (7, 'once', 'a'); SAVEPOINT a; INSERT INTO two.users VALUES ('b', 7, 'once'); ROLLBACK TO a; COMMIT;
SELECT t.claimed();
BEGIN; INSERT INTO one.users VALUES (8, 'prepared', 'a'); PREPARE TRANSACTION 'unique'; COMMIT PREPARED 'unique'; SELECT t.claimed();
-- TRUNCATE gives up, and a rollback does not
BEGIN; TRUNCATE one.users; ROLLBACK; INSERT INTO two.users VALUES ('b', 9, 'once');
BEGIN; INSERT INTO one.users VALUES (9, 'short', 'a'); TRUNCATE one.users; INSERT INTO one.users VALUES (9, 'short', 'a'); COMMIT;
INSERT INTO two.users VALUES ('b', 9, 'once'); SELECT t.claimed();
INSERT INTO two.users VALUES ('b', 9, 'short');
SELECT claims.purge_uniques() > 0, claims.purge_uniques(); SELECT t.claimed();
SELECT * FROM claims.check();

-- dropped, and added again with a condition
SELECT t.call($$SELECT claims.drop_unique('emails', '')$$);
SELECT claims.drop_unique('emails', 'test');
SELECT t.claimed(), (SELECT count(*) FROM claims.automatic_service), (SELECT count(*) FROM claims.unique_tables),
       (SELECT count(*) FROM claims.list_types() WHERE name = 'emails'), (SELECT count(*) FROM pg_trigger WHERE tgname LIKE '%claims%');
SELECT claims.add_unique('emails', '{one.users, two.users}', 'email', condition => $$kind <> 'free'$$);
INSERT INTO one.users VALUES (10, 'once', 'free'), (11, 'once', 'free'); SELECT t.claimed();
UPDATE one.users SET kind = 'a' WHERE id = 10;
DELETE FROM two.users WHERE email = 'once';
UPDATE one.users SET kind = 'a' WHERE id = 10; SELECT t.claimed();
DROP TABLE one.users; SELECT table_names FROM claims.uniques; INSERT INTO two.users VALUES ('b', 12, 'once'); SELECT t.claimed();
DROP SCHEMA two CASCADE; SELECT table_names FROM claims.uniques;
SELECT claims.drop_unique('emails', 'test');
SELECT t.claimed();
