-- unclaimed_rows: whether every row has its claim. And what import and verification say about names that cannot be claimed.
SET client_min_messages = warning;
SELECT t.clean(); DELETE FROM claims.claimed_attributes;
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.paths (id bigint PRIMARY KEY, kind text NOT NULL, path text, org int DEFAULT 10);
GRANT ALL ON app.paths TO PUBLIC;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_unclaimed FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_unclaimed OPTIONS (user 'postgres');
SET claims.service_timeout = '5min';
SELECT t.keep_caches_of_service();
CREATE FUNCTION t.unclaimed(max_names int DEFAULT 10) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', unclaimed, in_progress, first_names, checked, finished, cursor)
      FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', max_names => max_names) $$;
INSERT INTO app.paths SELECT n, CASE n % 2 WHEN 0 THEN 'even' ELSE 'odd' END, 'p' || n FROM generate_series(1, 3000) n;
ANALYZE app.paths;

-- without a declaration or a service it says so
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES')$$);
SELECT claims.automatic(1, 'regress_claims_unclaimed');
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES')$$);
SELECT claims.claim_attribute('app.paths', 'path', 'ROUTES', 'GROUP', 'org', 'RAILS_TABLE_ROUTES',
                              condition => format('kind = %L', kind), declaration => kind::name) FROM unnest('{even,odd}'::text[]) kind;
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('NOTHING')$$);
SELECT t.call($$SELECT * FROM claims.unclaimed_rows(NULL)$$);
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', max_names => -1)$$);
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', after => '')$$);
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', 77)$$);
SET ROLE regress_claims_two;
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES')$$);
RESET ROLE;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT t.call($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES')$$);
ROLLBACK;

-- an import of two declarations that share the rows counts each row once
SELECT t.unclaimed(2);
CALL claims.import_claims(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES');
SELECT rows_done, estimated FROM claims.imports WHERE source_type = 'RAILS_TABLE_ROUTES';
SELECT t.unclaimed();
BEGIN READ ONLY; SELECT t.unclaimed(); ROLLBACK;

-- rows without their claims, whatever the reason
BEGIN; SELECT claims.skip_capture('while nobody looks');
UPDATE app.paths SET path = 'renamed' WHERE id = 5;
INSERT INTO app.paths VALUES (4001, 'odd', 'held'), (4002, 'odd', 'p9'), (4003, 'odd', ''), (4004, 'odd', 'kept'); COMMIT;
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('held', 'ROUTES', 1))));
SELECT claims.reserve_names('ROUTES', '{kept}', 'ours');
SET client_min_messages = notice;
SELECT claims.set_enforcement('app.paths', 'path', 'observe', 'back', declaration => 'odd');
SELECT claims.set_enforcement('app.paths', 'path', 'enforce', 'again');
SELECT claims.set_enforcement('app.paths', 'path', 'enforce', 'again');
SET client_min_messages = warning;
SELECT t.unclaimed(), t.unclaimed(0);
SELECT source_id, discrepancy, outcome FROM claims.list_discrepancies(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', recent => '0');
-- list_discrepancies: of one outcome, which is chosen before the page is cut
SELECT source_id FROM claims.list_discrepancies(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', NULL, 1, '0', 'held_by_other');
SELECT source_id FROM claims.list_discrepancies(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', NULL, 1, '0', 'doubled');
SELECT source_id FROM claims.list_discrepancies(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', NULL, 1, '0', 'impossible');
SELECT t.call($$SELECT * FROM claims.list_discrepancies(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', outcome => 'corrected')$$);
-- a correction leaves those that people decide about, and says what is wrong with them
SELECT missing, different, extra, corrected FROM claims.verify(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', recent => '0', correct => true);
SELECT t.unclaimed();
DELETE FROM app.paths WHERE id > 4000;
DO $$ BEGIN FOR n IN 1..3000 LOOP EXIT WHEN NOT EXISTS (SELECT FROM claims.claim_leases); PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT t.unclaimed();

-- a lease that an abandoned save has left is no claim, though digests count it
BEGIN; SELECT claims.skip_capture('while nobody looks');
INSERT INTO app.paths VALUES (5001, 'odd', 'abandoned', 5001); COMMIT;
SELECT claims.begin_update(1, jsonb_build_array(t.claim('abandoned', 'ROUTES', 5001)), lease_uuid => t.u(6600)) IS NOT NULL;
SELECT unclaimed, in_progress, first_names FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', max_runtime => '0.2 s');
SELECT claims.rollback_update(1, t.u(6600));
SELECT unclaimed, in_progress, first_names FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES');
-- a transaction that has written the table is open: it may leave a name without a claim when it commits
BEGIN; INSERT INTO app.paths VALUES (5002, 'neither', 'open'); PREPARE TRANSACTION 'regress_claims_open';
SELECT unclaimed, in_progress FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', max_runtime => '0.2 s');
ROLLBACK PREPARED 'regress_claims_open';
DELETE FROM app.paths WHERE id = 5001;

-- it stops after max_runtime, and continues at the cursor
INSERT INTO app.paths SELECT n, 'neither', 'q' || n FROM generate_series(100001, 230000) n;
SELECT checked < 3000 AS stopped, finished, cursor FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', max_runtime => '0 s') \gset
SELECT :'finished', :'stopped', :'cursor' <> '';
SELECT unclaimed, checked < 3000, finished, cursor IS NULL FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES', after => :'cursor');
DELETE FROM app.paths WHERE id > 100000;

-- a service that does not answer is an error, and no count
ALTER SERVER regress_claims_unclaimed OPTIONS (SET port '1');
SELECT t.state_of($$SELECT * FROM claims.unclaimed_rows('RAILS_TABLE_ROUTES')$$);
DO $$ BEGIN EXECUTE format('ALTER SERVER regress_claims_unclaimed OPTIONS (SET port %L)', current_setting('port')); END $$;

-- preview_import: names that two rows have, further apart than a batch; the one that has the claim already stays; names that the profile refuses
BEGIN; SELECT claims.skip_capture('while nobody looks');
INSERT INTO app.paths VALUES (6001, 'odd', 'p10'), (6002, 'odd', 'new'), (6003, 'even', ''), (-6, 'odd', 'p11');
INSERT INTO app.paths SELECT n, 'odd', 'r' || n FROM generate_series(7001, 9000) n;
INSERT INTO app.paths VALUES (9001, 'even', 'new'), (9002, 'even', 'new'); COMMIT;
SELECT source_id, bucket_value, reason, holder_cell_id FROM claims.preview_import(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES');
SELECT source_id FROM claims.preview_import(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', after => '9001');
SELECT source_id FROM claims.preview_import(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', max_results => 1, outcome => 'invalid');
SELECT t.call($$SELECT * FROM claims.preview_import(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES', outcome => 'locked')$$);
SELECT count(*) FROM claims.claims WHERE creator_id = 1;
-- the import finds the same
CALL claims.import_claims(1, 'regress_claims_unclaimed', 'RAILS_TABLE_ROUTES');
SELECT source_id, bucket_value, reason, holder_cell_id FROM claims.import_collisions(1, 'RAILS_TABLE_ROUTES') ORDER BY source_id::int;
SELECT collisions, skipped FROM claims.imports WHERE source_type = 'RAILS_TABLE_ROUTES';
-- nothing is left behind
SELECT claims.automatic(NULL, NULL);
DROP SCHEMA app CASCADE;
DROP SERVER regress_claims_unclaimed CASCADE;
DROP FUNCTION t.unclaimed;
DELETE FROM claims.import_runs; DELETE FROM claims.imported_collisions; DELETE FROM claims.reservations;
SELECT t.clean();
