-- Unique over partitions that come and go.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
CREATE TABLE events (id int, day date, key text) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE TABLE other (key text, id int);
-- t.claimed() returns the values with the tables in which they stand
CREATE FUNCTION t.claimed() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(string_agg(c.bucket_value || ' in ' || coalesce(u.table_name::text, 'none'), ', ' ORDER BY c.bucket_value COLLATE "C"), 'none')
      FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id $$;
INSERT INTO events VALUES (1, '2024-01-05', 'a'), (2, '2024-02-05', 'b');
SELECT claims.add_unique('keys', '{events, other}', 'key');
SELECT t.claimed();

-- rows that move from partition to partition keep their values
INSERT INTO events VALUES (3, '2024-02-06', 'a');
UPDATE events SET day = '2024-02-07' WHERE id = 1; SELECT t.claimed();
UPDATE events SET day = '2024-01-07' WHERE id IN (1, 2); SELECT t.claimed();
UPDATE events SET day = '2024-02-07', key = CASE id WHEN 1 THEN 'b' ELSE 'a' END; SELECT t.claimed();
INSERT INTO events_2 VALUES (4, '2024-02-08', 'c'); INSERT INTO other VALUES ('c', 1);

-- a new partition
CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
INSERT INTO events VALUES (5, '2024-03-05', 'c');
INSERT INTO events VALUES (5, '2024-03-05', 'd'); SELECT t.claimed();

-- ATTACH with rows: claimed, or refused
CREATE TABLE late (key text, dropped int, id int, day date); ALTER TABLE late DROP dropped;
INSERT INTO late VALUES ('e', 6, '2024-05-01'), ('a', 7, '2024-05-02'), (NULL, 8, '2024-05-03');
ALTER TABLE events ATTACH PARTITION late FOR VALUES FROM ('2024-05-01') TO ('2024-06-01');
SELECT t.claimed();
UPDATE late SET key = 'f' WHERE key = 'a';
ALTER TABLE events ATTACH PARTITION late FOR VALUES FROM ('2024-05-01') TO ('2024-06-01');
SELECT t.claimed();
INSERT INTO other VALUES ('f', 1);

-- DETACH gives up, and an open transaction sees it; a rollback keeps
BEGIN; ALTER TABLE events DETACH PARTITION late; INSERT INTO other VALUES ('f', 1); ROLLBACK;
INSERT INTO other VALUES ('f', 1);
ALTER TABLE events DETACH PARTITION late; INSERT INTO other VALUES ('f', 1); INSERT INTO late VALUES ('a', 9, '2024-05-05'); SELECT t.claimed();
-- it comes back, and its values have gone elsewhere
ALTER TABLE events ATTACH PARTITION late FOR VALUES FROM ('2024-05-01') TO ('2024-06-01');
DELETE FROM late WHERE key IN ('f', 'a');
ALTER TABLE events ATTACH PARTITION late FOR VALUES FROM ('2024-05-01') TO ('2024-06-01'); SELECT t.claimed();
ALTER TABLE events DETACH PARTITION late CONCURRENTLY; INSERT INTO other VALUES ('e', 1); SELECT t.claimed();

-- rows that move to a table in the transaction that attaches it
CREATE TABLE events_rest PARTITION OF events DEFAULT; INSERT INTO events VALUES (20, '2025-01-05', 'moves'); INSERT INTO other VALUES ('comes', 1);
BEGIN; CREATE TABLE events_2025 (LIKE events);
WITH moved AS (DELETE FROM events_rest RETURNING *) INSERT INTO events_2025 SELECT * FROM moved;
WITH moved AS (DELETE FROM other WHERE key = 'comes' RETURNING *) INSERT INTO events_2025 SELECT 21, '2025-01-06', key FROM moved;
ALTER TABLE events ATTACH PARTITION events_2025 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01'); COMMIT;
SELECT t.claimed(); INSERT INTO other VALUES ('moves', 1);
-- claims whose generation is not known any more are free: for who saves, and for a table that is attached
ALTER TABLE events DETACH PARTITION events_2025; DELETE FROM claims.unique_tables WHERE table_name IS NULL;
INSERT INTO other VALUES ('moves', 1); DELETE FROM events_2025 WHERE key = 'moves';
ALTER TABLE events ATTACH PARTITION events_2025 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01'); SELECT t.claimed();
DROP TABLE events_2025, events_rest; DELETE FROM other WHERE key = 'moves';
-- a partition of another owner is read with the rights of the owner of the partitioned table
CREATE TABLE foreign_part (LIKE events); INSERT INTO foreign_part VALUES (22, '2025-01-05', 'foreign');
ALTER TABLE foreign_part OWNER TO regress_claims_two; ALTER TABLE events OWNER TO regress_claims_one;
ALTER TABLE events ATTACH PARTITION foreign_part FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
GRANT SELECT ON foreign_part TO regress_claims_one;
ALTER TABLE events ATTACH PARTITION foreign_part FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
-- the new owner can make partitions
GRANT CREATE ON SCHEMA public TO regress_claims_one; SET ROLE regress_claims_one;
CREATE TABLE events_2026 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01'); RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM regress_claims_one; ALTER TABLE events OWNER TO CURRENT_USER; DROP TABLE foreign_part, events_2026;

-- DROP gives up at once, and with it everything that is in the transaction
BEGIN; INSERT INTO events VALUES (10, '2024-03-06', 'g'); DROP TABLE events_3; INSERT INTO other VALUES ('g', 1), ('d', 1); COMMIT;
SELECT t.claimed();
TRUNCATE events_2; INSERT INTO other VALUES ('a', 1), ('b', 1), ('c', 1); SELECT t.claimed();
TRUNCATE events, other; SELECT claims.purge_uniques() > 0; SELECT t.claimed();

-- the column is renamed, gets another type, and is dropped; so is everything else
INSERT INTO events VALUES (1, '2024-01-05', '1'); INSERT INTO other VALUES ('2', 1);
ALTER TABLE other RENAME key TO other_key; ALTER TABLE other RENAME TO others; CREATE SCHEMA elsewhere; ALTER TABLE others SET SCHEMA elsewhere;
ALTER TABLE events_1 RENAME TO first_events;
INSERT INTO elsewhere.others VALUES ('1', 2);
INSERT INTO events VALUES (2, '2024-01-05', '2');
SELECT table_names, column_name FROM claims.uniques; SELECT t.claimed();
ALTER TABLE events ALTER key TYPE int USING 2;
ALTER TABLE events ALTER key TYPE int USING key::int + 2; SELECT t.claimed();
ALTER TABLE events ALTER key TYPE numeric;
ALTER TABLE events DROP key; INSERT INTO elsewhere.others VALUES ('3', 2);
SELECT table_names FROM claims.uniques; SELECT t.claimed();
SELECT claims.purge_uniques() > 0; SELECT claims.drop_unique('keys', 'test'); SELECT t.claimed();
