-- Nothing grows with the number of partitions: rows that a session reads of the extension's tables and of catalogs.
SET client_min_messages = error;
SELECT t.clean();
CREATE FUNCTION t.make(name text, partitions int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %s (id int, key text) PARTITION BY LIST (id)', name);
    FOR n IN 1 .. partitions LOOP EXECUTE format('CREATE TABLE %1$s_%2$s PARTITION OF %1$s FOR VALUES IN (%2$s)', name, n); END LOOP;
    EXECUTE format('SELECT claims.add_unique(%1$L, %2$L, ''key'')', name, format('{%s}', name));
END $$;
-- t.rows_read() returns the rows that a statement and the claiming of its values have read: not those of pg_class and pg_index, which the view itself
-- reads, nor of pg_inherits, of which PostgreSQL reads all partitions after DDL
CREATE FUNCTION t.rows_read(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    many CONSTANT text := $q$SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_all_tables
        WHERE schemaname = 'claims' OR schemaname = 'pg_catalog' AND relname IN ('pg_attribute', 'pg_trigger', 'pg_constraint', 'pg_database')$q$;
    before bigint;
    after bigint;
BEGIN
    EXECUTE many INTO before; EXECUTE statement; SET CONSTRAINTS ALL IMMEDIATE; EXECUTE many INTO after;
    RETURN after - before;
END $$;
-- t.compared() says whether a statement reads more of a table with many partitions, after each was written once
CREATE FUNCTION t.compared(statement text, wanted bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    few CONSTANT bigint := t.rows_read(replace(statement, 'parts', 'few'));
    many CONSTANT bigint := t.rows_read(replace(statement, 'parts', 'many'));
BEGIN
    RETURN CASE WHEN many > few + 5 THEN format('grows from %s to %s rows', few, many) WHEN few > wanted THEN format('%s rows', few) ELSE 'same' END;
END $$;
SELECT t.make('few', 10), t.make('many', 600);

-- the first save in a partition, the second one, and one in a partition that is there again after another was made
INSERT INTO few VALUES (1, 'a'), (2, 'b'); INSERT INTO many VALUES (1, 'a'), (2, 'b');
SELECT t.compared($$INSERT INTO parts VALUES (3, 'c')$$, 40), t.compared($$INSERT INTO parts VALUES (4, 'd')$$, 40);
SELECT t.compared($$INSERT INTO parts VALUES (3, 'e')$$, 5), t.compared($$UPDATE parts SET id = 4 WHERE id = 3$$, 40);
-- a partition that is made, and the save after it
CREATE TABLE few_more PARTITION OF few FOR VALUES IN (1001); CREATE TABLE many_more PARTITION OF many FOR VALUES IN (1001);
SELECT t.compared('CREATE TABLE parts_new PARTITION OF parts FOR VALUES IN (1002)', 500);
SELECT t.compared($$INSERT INTO parts VALUES (3, 'f')$$, 40);

-- a session keeps what it knows of all partitions: at most one row is read
INSERT INTO many SELECT n, 'n ' || n FROM generate_series(1, 600) n;
SELECT t.rows_read($$INSERT INTO many SELECT n, 'again ' || n FROM generate_series(1, 600) n$$) <= 1;
SELECT count(*) FROM claims.claims; SELECT * FROM claims.check();
SELECT claims.drop_unique(name::text, 'test') FROM claims.uniques; DROP TABLE few, many;
