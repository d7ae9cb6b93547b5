-- Unique columns that are renamed, dropped and made anew, and tables that are none: the unique follows the column by its number.
CREATE TABLE one (id int, key text); CREATE TABLE two (id int, key text) PARTITION BY LIST (id);
CREATE TABLE two_1 PARTITION OF two FOR VALUES IN (1);
INSERT INTO one VALUES (1, 'a');
SELECT claims.add_unique('keys', '{one, two}', 'key');

-- a column that is renamed, and nothing else, stays unique, whatever is dropped afterwards
ALTER TABLE one RENAME key TO name;
INSERT INTO one VALUES (2, 'b');
CREATE TEMP TABLE passing (); DROP TABLE passing;
INSERT INTO one VALUES (3, 'a');
INSERT INTO two VALUES (1, 'b');
SELECT table_names, column_name FROM claims.uniques;

-- that of a partitioned table, in one transaction with a DROP
BEGIN;
ALTER TABLE two RENAME key TO word;
CREATE TEMP TABLE passing (); DROP TABLE passing;
INSERT INTO two VALUES (1, 'c');
COMMIT;
INSERT INTO one VALUES (4, 'c');

-- a column that is dropped leaves the unique, also where another one gets its name in the same command
ALTER TABLE one DROP COLUMN name, ADD COLUMN name text DEFAULT 'c';
SELECT table_names, column_name FROM claims.uniques;
INSERT INTO two VALUES (1, 'a');
INSERT INTO two VALUES (1, 'c');
SELECT problem, detail FROM claims.check();

-- the search for duplicates runs no code of a table's owner: neither a cast to text nor a view
CREATE TYPE pair AS (a int);
CREATE FUNCTION told(pair) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it runs as %', current_user; END $$;
CREATE CAST (pair AS text) WITH FUNCTION told(pair);
CREATE TABLE hostile (key pair); INSERT INTO hostile VALUES (ROW(1)::pair);
CREATE VIEW seen AS SELECT told(h.key) AS key FROM hostile h;
SELECT t.call($$SELECT * FROM claims.unique_duplicates('{hostile}', 'key')$$);
SELECT t.call($$SELECT * FROM claims.unique_duplicates('{seen}', 'key')$$);
-- nor a condition with other rights than the owner's
CREATE FUNCTION allows(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'a condition runs as %', current_user; RETURN true; END $$;
CREATE TABLE rented (key text); INSERT INTO rented VALUES ('a'); ALTER TABLE rented OWNER TO regress_claims_two;
SELECT * FROM claims.unique_duplicates('{rented}', 'key', condition => 'allows(key)');
SET ROLE regress_claims_two; SELECT t.state_of($$SELECT * FROM claims.unique_duplicates('{rented}', 'key')$$); RESET ROLE;
-- values that no unique can have are no duplicates
CREATE TABLE mails (key text); INSERT INTO mails VALUES ('no address'), ('another'), ('a@b.example'), ('a@B.example'), (NULL), (NULL);
SELECT * FROM claims.unique_duplicates('{mails}', 'key', 'email');
SELECT t.call($$SELECT * FROM claims.unique_duplicates('{mails}', 'key', NULL)$$);
SELECT claims.drop_unique('keys', 'test'); DROP TABLE one, two, hostile, rented, mails CASCADE; DROP TYPE pair CASCADE;

-- columns that change through another table: a partitioned one that the table was attached to, or a parent
CREATE TABLE one (id int, key text); CREATE TABLE two (key text);
SELECT claims.add_unique('keys', '{one, two}', 'key');
INSERT INTO one VALUES (1, 'aa'), (2, 'bb');
CREATE TABLE above (LIKE one) PARTITION BY RANGE (id); ALTER TABLE above ATTACH PARTITION one FOR VALUES FROM (0) TO (100);
ALTER TABLE above ALTER COLUMN key TYPE int USING length(key);
ALTER TABLE above RENAME key TO word;
INSERT INTO above VALUES (3, 'cc'); INSERT INTO two VALUES ('cc');
SELECT t.call($$SELECT claims.add_unique('all', '{above}', 'word')$$);
ALTER TABLE above DETACH PARTITION one; DROP TABLE above;
CREATE TABLE parent (word text); ALTER TABLE one INHERIT parent;
ALTER TABLE parent ALTER COLUMN word TYPE int USING length(word);
ALTER TABLE parent RENAME word TO token;
INSERT INTO one VALUES (4, 'dd'); INSERT INTO two VALUES ('dd');
ALTER TABLE one NO INHERIT parent; DROP TABLE parent;
-- typed tables change with their type, and are refused
CREATE TYPE typed AS (id int, token text); CREATE TABLE three OF typed;
SELECT t.call($$SELECT claims.add_unique('typed', '{three}', 'token')$$);
ALTER TABLE one OF typed;
-- rows of unlogged tables and of foreign ones can change without triggers
CREATE UNLOGGED TABLE four (key text);
SELECT t.call($$SELECT claims.add_unique('unlogged', '{four}', 'key')$$);
ALTER TABLE one SET UNLOGGED;
CREATE TABLE five (id int, key text) PARTITION BY RANGE (id);
SELECT claims.add_unique('fives', '{five}', 'key');
CREATE UNLOGGED TABLE five_1 PARTITION OF five FOR VALUES FROM (0) TO (10);
CREATE UNLOGGED TABLE five_2 (LIKE five); ALTER TABLE five ATTACH PARTITION five_2 FOR VALUES FROM (10) TO (20);
CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE five_3 PARTITION OF five FOR VALUES FROM (20) TO (30) SERVER nowhere;
SELECT claims.drop_unique(name, 'test') FROM unnest('{keys,fives}'::text[]) name;
DROP TABLE one, two, three, four, five, five_2; DROP TYPE typed; DROP FOREIGN DATA WRAPPER nowhere CASCADE;

-- a stored generated column that gets another expression is like one that gets another type (from PostgreSQL 17 on)
CREATE TABLE one (a text, key text GENERATED ALWAYS AS (a) STORED); INSERT INTO one VALUES ('1'), ('2');
SELECT claims.add_unique('keys', '{one}', 'key');
CREATE FUNCTION t.set_expression() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('server_version_num')::int < 170000 THEN
        RETURN '23505';
    END IF;
    EXECUTE $e$ALTER TABLE one ALTER COLUMN key SET EXPRESSION AS ('same')$e$;
    RETURN 'passed';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
SELECT t.set_expression();
SELECT claims.drop_unique('keys', 'test'); DROP TABLE one; DROP FUNCTION t.set_expression();

-- a column that is renamed without the event triggers: saves are refused until they have followed the rename, and not longer
CREATE TABLE one (key text); CREATE TABLE two (id int);
SELECT claims.add_unique('keys', '{one}', 'key');
SET session_replication_role = replica; ALTER TABLE one RENAME key TO name; RESET session_replication_role;
INSERT INTO one VALUES ('a');
ALTER TABLE two RENAME TO three;
INSERT INTO one VALUES ('a');
INSERT INTO one VALUES ('a');
SELECT claims.drop_unique('keys', 'test'); DROP TABLE one, three;
