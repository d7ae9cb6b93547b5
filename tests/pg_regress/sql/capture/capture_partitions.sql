-- Partitioned tables: rows that move, later partitions, partitions with other columns, TRUNCATE.
SET client_min_messages = error;
CREATE SCHEMA app;
CREATE TABLE app.parts (gone int, id int, region text, name text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
ALTER TABLE app.parts DROP gone;
CREATE TABLE app.eu PARTITION OF app.parts FOR VALUES IN ('eu');
CREATE TABLE app.us PARTITION OF app.parts FOR VALUES IN ('us') PARTITION BY RANGE (id);
CREATE TABLE app.us1 PARTITION OF app.us FOR VALUES FROM (1) TO (100);
CREATE TABLE app.us2 (name text, region text NOT NULL, more text, id int NOT NULL);
ALTER TABLE app.us2 DROP more;
ALTER TABLE app.us ATTACH PARTITION app.us2 FOR VALUES FROM (100) TO (200);
SELECT t.call($$SELECT claims.claim_attribute('app.parts', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')$$);
SELECT claims.claim_attribute('app.parts', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', 'length(parts.name) > 1');
BEGIN;
INSERT INTO app.parts VALUES (1, 'eu', 'eu1'), (2, 'us', 'us2'), (103, 'us', 'us103'), (104, 'us', 'x');
INSERT INTO app.us2 VALUES ('direct', 'us', 105);
SELECT * FROM t.pending();
COMMIT;
-- a row that moves to another partition keeps its claim
BEGIN;
UPDATE app.parts SET region = CASE region WHEN 'eu' THEN 'us' ELSE 'eu' END;
SELECT count(*) FROM t.pending(), (SELECT count(*) FROM app.eu) n;
SELECT count(*) FROM app.eu;
ROLLBACK;
BEGIN; UPDATE app.parts SET id = id + 110 WHERE id = 2; SELECT count(*) FROM t.pending(); SELECT count(*) FROM app.us2; ROLLBACK;
BEGIN; UPDATE app.parts SET id = id + 110, name = 'moved' WHERE id = 2; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; DELETE FROM app.us; SELECT * FROM t.pending(); ROLLBACK;
-- partitions that are created or attached later are captured
CREATE TABLE app.asia PARTITION OF app.parts FOR VALUES IN ('asia');
CREATE TABLE app.africa (name text, id int NOT NULL, region text NOT NULL);
ALTER TABLE app.parts ATTACH PARTITION app.africa FOR VALUES IN ('africa');
-- TRUNCATE of a later partition is refused before another command restores its triggers
SELECT t.call('TRUNCATE app.asia');
SELECT t.call('TRUNCATE app.africa');
-- an attached partition that has partitions
CREATE TABLE app.america (id int NOT NULL, region text NOT NULL, name text) PARTITION BY RANGE (id);
CREATE TABLE app.america1 PARTITION OF app.america FOR VALUES FROM (1) TO (100);
TRUNCATE app.america, app.america1;
ALTER TABLE app.parts ATTACH PARTITION app.america FOR VALUES IN ('america');
SELECT t.state_of('TRUNCATE app.america'), t.state_of('TRUNCATE app.america1');
BEGIN;
INSERT INTO app.asia VALUES (5, 'asia', 'as5');
INSERT INTO app.parts VALUES (6, 'africa', 'af6');
INSERT INTO app.africa VALUES ('af7', 7, 'africa');
SELECT * FROM t.pending();
ROLLBACK;
CREATE SCHEMA regress_claims_late CREATE TABLE europe PARTITION OF app.parts FOR VALUES IN ('europe');
-- TRUNCATE of the table, and of each partition, is refused
SELECT t.call('TRUNCATE app.parts');
SELECT t.call('TRUNCATE app.us');
SELECT t.call('TRUNCATE app.us2');
SELECT t.call('TRUNCATE regress_claims_late.europe');
-- a detached partition is not captured any more
ALTER TABLE app.parts DETACH PARTITION app.eu;
BEGIN; DELETE FROM app.eu; SELECT count(*) FROM t.pending(); ROLLBACK;
SELECT count(*) FROM app.eu; TRUNCATE app.eu; SELECT count(*) FROM app.eu;
-- a condition over the whole row: capture and verification agree in a partition with another column order
CREATE FUNCTION app.is_on(app.parts) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT $1.name LIKE 'on%' $$;
SELECT claims.claim_attribute('app.parts', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', 'app.is_on(parts)');
BEGIN; DELETE FROM app.parts;
INSERT INTO app.parts VALUES (1, 'us', 'on 1'), (2, 'us', 'off'), (110, 'us', 'on 110'), (111, 'us', 'off 111'),
    (8, 'africa', 'on 8'), (9, 'africa', 'off 9');
SELECT * FROM t.pending();
SELECT array_agg(r #>> '{bucket,value}') FROM jsonb_array_elements(claims.expected_records('RAILS_TABLE_USERS')) r; ROLLBACK;
SELECT claims.claim_attribute('app.parts', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', 'length(parts.name) > 1');
-- a new owner can make partitions
REVOKE EXECUTE ON FUNCTION claims.capture_row() FROM regress_claims_two; GRANT USAGE, CREATE ON SCHEMA app TO regress_claims_two;
ALTER TABLE app.parts OWNER TO regress_claims_two; SET ROLE regress_claims_two;
CREATE TABLE app.oceania PARTITION OF app.parts FOR VALUES IN ('oceania'); RESET ROLE;
DROP TABLE app.oceania; ALTER TABLE app.parts OWNER TO CURRENT_USER; REVOKE ALL ON SCHEMA app FROM regress_claims_two;
-- claim_attribute refuses a partition
SELECT t.call($$SELECT claims.claim_attribute('app.us', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id')$$);
SELECT t.call($$SELECT claims.claim_attribute('app.us1', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id')$$);
-- a claimed table cannot become a partition
CREATE TABLE app.own (id int NOT NULL, region text NOT NULL, name text, UNIQUE (id, region));
SELECT claims.claim_attribute('app.own', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id');
SELECT t.call($$ALTER TABLE app.parts ATTACH PARTITION app.own FOR VALUES IN ('own')$$);
SELECT claims.unclaim_attribute('app.own', 'name'), claims.unclaim_attribute('app.parts', 'name');
BEGIN; DELETE FROM app.parts; SELECT count(*) FROM t.pending(); TRUNCATE app.parts; TRUNCATE app.us2, app.asia; ROLLBACK;
SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'claims%';
DROP SCHEMA app, regress_claims_late CASCADE;
