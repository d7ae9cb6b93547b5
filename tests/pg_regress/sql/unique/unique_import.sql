-- import_unique: the values that tables had before add_unique(..., import => false) are claimed in portions, beside writers.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
CREATE TABLE people (id int, key text);
CREATE TABLE events (id int, day int, key text) PARTITION BY LIST (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
CREATE TABLE events_2 PARTITION OF events FOR VALUES IN (2);
GRANT ALL ON people, events TO PUBLIC;
INSERT INTO people VALUES (1, 'a'), (2, 'b'), (3, NULL); INSERT INTO events VALUES (1, 1, 'c'), (2, 2, 'd');
CREATE FUNCTION t.claimed() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(string_agg(c.bucket_value || ' in ' || coalesce(u.table_name::text, 'none'), ', ' ORDER BY c.bucket_value COLLATE "C"), 'none')
      FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id WHERE c.bucket_value !~ '^n' $$;
CREATE FUNCTION t.found() RETURNS SETOF text LANGUAGE sql AS $$ SELECT problem || ': ' || detail FROM claims.check() ORDER BY 1 $$;
CREATE FUNCTION t.unclaimed() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT count(*) FROM (SELECT key, tableoid FROM public.people UNION ALL SELECT key, tableoid FROM public.events) r
     WHERE key IS NOT NULL
       AND NOT EXISTS (SELECT FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id
                        WHERE c.bucket_value = r.key AND u.table_name = r.tableoid) $$;

-- who may call it, and with what
CALL claims.import_unique('keys');
CALL claims.import_unique(NULL);
SET ROLE regress_claims_one; CALL claims.import_unique('keys'); RESET ROLE;
SELECT t.call($$SELECT claims.add_unique('keys', '{people, events}', 'key', import => NULL)$$);
SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
SELECT action, arguments FROM claims.admin_log WHERE action = 'add_unique' ORDER BY id DESC LIMIT 1;
SET default_transaction_isolation = 'repeatable read'; CALL claims.import_unique('keys'); RESET default_transaction_isolation;
BEGIN; CALL claims.import_unique('keys'); ROLLBACK;
SELECT t.call($$SELECT * FROM claims.import_unique_step('keys')$$);
SELECT count(*) FROM claims.imports;

-- from its COMMIT on new values are compared with each other, but not with those that were there
SELECT name, is_valid FROM claims.uniques; SELECT t.claimed();
SELECT * FROM t.found();
INSERT INTO people VALUES (4, 'e'); INSERT INTO events VALUES (3, 1, 'e');
INSERT INTO events VALUES (4, 2, 'a'); SELECT t.claimed();
-- a row that is not imported changes, moves and goes: it has nothing to give up
UPDATE people SET key = 'bb' WHERE key = 'b'; UPDATE events SET day = 2 WHERE key = 'c'; DELETE FROM events WHERE key = 'd'; SELECT t.claimed();

-- duplicates are refused and listed, what could be claimed stays claimed, and the next call continues
CALL claims.import_unique('keys');
SELECT * FROM claims.unique_duplicates('{people, events}', 'key');
SELECT name, is_valid FROM claims.uniques; SELECT t.claimed(), t.unclaimed();
SELECT cell_id > 0 AS cell, source_type, state, service FROM claims.imports;
UPDATE people SET key = 'aa' WHERE key = 'a';
CALL claims.import_unique('keys');
SELECT name, is_valid FROM claims.uniques; SELECT t.claimed(), t.unclaimed(); SELECT * FROM t.found();
SELECT source_type, state, collisions, service FROM claims.imports;
INSERT INTO events VALUES (5, 1, 'aa');
INSERT INTO people VALUES (5, 'c');
SELECT action, arguments FROM claims.admin_log WHERE action = 'import_unique' ORDER BY id DESC LIMIT 1;
-- another call has nothing to do
CALL claims.import_unique('keys'); SELECT t.claimed();
SELECT claims.drop_unique('keys', 'test'); SELECT count(*) FROM claims.imports;

-- two rows of one table: the claim that both seem to have goes with the first of them
TRUNCATE people, events; INSERT INTO people VALUES (1, 'v'), (2, 'v');
SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
CALL claims.import_unique('keys'); SELECT t.claimed();
DELETE FROM people WHERE id = 2; SELECT t.claimed();
INSERT INTO events VALUES (1, 1, 'v');
CALL claims.import_unique('keys'); SELECT is_valid FROM claims.uniques;
DELETE FROM people WHERE id = 1;
CALL claims.import_unique('keys'); SELECT is_valid FROM claims.uniques; SELECT t.claimed();
SELECT claims.drop_unique('keys', 'test');

-- values that no unique can have
TRUNCATE people, events; INSERT INTO people VALUES (1, 'v'), (2, '');
SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
CALL claims.import_unique('keys');
UPDATE people SET key = repeat('x', 1025) WHERE key = '';
UPDATE people SET key = 'w' WHERE key = ''; CALL claims.import_unique('keys'); SELECT is_valid FROM claims.uniques; SELECT t.claimed();
SELECT claims.drop_unique('keys', 'test');

-- tables that come and go meanwhile
TRUNCATE people, events; INSERT INTO people VALUES (1, 'p'); INSERT INTO events VALUES (1, 1, 'e1'), (2, 2, 'e2');
CREATE TABLE events_3 (id int, day int, key text); INSERT INTO events_3 VALUES (3, 3, 'e3');
CREATE TABLE events_4 (id int, day int, key text); INSERT INTO events_4 VALUES (4, 4, 'p');
SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
SELECT claims.begin_unique_import('keys'); SELECT * FROM claims.import_unique_step('keys');
TRUNCATE events_1; INSERT INTO events VALUES (1, 1, 'new');
ALTER TABLE events ATTACH PARTITION events_3 FOR VALUES IN (3);
ALTER TABLE events ATTACH PARTITION events_4 FOR VALUES IN (4);
DROP TABLE events_2; CREATE TABLE events_2 PARTITION OF events FOR VALUES IN (2); INSERT INTO events VALUES (2, 2, 'e2');
SELECT t.claimed();
CALL claims.import_unique('keys'); SELECT is_valid FROM claims.uniques; SELECT t.claimed(), t.unclaimed();
ALTER TABLE events DETACH PARTITION events_1; ALTER TABLE events ALTER COLUMN key TYPE varchar(20); SELECT t.unclaimed();
DROP TABLE events_1, events_4; CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
-- only a partition that is not imported goes: the unique is valid
SELECT claims.drop_unique('keys', 'test'); SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
SELECT claims.begin_unique_import('keys');
DO $$ BEGIN FOR n IN 1..2 LOOP PERFORM claims.import_unique_step('keys'); END LOOP; END $$;
SELECT string_agg(table_name::text, ', ' ORDER BY table_name::text) FROM claims.unique_tables WHERE NOT is_complete;
TRUNCATE events; SELECT is_valid FROM claims.uniques;
-- the type of the column changes before the import: all values are claimed then
SELECT claims.drop_unique('keys', 'test'); INSERT INTO events VALUES (1, 1, 'e1');
SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
ALTER TABLE people ALTER COLUMN key TYPE varchar(2000); SELECT t.claimed(); SELECT is_valid FROM claims.uniques;
-- a partition that came unnoticed
SELECT claims.drop_unique('keys', 'test'); SELECT claims.add_unique('keys', '{people, events}', 'key');
CREATE TABLE events_4 (LIKE events); INSERT INTO events_4 VALUES (4, 4, 'e4');
ALTER EVENT TRIGGER claims_complete_triggers DISABLE;
ALTER TABLE events ATTACH PARTITION events_4 FOR VALUES IN (4);
ALTER EVENT TRIGGER claims_complete_triggers ENABLE; SELECT * FROM t.found() WHERE found LIKE 'values%';
CALL claims.import_unique('keys'); SELECT t.unclaimed(); INSERT INTO people VALUES (4, 'e4');
SELECT * FROM t.found() WHERE found LIKE 'values%';

-- many rows: a call that was cut off is continued, a portion that is rolled back is read again, and rows that were missed are found
SELECT claims.drop_unique('keys', 'test'); TRUNCATE people, events;
INSERT INTO people SELECT n, 'n' || n FROM generate_series(1, 20000) n;
INSERT INTO events SELECT n, 1 + n % 4, 'm' || n FROM generate_series(1, 5000) n;
SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
SELECT claims.begin_unique_import('keys'); SELECT * FROM claims.import_unique_step('keys');
BEGIN; SELECT * FROM claims.import_unique_step('keys'); ROLLBACK;
SELECT count(*) > 0 AND count(*) < 10000 AS first_portion FROM claims.claims;
\c -
SET client_min_messages = error;
SELECT t.call($$SELECT * FROM claims.import_unique_step('keys')$$);
-- blocks that nobody has read, as if their rows had moved there from others
SELECT claims.begin_unique_import('keys');
UPDATE claims.import_runs SET source_id = split_part(source_id, ' ', 1) || ' 80' WHERE source_type = 'keys';
UPDATE people SET id = -id WHERE id BETWEEN 100 AND 200; UPDATE people SET key = 'new' || id WHERE id BETWEEN 15000 AND 15010;
DELETE FROM people WHERE id BETWEEN 300 AND 310 OR id BETWEEN 16000 AND 16010;
CALL claims.import_unique('keys');
SELECT t.unclaimed(), is_valid,
       (SELECT count(*) FROM claims.claims) = (SELECT count(*) FROM people) + (SELECT count(*) FROM events) AS as_many FROM claims.uniques;
SELECT rows_done > 0 AS rows, finished_at IS NOT NULL AS finished, pid FROM claims.imports;
-- it was dropped between two portions
SELECT claims.drop_unique('keys', 'test'); SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
SELECT claims.begin_unique_import('keys'); SELECT * FROM claims.import_unique_step('keys'); SELECT claims.drop_unique('keys', 'test');
SELECT t.call($$SELECT * FROM claims.import_unique_step('keys')$$);

-- a claim that no row needs: it is never valid, and the error says so
TRUNCATE people, events; INSERT INTO people VALUES (1, 'a'), (2, 'b');
SELECT claims.add_unique('keys', '{people, events}', 'key', import => false);
INSERT INTO people VALUES (3, 'lost'); BEGIN; SELECT claims.skip_capture('test'); DELETE FROM people WHERE id = 3; COMMIT;
CALL claims.import_unique('keys'); SELECT is_valid FROM claims.uniques;
SELECT claims.drop_unique('keys', 'test');

-- nothing is left
DROP TABLE people, events; DROP FUNCTION t.claimed(), t.found(), t.unclaimed(); SELECT t.clean();
