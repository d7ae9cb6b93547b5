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
