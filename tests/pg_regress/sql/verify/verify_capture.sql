-- Capture and verification agree: capture claims what verification expects.
SELECT t.clean();
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_verify FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_verify OPTIONS (user 'postgres');
SET claims.service_timeout = '10s';
CREATE TABLE t.routes (id bigint PRIMARY KEY, path varchar(100) UNIQUE, handle uuid UNIQUE, grp int, hidden boolean NOT NULL DEFAULT false);
CREATE TABLE t.parts (id int PRIMARY KEY, path text, grp smallint) PARTITION BY RANGE (id);
CREATE TABLE t.part_one PARTITION OF t.parts FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE t.part_two PARTITION OF t.parts FOR VALUES FROM (10) TO (MAXVALUE);
SELECT claims.claim_attribute('t.routes', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', condition => 'NOT hidden AND length(path) < 10');
SELECT claims.claim_attribute('t.routes', 'handle', 'USERNAMES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES');
SET client_min_messages = error;
SELECT claims.claim_attribute('t.parts', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_GROUPS', condition => 'id <> 3');
RESET client_min_messages;
SELECT claims.automatic(1, 'regress_claims_verify');
-- after every kind of write there are no discrepancies, in reports and by digest
INSERT INTO t.routes SELECT i, 'r' || i, CASE WHEN i % 3 > 0 THEN md5(i::text)::uuid END, i % 5, i % 4 = 0 FROM generate_series(-5, 100) i;
INSERT INTO t.parts SELECT i, 'part' || i, i FROM generate_series(-3, 30) i;
UPDATE t.routes SET path = upper(path) WHERE id % 7 = 0;
DELETE FROM t.routes WHERE id % 11 = 0;
UPDATE t.routes SET hidden = NOT hidden WHERE id % 13 = 0;
UPDATE t.parts SET path = 'moved' || id, id = id + 100 WHERE id < 0;
SELECT processed = committed, pending, orphaned FROM claims.reconcile(1, 'regress_claims_verify');
SELECT checked > 100, missing, different, extra, skipped, finished FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES', 10);
SELECT checked, missing, different, extra, skipped, finished FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_GROUPS', 10);
SELECT (SELECT digest FROM claims.digest_expected('RAILS_TABLE_ROUTES')) = (SELECT digest FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES'));
-- capture replaces the claim of a bucket that moves to another row or subject
BEGIN;
UPDATE t.routes SET path = 'between' WHERE id = 1;
UPDATE t.routes SET path = 'r1' WHERE id = 2;
UPDATE t.routes SET path = 'r2' WHERE id = 1;
COMMIT;
UPDATE t.routes SET grp = 77 WHERE id = 3;
BEGIN; DELETE FROM t.parts WHERE id = 5; INSERT INTO t.parts VALUES (50, 'part5', 9); COMMIT;
UPDATE t.parts SET id = 999 WHERE id = 98;
SELECT processed = committed FROM claims.reconcile(1, 'regress_claims_verify');
SELECT missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES', 10, '0', true);
SELECT missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_GROUPS', 10, '0', true);
SELECT bucket_value, subject_id, source_id FROM claims.claims WHERE bucket_value IN ('r1', 'r2', 'r3', 'part5') ORDER BY bucket_value;
SELECT missing, different, extra FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES');
-- a replaced claim can be changed further
UPDATE t.routes SET path = 'renamed' WHERE path = 'r1';
SELECT processed, committed FROM claims.reconcile(1, 'regress_claims_verify');
SELECT missing, different, extra FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_ROUTES', 10);
-- rows older than the declaration are claimed by verification
SELECT claims.unclaim_attribute('t.parts', 'path');
INSERT INTO t.parts VALUES (60, 'earlier', 1); DELETE FROM t.parts WHERE id = 7;
SET client_min_messages = error;
SELECT claims.claim_attribute('t.parts', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_GROUPS');
RESET client_min_messages;
SELECT missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_GROUPS', 10, '0', true);
SELECT missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_GROUPS', 10, '0', true);
-- an owner who hides rows by another condition is told of by verification: their claims are for nothing
SET client_min_messages = error;
SELECT claims.claim_attribute('t.parts', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_GROUPS', condition => 'id < 20');
RESET client_min_messages;
SELECT missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_verify', 'RAILS_TABLE_GROUPS', 10, '0');
SELECT count(*) FROM claims.check();
SELECT claims.automatic(NULL, NULL);
SET client_min_messages = warning;
SELECT claims.unclaim_attribute('t.routes', 'path'), claims.unclaim_attribute('t.routes', 'handle'), claims.unclaim_attribute('t.parts', 'path');
DROP TABLE t.routes, t.parts;
DROP SERVER regress_claims_verify CASCADE;
RESET client_min_messages;
RESET claims.service_timeout;
SELECT t.clean();
