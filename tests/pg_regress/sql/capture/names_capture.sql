-- Names in a cell: rows have them as they were entered, claims have the canonical forms.
SET client_min_messages = error;
SET claims.service_timeout = '10s';
SELECT t.clean();
SELECT claims.add_bucket_type(110, 'HANDLES', 'username');
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.users (id bigint PRIMARY KEY, handle text, org int);
SELECT t.keep_caches_of_service();
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_names FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_names OPTIONS (user 'postgres');
SELECT claims.claim_attribute('app.users', 'handle', 'HANDLES', 'USER', 'org', 'RAILS_TABLE_USERS');
SELECT claims.automatic(1, 'regress_claims_names');
CREATE FUNCTION t.names_shown() RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
    PERFORM claims.reconcile(1, 'regress_claims_names');
    RETURN QUERY SELECT format('%s (%s) of %s in %s%s%s', bucket_value, display_value, subject_id, source_id,
          CASE creator_id WHEN 1 THEN '' ELSE ', cell ' || creator_id END,
        CASE status WHEN 1 THEN '' ELSE ', leased' END) FROM claims.claims ORDER BY bucket_value COLLATE "C"; END $$;
CREATE FUNCTION t.names_verified(correct boolean DEFAULT false) RETURNS text LANGUAGE sql AS $$
    SELECT format('missing %s, different %s, extra %s, corrected %s, %s', missing, different, extra, corrected, finished)
      FROM claims.verify(1, 'regress_claims_names', 'RAILS_TABLE_USERS', 10, '0', correct) $$;
CREATE PROCEDURE t.names_behind(statement text) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL session_replication_role = replica;
    EXECUTE statement;
    SET LOCAL session_replication_role = origin;
END $$;
\set VERBOSITY terse

-- the claim has the canonical form and the row's spelling
INSERT INTO app.users VALUES (1, 'Ada', 10), (2, 'bob', 20);
SELECT * FROM t.names_shown();
-- two rows with one name are refused
INSERT INTO app.users VALUES (3, 'Cy', 30), (4, 'cY', 40);
-- a name that another cell has in another spelling is refused
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('DORA', 'HANDLES'))));
INSERT INTO app.users VALUES (5, 'Dora', 50);
-- a name that the profile refuses fails the save
INSERT INTO app.users VALUES (6, 'no name', 60);
UPDATE app.users SET handle = 'no name' WHERE id = 1;
SELECT * FROM t.names_shown();

-- another spelling in the same row: the claim stays and gets the new display_value
BEGIN; UPDATE app.users SET handle = 'ADA' WHERE id = 1; SELECT * FROM t.pending(); COMMIT;
SELECT * FROM t.names_shown();
BEGIN; UPDATE app.users SET handle = 'x' WHERE id = 1; UPDATE app.users SET handle = 'ADA' WHERE id = 1; SELECT count(*) FROM t.pending(); COMMIT;
-- the name moves to another row in another spelling
BEGIN; UPDATE app.users SET handle = 'Eve' WHERE id = 1; UPDATE app.users SET handle = 'ada' WHERE id = 2; COMMIT;
SELECT * FROM t.names_shown();
SELECT t.names_verified();
-- cell and service agree whatever the rows' spelling
SELECT (SELECT digest FROM claims.digest_expected('RAILS_TABLE_USERS')) = (SELECT digest FROM claims.digest_records(1, 'RAILS_TABLE_USERS'));
SELECT jsonb_path_query_array(claims.expected_records('RAILS_TABLE_USERS'), '$[*].bucket.value');

-- changes that were not captured are verified by canonical forms
CALL t.names_behind($$UPDATE app.users SET handle = 'EVE' WHERE id = 1$$);
SELECT t.names_verified();
CALL t.names_behind($$UPDATE app.users SET handle = 'Fay' WHERE id = 1$$);
SELECT t.names_verified(true), t.names_verified();
SELECT * FROM t.names_shown();
-- an outdated claim of a deleted row is corrected for the row that has the name now
CALL t.names_behind($$UPDATE app.users SET id = 7, handle = 'FAY' WHERE id = 1$$);
SELECT t.names_verified(true), t.names_verified();
SELECT * FROM t.names_shown();
-- rows with an invalid name, or with one name, are reported and not claimed
CALL t.names_behind($$INSERT INTO app.users VALUES (8, 'no name', 80), (9, 'nO nAme', 90)$$);
SELECT t.names_verified(true), t.names_verified();
UPDATE app.users SET org = 81 WHERE id = 8;
UPDATE app.users SET handle = 'Named' WHERE id = 8;
DELETE FROM app.users WHERE id = 9;
SELECT * FROM t.names_shown();

-- a name is destroyed, or its claim adopted, in another spelling
CALL t.names_behind($$UPDATE app.users SET handle = 'BOB' WHERE id = 2$$);
DELETE FROM app.users WHERE id = 7;
CALL t.names_behind($$DELETE FROM app.users WHERE id = 8$$);
INSERT INTO app.users VALUES (10, 'NAMED', 100);
SELECT * FROM t.names_shown();
-- a claim is not adopted where another row has the name in another spelling
CALL t.names_behind($$INSERT INTO app.users VALUES (11, 'nAMED', 110)$$);
CALL t.names_behind($$UPDATE app.users SET handle = 'other' WHERE id = 10$$);
INSERT INTO app.users VALUES (12, 'Named', 120);
BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO app.users VALUES (12, 'Named', 120); COMMIT;

-- a cell with another profile is refused, and nothing is reported as a discrepancy
CREATE FUNCTION t.names_there(profile text) RETURNS void LANGUAGE sql AS $$ UPDATE claims.bucket_types SET profile = $1 WHERE id = 110 $$;
\set VERBOSITY default
BEGIN; SELECT t.names_there('casefold');
INSERT INTO app.users VALUES (13, 'Gil', 130);
COMMIT;
BEGIN; SELECT t.names_there('casefold'); SELECT t.names_verified(); ROLLBACK;
BEGIN; SELECT t.names_there('exact'); SELECT * FROM claims.verify(1, 'regress_claims_names', 'RAILS_TABLE_USERS', 10, '0', true); ROLLBACK;
\set VERBOSITY terse
SELECT * FROM t.names_shown();

-- cleans up
SELECT claims.automatic(NULL, NULL);
SELECT claims.unclaim_attribute('app.users', 'handle');
DROP SERVER regress_claims_names CASCADE;
DROP SCHEMA app CASCADE;
DROP FUNCTION t.names_shown, t.names_verified, t.names_there; DROP PROCEDURE t.names_behind;
DELETE FROM claims.cells_outstanding_leases;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
RESET client_min_messages;
SELECT t.clean();
