-- Capture: every way of writing a row, and the pending batch that follows from it.
SET client_min_messages = error;
CREATE SCHEMA app;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE DEFERRABLE, namespace_id int, kind text);
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
SELECT * FROM claims.claimed_attributes;
-- pending_batch always returns one row
SELECT * FROM claims.pending_batch();

-- INSERT
BEGIN;
INSERT INTO app.routes VALUES (1, 'a', 10), (2, NULL, 10), (3, 'c', 30);
SELECT * FROM t.pending();
SELECT jsonb_pretty(create_records), destroy_records FROM claims.pending_batch();
INSERT INTO app.routes SELECT 4, 'd', 40;
SELECT * FROM t.pending();
COMMIT;
-- nothing of a committed transaction is pending in the next one
SELECT count(*) FROM t.pending();

-- UPDATE: only a changed value of a claimed column is pending
BEGIN; UPDATE app.routes SET kind = 'x'; SELECT count(*) FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.routes SET path = path; SELECT count(*) FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.routes SET path = path || '1'; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.routes SET path = 'b' WHERE id = 2; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.routes SET path = NULL; SELECT * FROM t.pending(); ROLLBACK;
-- several changes of one value: the first and the last value count
BEGIN;
UPDATE app.routes SET path = 'B' WHERE id = 1;
UPDATE app.routes SET path = 'C' WHERE id = 1; SELECT * FROM t.pending();
UPDATE app.routes SET path = 'a' WHERE id = 1; SELECT count(*) FROM t.pending();
ROLLBACK;
-- swapped names, in one statement and in several
BEGIN; UPDATE app.routes SET path = CASE path WHEN 'a' THEN 'c' ELSE 'a' END WHERE id IN (1, 3); SELECT * FROM t.pending(); ROLLBACK;
BEGIN;
UPDATE app.routes SET path = 'tmp' WHERE id = 1; UPDATE app.routes SET path = 'a' WHERE id = 3; UPDATE app.routes SET path = 'c' WHERE id = 1;
SELECT * FROM t.pending();
-- names that are swapped back leave nothing pending
UPDATE app.routes SET path = CASE path WHEN 'a' THEN 'c' ELSE 'a' END WHERE id IN (1, 3); SELECT count(*) FROM t.pending();
ROLLBACK;
-- a ring of three names: each claim is replaced by that of another row
BEGIN;
UPDATE app.routes SET path = CASE id WHEN 1 THEN 'c' WHEN 3 THEN 'd' ELSE 'new' END WHERE path IS NOT NULL; SELECT * FROM t.pending();
ROLLBACK;
-- changed keys: the claim is replaced; a new bucket has the new keys
BEGIN; UPDATE app.routes SET id = id + 100; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.routes SET namespace_id = 99; SELECT * FROM t.pending(); ROLLBACK;
-- rows that can have had no claim (empty, without a subject) destroy nothing
BEGIN; INSERT INTO app.routes VALUES (80, '', 10), (81, 'no subject', NULL); COMMIT;
BEGIN; DELETE FROM app.routes WHERE id >= 80; SELECT count(*) FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.routes SET namespace_id = 10, path = coalesce(nullif(path, ''), 'x') WHERE id IN (80, 81); SELECT * FROM t.pending(); ROLLBACK;
DELETE FROM app.routes WHERE id >= 80;
-- the value and the keys change together
BEGIN; UPDATE app.routes SET namespace_id = 99, id = 77, path = 'z' WHERE id = 1; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; INSERT INTO app.routes VALUES (9, 'n', 1); UPDATE app.routes SET namespace_id = 2, id = 8 WHERE id = 9; SELECT * FROM t.pending(); ROLLBACK;

-- DELETE, also with a later or an earlier INSERT of the same name
BEGIN; DELETE FROM app.routes; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; DELETE FROM app.routes WHERE id = 1; INSERT INTO app.routes VALUES (5, 'a', 5); SELECT * FROM t.pending(); ROLLBACK;
BEGIN; INSERT INTO app.routes VALUES (5, 'e', 5); DELETE FROM app.routes WHERE id = 5; SELECT count(*) FROM t.pending(); ROLLBACK;
BEGIN;
WITH gone AS (DELETE FROM app.routes RETURNING *) INSERT INTO app.routes SELECT id + 10, 'x' || path, namespace_id FROM gone;
SELECT * FROM t.pending();
ROLLBACK;

-- INSERT … ON CONFLICT, MERGE, COPY
BEGIN;
INSERT INTO app.routes VALUES (1, 'nothing', 1), (5, 'e', 5) ON CONFLICT (id) DO NOTHING; SELECT * FROM t.pending();
INSERT INTO app.routes VALUES (1, 'up', 1), (6, 'f', 6) ON CONFLICT (id) DO UPDATE SET path = excluded.path; SELECT * FROM t.pending();
INSERT INTO app.routes VALUES (3, 'not this', 1) ON CONFLICT (id) DO UPDATE SET path = excluded.path WHERE false; SELECT count(*) FROM t.pending();
ROLLBACK;
BEGIN;
MERGE INTO app.routes r USING (VALUES (1, 'm1'), (3, NULL), (7, 'm7')) AS s (id, path) ON r.id = s.id
 WHEN MATCHED AND s.path IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET path = s.path
 WHEN NOT MATCHED THEN INSERT (id, path, namespace_id) VALUES (s.id, s.path, 7);
SELECT * FROM t.pending();
ROLLBACK;
BEGIN;
COPY app.routes (id, path, namespace_id) FROM stdin WITH (DELIMITER ',');
21,copy21,1
22,copy22,2
\.
SELECT * FROM t.pending();
ROLLBACK;

-- the row is captured as other triggers leave it
CREATE FUNCTION app.lower() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.path := lower(NEW.path); RETURN NEW; END $$;
CREATE FUNCTION app.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE FUNCTION app.after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE app.routes SET path = path || '-after' WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON app.routes FOR EACH ROW EXECUTE FUNCTION app.lower();
CREATE TRIGGER zz BEFORE INSERT ON app.routes FOR EACH ROW WHEN (NEW.id = 50) EXECUTE FUNCTION app.skip();
CREATE TRIGGER a_after AFTER INSERT ON app.routes FOR EACH ROW WHEN (NEW.id = 51) EXECUTE FUNCTION app.after();
CREATE TRIGGER z_after AFTER INSERT ON app.routes FOR EACH ROW WHEN (NEW.id = 52) EXECUTE FUNCTION app.after();
BEGIN;
INSERT INTO app.routes VALUES (50, 'SKIPPED', 1), (1, 'A', 1) ON CONFLICT (id) DO NOTHING;
INSERT INTO app.routes VALUES (51, 'FIRST', 1), (52, 'LAST', 1);
SELECT * FROM t.pending();
ROLLBACK;
DROP TRIGGER a ON app.routes; DROP TRIGGER zz ON app.routes; DROP TRIGGER a_after ON app.routes; DROP TRIGGER z_after ON app.routes;

-- cascades of foreign keys, rules and views
CREATE TABLE app.groups (id int PRIMARY KEY, path text UNIQUE);
INSERT INTO app.groups VALUES (10, 'g10'), (30, 'g30'), (40, 'g40');
CREATE TABLE app.redirects (id int PRIMARY KEY, path varchar(20) UNIQUE, group_id int REFERENCES app.groups ON DELETE CASCADE
      ON UPDATE CASCADE, group_path text REFERENCES app.groups (path) ON UPDATE CASCADE ON DELETE SET NULL);
SELECT claims.claim_attribute('app.redirects', 'path', 'REDIRECT_ROUTES', 'GROUP', 'group_id', 'RAILS_TABLE_REDIRECT_ROUTES'),
       claims.claim_attribute('app.redirects', 'group_path', 'ROUTES', 'GROUP', 'group_id', 'RAILS_TABLE_REDIRECT_ROUTES');
INSERT INTO app.redirects VALUES (1, 'r1', 10, 'g30'), (2, 'r2', 10, 'g40');
BEGIN; DELETE FROM app.groups WHERE id = 10; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.groups SET id = 11 WHERE id = 10; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.groups SET path = 'new' WHERE id = 30; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; DELETE FROM app.groups WHERE id = 40; SELECT * FROM t.pending(); ROLLBACK;
CREATE VIEW app.of_ten AS SELECT * FROM app.routes WHERE namespace_id = 10;
BEGIN; UPDATE app.of_ten SET path = 'by view' WHERE id = 1; SELECT * FROM t.pending(); ROLLBACK;
-- a value that moves to another table of the same bucket type replaces the claim
BEGIN; UPDATE app.redirects SET group_path = NULL; UPDATE app.routes SET path = 'g30' WHERE id = 1; SELECT * FROM t.pending(); ROLLBACK;

-- savepoints: ROLLBACK TO takes their changes out of the batch
BEGIN;
INSERT INTO app.routes VALUES (60, 's0', 1);
SAVEPOINT one; INSERT INTO app.routes VALUES (61, 's1', 1);
SAVEPOINT two; UPDATE app.routes SET path = 's2' WHERE id = 60; SELECT * FROM t.pending();
ROLLBACK TO two; SELECT * FROM t.pending();
UPDATE app.routes SET path = 's3' WHERE id = 60; RELEASE two; SELECT * FROM t.pending();
ROLLBACK TO one; SELECT * FROM t.pending();
INSERT INTO app.routes VALUES (62, 's4', 1); RELEASE one; SELECT * FROM t.pending();
DO $$ BEGIN
    INSERT INTO app.routes VALUES (63, 's5', 1);
    BEGIN INSERT INTO app.routes VALUES (64, 's6', 1); RAISE 'undone'; EXCEPTION WHEN raise_exception THEN NULL; END;
    BEGIN INSERT INTO app.routes VALUES (65, 's7', 1); EXCEPTION WHEN raise_exception THEN NULL; END;
END $$;
SELECT * FROM t.pending();
SAVEPOINT three; INSERT INTO app.routes VALUES (1, 'twice', 1);
ROLLBACK TO three; SELECT count(*) FROM t.pending();
ROLLBACK;
SELECT count(*) FROM t.pending();
-- changes of a prepared transaction are not pending in the next one
BEGIN; INSERT INTO app.routes VALUES (66, 'prepared', 1); PREPARE TRANSACTION 'regress_claims_capture';
BEGIN; SELECT count(*) FROM t.pending(); COMMIT;
ROLLBACK PREPARED 'regress_claims_capture';
-- a procedure that commits: each of its transactions has its own pending batch
CREATE PROCEDURE app.two() LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO app.routes VALUES (70, 'p0', 1); COMMIT; INSERT INTO app.routes VALUES (71, 'p1', 1);
    RAISE NOTICE '%', (SELECT string_agg(p, ', ') FROM t.pending() p); ROLLBACK; END $$;
SET client_min_messages = notice;
CALL app.two();
SET client_min_messages = error;
DELETE FROM app.routes WHERE id = 70;

-- TRUNCATE of a claimed table is refused, also by CASCADE
SELECT t.call('TRUNCATE app.routes');
SELECT t.call('TRUNCATE app.groups CASCADE');
SELECT count(*) FROM app.routes;

-- unclaim_attribute ends the capture of its column; the table's other column is still captured
SELECT claims.unclaim_attribute('app.redirects', 'group_path');
BEGIN; UPDATE app.redirects SET group_path = NULL, path = path || 'x'; SELECT * FROM t.pending(); ROLLBACK;
SELECT claims.unclaim_attribute('app.routes', 'path');
BEGIN; DELETE FROM app.routes; SELECT count(*) FROM t.pending(); TRUNCATE app.routes; ROLLBACK;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'app.routes'::regclass AND NOT tgisinternal;
SELECT claims.unclaim_attribute('app.redirects', 'path');
SELECT t.call($$SELECT claims.unclaim_attribute('app.routes', 'path')$$);
SELECT * FROM claims.claimed_attributes;
DROP SCHEMA app CASCADE;
