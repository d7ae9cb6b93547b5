-- Unique columns and each way to write a row: COPY, MERGE, ON CONFLICT, cascades, skip_capture, replication, and transactions of many values.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
CREATE TABLE one (id int PRIMARY KEY, key text);
CREATE TABLE two (id int, key text UNIQUE);
CREATE TABLE parts (id int, day int, key text) PARTITION BY LIST (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
CREATE UNIQUE INDEX parts_1_key ON parts_1 (key);
INSERT INTO one VALUES (1, 'a'); INSERT INTO two VALUES (1, 'b'); INSERT INTO parts VALUES (1, 1, 'c'), (2, 2, 'd');
SELECT claims.add_unique('keys', '{one, two, parts}', 'key');
-- t.claimed() returns the values with the tables in which they stand; t.wrong() those for which rows and claims differ
CREATE FUNCTION t.claimed() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT coalesce(string_agg(c.bucket_value || ' in ' || u.table_name::text, ', ' ORDER BY c.bucket_value COLLATE "C"), 'none')
      FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id WHERE u.table_name IS NOT NULL $$;
CREATE FUNCTION t.wrong() RETURNS TABLE (place regclass, key text) LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    WITH standing AS (SELECT tableoid::regclass AS place, key FROM one UNION ALL SELECT tableoid::regclass, key FROM two
                      UNION ALL SELECT tableoid::regclass, key FROM parts),
         claimed AS (SELECT u.table_name AS place, c.bucket_value AS key
                       FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id
                      WHERE u.table_name IS NOT NULL)
    (SELECT * FROM standing s WHERE s.key IS NOT NULL EXCEPT TABLE claimed) UNION ALL (TABLE claimed EXCEPT TABLE standing) $$;

-- COPY: all rows or none
COPY two FROM stdin;
2	e
3	a
\.
COPY parts (id, day, key) FROM stdin;
3	1	e
4	2	e
\.
COPY parts (id, day, key) FROM stdin;
3	1	e
4	2	f
5	2	\N
\.
SELECT t.claimed();
-- rows that go out and come back by another table
BEGIN; DELETE FROM parts WHERE id IN (3, 4); COPY one FROM stdin;
3	e
4	f
\.
COMMIT; SELECT t.claimed();

-- MERGE: updates, inserts and deletes
MERGE INTO two t USING (VALUES (1, 'g'), (5, 'h')) v (id, key) ON t.id = v.id
 WHEN MATCHED THEN UPDATE SET key = v.key WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.key);
SELECT t.claimed();
MERGE INTO two t USING (VALUES (1, 'a'), (6, 'i')) v (id, key) ON t.id = v.id
 WHEN MATCHED THEN UPDATE SET key = v.key WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.key);
MERGE INTO two t USING (VALUES (1, 'h'), (5, 'g')) v (id, key) ON t.id = v.id WHEN MATCHED THEN DELETE;
MERGE INTO parts p USING one o ON p.id = o.id AND o.id = 1 WHEN MATCHED THEN UPDATE SET day = 2
 WHEN NOT MATCHED AND o.id = 3 THEN INSERT VALUES (o.id, 2, o.key);
MERGE INTO parts p USING one o ON p.id = o.id AND o.id = 1 WHEN MATCHED THEN UPDATE SET day = 2
 WHEN NOT MATCHED AND o.id = 3 THEN INSERT VALUES (o.id, 2, 'j');
SELECT t.claimed(), (SELECT count(*) FROM t.wrong());

-- ON CONFLICT knows indexes of the table itself. The unique is no arbiter, neither by its column nor by its name
INSERT INTO one VALUES (9, 'a') ON CONFLICT (key) DO NOTHING;
INSERT INTO parts VALUES (9, 1, 'a') ON CONFLICT (key) DO NOTHING;
INSERT INTO two VALUES (9, 'a') ON CONFLICT ON CONSTRAINT keys DO NOTHING;
-- without a target: a value of another table is a violation, one of the table itself is skipped
INSERT INTO two VALUES (9, 'a') ON CONFLICT DO NOTHING;
INSERT INTO two VALUES (9, 'k') ON CONFLICT DO NOTHING; INSERT INTO two VALUES (10, 'k') ON CONFLICT DO NOTHING;
INSERT INTO two VALUES (11, 'k') ON CONFLICT (key) DO UPDATE SET id = excluded.id, key = 'l';
INSERT INTO two VALUES (12, 'l') ON CONFLICT (key) DO UPDATE SET key = 'a';
INSERT INTO one VALUES (1, 'm') ON CONFLICT (id) DO UPDATE SET key = excluded.key;
INSERT INTO parts_1 VALUES (13, 1, 'a') ON CONFLICT (key) DO UPDATE SET id = 14;
INSERT INTO parts_1 VALUES (15, 1, 'a') ON CONFLICT (key) DO UPDATE SET id = 14;
SELECT t.claimed(), (SELECT count(*) FROM t.wrong());

-- a foreign key that cascades, and one that sets values
CREATE TABLE owners (name text PRIMARY KEY); INSERT INTO owners VALUES ('n'), ('o');
CREATE TABLE pets (key text REFERENCES owners ON UPDATE CASCADE ON DELETE SET NULL); SELECT claims.add_unique('pets', '{pets, parts}', 'key');
INSERT INTO pets VALUES ('n'), ('o'); UPDATE owners SET name = 'a' WHERE name = 'n'; UPDATE owners SET name = 'p' WHERE name = 'n';
DELETE FROM owners WHERE name = 'o'; SELECT key FROM pets ORDER BY key;
INSERT INTO parts VALUES (16, 2, 'p'); INSERT INTO parts VALUES (16, 2, 'o'); SELECT claims.drop_unique('pets', 'test');

-- rules and views write the tables, too
CREATE VIEW shown AS SELECT id, key FROM one; INSERT INTO shown VALUES (20, 'd'); INSERT INTO shown VALUES (20, 'q');
INSERT INTO two VALUES (20, 'q');
SELECT count(*) FROM t.wrong();

-- whoever skips the capture, or replicates, has values twice. Adding the unique again finds them
BEGIN; SELECT claims.skip_capture('test'); INSERT INTO two VALUES (21, 'd'); COMMIT;
SELECT * FROM claims.unique_duplicates('{one, two, parts}', 'key'); DELETE FROM two WHERE id = 21; SELECT * FROM t.wrong();
INSERT INTO two VALUES (21, 'd');
SELECT t.call($$SELECT claims.drop_unique('keys', 'test')$$); SELECT claims.add_unique('keys', '{one, two, parts}', 'key');
SET session_replication_role = replica; INSERT INTO two VALUES (22, 'd'), (23, 'r'); RESET session_replication_role;
SELECT * FROM claims.unique_duplicates('{one, two, parts}', 'key'); INSERT INTO one VALUES (24, 'r');
DELETE FROM one WHERE id = 24; DELETE FROM two WHERE id = 22;
SELECT claims.drop_unique('keys', 'test'); SELECT claims.add_unique('keys', '{one, two, parts}', 'key'); SELECT count(*) FROM t.wrong();
INSERT INTO one VALUES (24, 'r');

-- many values: sent in portions before COMMIT, with savepoints, and a conflict at the beginning, in the middle and at the end
TRUNCATE one, two, parts; CREATE TABLE numbers (n int); INSERT INTO numbers SELECT generate_series(1, 60000);
CREATE TABLE numbers_too (n int, day int) PARTITION BY LIST (day); CREATE TABLE numbers_too_1 PARTITION OF numbers_too FOR VALUES IN (1);
CREATE TABLE numbers_too_2 PARTITION OF numbers_too FOR VALUES IN (2);
SELECT claims.add_unique('numbers', '{numbers, numbers_too}', 'n');
INSERT INTO numbers_too SELECT n, 1 + n % 2 FROM generate_series(60000, 130000) n;
INSERT INTO numbers_too SELECT n, 1 + n % 2 FROM generate_series(130000, 60000, -1) n;
BEGIN; SAVEPOINT s; INSERT INTO numbers_too SELECT n, 1 + n % 2 FROM generate_series(60001, 115000) n; ROLLBACK TO s;
INSERT INTO numbers_too VALUES (60001, 1), (60002, 2); COMMIT; SELECT count(*) FROM numbers_too;
INSERT INTO numbers_too SELECT n, 1 + n % 2 FROM generate_series(60003, 130000) n; INSERT INTO numbers VALUES (60001);
INSERT INTO numbers VALUES (130000);
-- all values shift by one, come in the reverse order, move to another table, and move between partitions, in one statement each
UPDATE numbers SET n = n - 1; UPDATE numbers SET n = 59999 - n; INSERT INTO numbers VALUES (60000); INSERT INTO numbers VALUES (59999);
WITH gone AS (DELETE FROM numbers RETURNING n) INSERT INTO numbers_too SELECT n, 1 + n % 2 FROM gone;
UPDATE numbers_too SET day = 3 - day; SELECT day, count(*) FROM numbers_too GROUP BY day ORDER BY day;
INSERT INTO numbers VALUES (0); INSERT INTO numbers VALUES (130000); INSERT INTO numbers VALUES (-1);
SELECT count(*) FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id AND u.type_id = c.bucket_type
 WHERE u.table_name IS NOT NULL;
SELECT * FROM claims.check();
SELECT claims.drop_unique(name::text, 'test') FROM claims.uniques; DROP TABLE one, two, parts, numbers, numbers_too, pets, owners CASCADE;

-- a procedure that commits often keeps no memory of what was sent
CREATE TABLE saved (key text); SELECT claims.add_unique('saved_keys', '{saved}', 'key');
DO $$
DECLARE early bigint; late bigint;
BEGIN
    FOR turn IN 1..150 LOOP
        INSERT INTO saved SELECT turn || '-' || n FROM generate_series(1, 100) n;
        COMMIT;
        late := (SELECT sum(used_bytes) FROM pg_backend_memory_contexts);
        early := CASE WHEN turn <= 50 THEN late ELSE early END;
    END LOOP;
    IF late - early > 500000 THEN
        RAISE EXCEPTION 'it has kept % bytes', late - early;
    END IF;
END $$;
SELECT claims.drop_unique('saved_keys', 'test'); DROP TABLE saved;
