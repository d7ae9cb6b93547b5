-- Capture in automatic mode: claims that move from one row to another, destroys that are left out, and claims that are adopted.
SET client_min_messages = error;
SET claims.service_timeout = '10s';
SELECT t.clean();
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text, namespace_id int, UNIQUE (path) DEFERRABLE);
CREATE TABLE app.redirects (id bigint PRIMARY KEY, path varchar(30), namespace_id int);
SELECT t.keep_caches_of_service();
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_replace FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_replace OPTIONS (user 'postgres');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
SELECT claims.claim_attribute('app.redirects', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_REDIRECT_ROUTES', condition => 'id > 0');
SELECT claims.automatic(1, 'regress_claims_replace');
-- t.shown() settles all leases and lists the claims; t.conceded() counts what was left out or adopted
CREATE FUNCTION t.shown(pattern text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
    PERFORM claims.reconcile(1, 'regress_claims_replace');
    RETURN QUERY SELECT format('%s of %s in %s %s%s%s', bucket_value, subject_id, source_type, source_id,
          CASE creator_id WHEN 1 THEN '' ELSE ', cell ' || creator_id END,
        CASE status WHEN 1 THEN '' ELSE ', leased' END) FROM claims.claims WHERE bucket_value ~ pattern ORDER BY bucket_value COLLATE "C"; END $$;
CREATE TABLE t.counted (missing bigint, not_owner bigint, other_source bigint, adopted bigint);
CREATE FUNCTION t.counts(OUT missing bigint, OUT not_owner bigint, OUT other_source bigint, OUT adopted bigint) LANGUAGE sql AS $$
    SELECT m.last_value, n.last_value, o.last_value, a.last_value FROM claims.capture_left_out_missing m, claims.capture_left_out_not_owner n,
           claims.capture_left_out_other_source o, claims.capture_adopted a $$;
CREATE FUNCTION t.conceded() RETURNS text LANGUAGE plpgsql AS $$ DECLARE old t.counted; new t.counted; BEGIN
    SELECT * INTO new FROM t.counts(); DELETE FROM t.counted RETURNING * INTO old; INSERT INTO t.counted SELECT new.*;
    RETURN format('missing %s, not_owner %s, other_source %s, adopted %s', new.missing - old.missing, new.not_owner - old.not_owner,
        new.other_source - old.other_source, new.adopted - old.adopted);
END $$;
INSERT INTO t.counted SELECT * FROM t.counts();
-- t.behind() changes rows without capture
CREATE PROCEDURE t.behind(statement text) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    EXECUTE statement;
    SET LOCAL session_replication_role = origin;
END $$;
\set VERBOSITY terse

-- claims move between rows and tables without being free in between
INSERT INTO app.routes VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30);
SELECT * FROM t.shown();
UPDATE app.routes SET path = CASE path WHEN 'a' THEN 'b' ELSE 'a' END WHERE id IN (1, 2);
SELECT * FROM t.shown();
UPDATE app.routes SET path = CASE id WHEN 1 THEN 'c' WHEN 2 THEN 'b' ELSE 'a' END;
SELECT * FROM t.shown();
BEGIN; DELETE FROM app.routes WHERE id = 3; INSERT INTO app.routes VALUES (4, 'a', 40); COMMIT;
BEGIN; DELETE FROM app.routes WHERE id = 1; INSERT INTO app.redirects VALUES (1, 'c', 11); COMMIT;
UPDATE app.routes SET namespace_id = 21 WHERE id = 2;
SELECT * FROM t.shown();
-- a rolled-back move leaves the claim to its row, and other cells never get it
BEGIN;
UPDATE app.routes SET id = 5 WHERE id = 4;
SELECT claims.begin_pending(1, 'regress_claims_replace') IS NOT NULL;
SELECT bucket_value, subject_id, status FROM claims.claims WHERE bucket_value = 'a';
SELECT reason FROM claims.try_begin_update(2, t.creates('a')) t, jsonb_to_recordset(t.conflicts) AS c (reason text); ROLLBACK;
SELECT * FROM t.shown('a');
SELECT t.conceded(), (SELECT count(*) FROM claims.verify(1, 'regress_claims_replace', 'RAILS_TABLE_ROUTES', recent => '0')
      WHERE missing + different + extra > 0);

-- a row whose claim belongs to another row destroys nothing
CALL t.behind($$UPDATE app.routes SET path = 'z' WHERE id = 2$$);
INSERT INTO app.redirects VALUES (2, 'y', 12);
CALL t.behind($$INSERT INTO app.routes VALUES (6, 'y', 60)$$);
DELETE FROM app.routes WHERE id = 6;
UPDATE app.routes SET path = 'x' WHERE id = 2;
SELECT * FROM t.shown(), t.conceded();
-- a row without the claim may change its subject: the claim stays with the row that has it
CALL t.behind($$INSERT INTO app.routes VALUES (6, 'y', 60)$$);
UPDATE app.routes SET namespace_id = 61 WHERE id = 6;
\echo :SQLSTATE
-- a name that another row has cannot be taken by a new row
BEGIN; DELETE FROM app.routes WHERE id = 6; INSERT INTO app.routes VALUES (7, 'y', 70); COMMIT;
\echo :SQLSTATE
DELETE FROM app.routes WHERE id = 6;
SELECT * FROM t.shown('y'), t.conceded();
-- several rows with one name are deleted: the claim goes with the row that has it
CALL t.behind($$INSERT INTO app.redirects VALUES (3, 'many', 13), (4, 'many', 14)$$);
UPDATE app.routes SET path = 'many' WHERE id = 2;
\echo :SQLSTATE
CALL t.behind($$UPDATE app.routes SET path = 'x' WHERE id = 2$$);
BEGIN; DELETE FROM app.redirects WHERE id = 4; UPDATE app.redirects SET namespace_id = 15 WHERE id = 3; COMMIT;
SELECT * FROM t.shown('many'), t.conceded();
CALL t.behind($$INSERT INTO app.redirects VALUES (5, 'many', 16), (-1, 'many', 17)$$);
DELETE FROM app.redirects WHERE path = 'many';
SELECT * FROM t.shown('many'), t.conceded();
SELECT count(*) FROM app.redirects WHERE path = 'many';

-- rows with names of another cell may give their names up, and cannot swap them
SELECT t.have(2, 'two', 'two too');
CALL t.behind($$INSERT INTO app.routes VALUES (20, 'two', 1), (21, 'two too', 1)$$);
UPDATE app.routes SET namespace_id = 2 WHERE id = 20;
\echo :SQLSTATE
UPDATE app.routes SET path = CASE path WHEN 'two' THEN 'two too' ELSE 'two' END WHERE id IN (20, 21);
\echo :SQLSTATE
UPDATE app.routes SET path = path || '!' WHERE id IN (20, 21);
SELECT * FROM t.shown('two'), t.conceded();

-- claims of the cell that no row has are adopted
CALL t.behind($$DELETE FROM app.routes WHERE id IN (20, 21)$$);
INSERT INTO app.routes VALUES (22, 'two!', 22);
BEGIN; INSERT INTO app.redirects VALUES (23, 'two too!', 23), (24, 'new', 24); UPDATE app.routes SET path = 'x2' WHERE id = 2; COMMIT;
SELECT * FROM t.shown('two|new|x'), t.conceded();
-- a claim is adopted where the other row has a false condition or no subject, and not where a row has it
CALL t.behind($$INSERT INTO app.redirects VALUES (-2, 'spare', 1), (25, 'spare', NULL)$$);
SELECT t.have(1, 'spare', 'not spare');
INSERT INTO app.routes VALUES (26, 'spare', 26);
CALL t.behind($$INSERT INTO app.redirects VALUES (27, 'not spare', 27)$$);
INSERT INTO app.routes VALUES (28, 'not spare', 28);
\echo :SQLSTATE
SELECT * FROM t.shown('spare'), t.conceded();
BEGIN ISOLATION LEVEL SERIALIZABLE; DELETE FROM app.redirects WHERE id = 27; INSERT INTO app.routes VALUES (28, 'not spare', 28); COMMIT;
SELECT * FROM t.shown('not spare'), t.conceded();
-- nothing is adopted in a batch that has a conflict
SELECT t.have(1, 'left');
INSERT INTO app.routes VALUES (29, 'left', 29), (30, 'two', 30);
\echo :SQLSTATE
SELECT * FROM t.shown('left'), t.conceded();
-- a claim is not adopted where two columns of one row have the name
ALTER TABLE app.routes ADD old_path text;
SELECT claims.claim_attribute('app.routes', 'old_path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
UPDATE app.routes SET old_path = path WHERE id = 26;
\echo :SQLSTATE
SELECT claims.unclaim_attribute('app.routes', 'old_path');

-- a claim is not adopted where another session adopts it first
CREATE EXTENSION dblink SCHEMA app;
CREATE FUNCTION t.faster() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.payload #>> '{create_records,0,source,type}' = 'RAILS_TABLE_ROUTES' AND NEW.payload #>> '{destroy_records,0,bucket,value}' = 'left' THEN
        PERFORM app.dblink_exec(format('host=%s port=%s dbname=%s user=postgres', current_setting('unix_socket_directories'),
                current_setting('port'), current_database()),
            $c$SET claims.service_timeout = '10s'; INSERT INTO app.redirects VALUES (31, 'left', 31)$c$);
        FOR i IN 1..3000 LOOP EXIT WHEN NOT EXISTS (SELECT FROM claims.claim_leases); PERFORM pg_sleep(0.01); END LOOP;
    END IF; RETURN NEW; END $$;
CREATE TRIGGER faster BEFORE INSERT ON claims.claim_leases FOR EACH ROW EXECUTE FUNCTION t.faster();
INSERT INTO app.routes VALUES (29, 'left', 29);
\echo :SQLSTATE
DROP TRIGGER faster ON claims.claim_leases;
SELECT * FROM t.shown('left');
SELECT count(*) FROM app.routes WHERE path = 'left';

-- check() finds nothing; cleans up
SELECT count(*) FROM claims.check();
SELECT claims.automatic(NULL, NULL);
SELECT claims.unclaim_attribute('app.routes', 'path'), claims.unclaim_attribute('app.redirects', 'path');
DROP SCHEMA app CASCADE; DROP SERVER regress_claims_replace CASCADE;
SELECT t.clean();
