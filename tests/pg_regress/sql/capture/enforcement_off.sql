-- A declaration that is off calls for nothing, in verification and import either.
SET client_min_messages = error;
SELECT t.clean(); DELETE FROM claims.reservations;
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.users (id bigint PRIMARY KEY, name text UNIQUE, org int DEFAULT 10);
CREATE TABLE app.teams (id bigint PRIMARY KEY, name text UNIQUE, org int DEFAULT 10);
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_off FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_off OPTIONS (user 'postgres');
SET claims.service_timeout = '5min';
SELECT claims.claim_attribute('app.users', 'name', 'USERNAMES', 'ORGANIZATION', 'org', 'RAILS_TABLE_USERS');
-- t.names() returns the claims with their sources, t.verified() the counts of a verification
CREATE FUNCTION t.names() RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(bucket_value || ' ' || source_id, ', ' ORDER BY bucket_value COLLATE "C"), 'none') FROM claims.claims $$;
CREATE FUNCTION t.verified(correct boolean DEFAULT true, rows int DEFAULT 1000) RETURNS text LANGUAGE sql AS $$
    SELECT format('checked %s, missing %s, different %s, extra %s, corrected %s, skipped %s', checked, missing, different, extra, corrected, skipped)
      FROM claims.verify(1, 'regress_claims_off', 'RAILS_TABLE_USERS', rows, '0', correct) $$;
SELECT claims.automatic(1, 'regress_claims_off');
INSERT INTO app.users SELECT n, 'n' || n FROM generate_series(1, 5) n;
CALL claims.import_claims(1, 'regress_claims_off', 'RAILS_TABLE_USERS');
SELECT t.names(), t.verified();

-- nothing is expected, claimed, or destroyed while it is off: the claims of rows that changed or went are skipped, too
SELECT claims.set_enforcement('app.users', 'name', 'off', 'test');
UPDATE app.users SET name = 'renamed' WHERE id = 1; DELETE FROM app.users WHERE id = 2; INSERT INTO app.users VALUES (6, 'n6');
SELECT claims.expected_records('RAILS_TABLE_USERS'), (SELECT records FROM claims.digest_expected('RAILS_TABLE_USERS'));
SELECT t.verified(), t.verified(false), t.verified(true, 2);
SELECT count(*) FROM claims.list_discrepancies(1, 'regress_claims_off', 'RAILS_TABLE_USERS', recent => '0');
SELECT claims.begin_verification(1, 'RAILS_TABLE_USERS', true) AS pass \gset
SELECT claims.verify_share(:'pass', 'a', 'regress_claims_off', 1000, '0'), claims.verify_share(:'pass', 'a', 'regress_claims_off', 1000, '0');
SELECT count(*) FROM claims.preview_import(1, 'regress_claims_off', 'RAILS_TABLE_USERS');
CALL claims.import_claims(1, 'regress_claims_off', 'RAILS_TABLE_USERS');
SELECT t.names();
-- where it is off for a share of the names, the others are expected
SELECT claims.set_enforcement('app.users', 'name', 'off', 'test', 50);
SELECT jsonb_array_length(claims.expected_records('RAILS_TABLE_USERS')) BETWEEN 1 AND 4, t.verified(false) ~ 'skipped [1-5]$';
SELECT claims.set_enforcement('app.users', 'name', 'off', 'test');

-- a second declaration of the source type that is enforced: its own rows are verified as ever, and take no name of a row whose declaration is off
SELECT claims.claim_attribute('app.teams', 'name', 'USERNAMES', 'ORGANIZATION', 'org', 'RAILS_TABLE_USERS');
BEGIN; SELECT claims.skip_capture('test'); INSERT INTO app.teams VALUES (101, 'team'), (102, 'n3'); COMMIT;
SELECT discrepancy, bucket_value, source_id, outcome FROM claims.list_discrepancies(1, 'regress_claims_off', 'RAILS_TABLE_USERS', recent => '0');
SELECT t.verified(); SELECT t.names();
BEGIN; SELECT claims.skip_capture('test'); UPDATE app.teams SET name = 'team2' WHERE id = 101; COMMIT;
SELECT t.verified(); SELECT t.names();
-- enforced again, everything is corrected
DELETE FROM app.teams; SELECT claims.unclaim_attribute('app.teams', 'name');
SELECT claims.set_enforcement('app.users', 'name', 'enforce', 'test');
SELECT t.verified(); SELECT t.verified(), t.names();
SELECT claims.automatic(NULL, NULL);
DROP SCHEMA app CASCADE;
DROP SERVER regress_claims_off CASCADE;
RESET client_min_messages;
SELECT t.clean();
