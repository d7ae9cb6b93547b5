-- import_claims, preview_import, import_collisions and claims.imports, with a service in the same database.
SET client_min_messages = warning;
SELECT t.clean(); DELETE FROM claims.reservations;
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.users (id bigint PRIMARY KEY, name text, org int DEFAULT 10, seen int);
GRANT ALL ON app.users TO PUBLIC;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_import FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_import OPTIONS (user 'postgres');
SET claims.service_timeout = '5min';
CREATE FUNCTION t.imports() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT i.cell_id || ' ' || i.source_type || ' ' || i.state || ' ' || i.rows_done || '/' || i.estimated || ', collisions ' || i.collisions
        || ', skipped ' || i.skipped || CASE WHEN i.rate > 0 THEN '' ELSE ', no rate' END || coalesce(' ' || i.remaining, '')
      FROM claims.imports i ORDER BY 1
$$;

-- a source type that no column claims, NULLs, numbers out of range, other cells and transactions are refused
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
INSERT INTO app.users SELECT n, 'n' || n FROM generate_series(1, 25) n;
INSERT INTO app.users VALUES (-3, 'negative'), (100, NULL), (101, ''), (102, 'no org'), (103, 'n24'), (104, 'Two'), (105, 'two');
UPDATE app.users SET org = NULL WHERE id = 102;
ANALYZE app.users;
SELECT claims.claim_attribute('app.users', 'name', 'USERNAMES', 'ORGANIZATION', 'org', 'RAILS_TABLE_USERS');
SELECT claims.automatic(1, 'regress_claims_import');
CALL claims.import_claims(NULL, 'regress_claims_import', 'RAILS_TABLE_USERS');
CALL claims.import_claims(1, NULL, 'RAILS_TABLE_USERS');
CALL claims.import_claims(1, 'regress_claims_import', NULL);
CALL claims.import_claims(1, 'regress_claims_import', 'NOTHING');
CALL claims.import_claims(1, 'nothing', 'RAILS_TABLE_USERS');
CALL claims.import_claims(77, 'regress_claims_import', 'RAILS_TABLE_USERS');
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', batch_size => 0);
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', batch_size => NULL);
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', rows_per_second => 0);
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', max_runtime => '-1 s');
BEGIN; CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS'); ROLLBACK;
SET default_transaction_isolation = 'repeatable read';
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
RESET default_transaction_isolation;
SELECT t.call($$SELECT claims.import_step(1, 'RAILS_TABLE_USERS')$$);
SELECT t.call($$SELECT claims.wait_for_import(NULL)$$);
SELECT claims.wait_for_import('NaN'), claims.wait_for_import('-infinity');
SET ROLE regress_claims_two;
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
SELECT t.call($$SELECT * FROM claims.import_collisions(1, 'RAILS_TABLE_USERS')$$);
SELECT t.call($$SELECT * FROM claims.preview_import(1, 'regress_claims_import', 'RAILS_TABLE_USERS')$$);
SET ROLE regress_claims_nobody;
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
RESET ROLE;
SELECT count(*) FROM claims.claims;
SELECT * FROM t.imports();

-- preview_import: what would collide; it changes nothing
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('n5', 'USERNAMES', 1), t.claim('two', 'USERNAMES', 2))));
SELECT claims.reserve_names('USERNAMES', '{n6}', 'ours');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('n7', 'USERNAMES', 999))));
SELECT claims.begin_update(2, jsonb_build_array(t.claim('n9', 'USERNAMES', 3)), lease_uuid => t.u(5800)) IS NOT NULL;
SET ROLE regress_claims_one;
SELECT bucket_type, bucket_value, source_id, reason, holder_cell_id, cursor
  FROM claims.preview_import(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
SELECT bucket_value FROM claims.preview_import(1, 'regress_claims_import', 'RAILS_TABLE_USERS', max_results => 2);
SELECT bucket_value FROM claims.preview_import(1, 'regress_claims_import', 'RAILS_TABLE_USERS', '6', 2);
SELECT bucket_value FROM claims.preview_import(1, 'regress_claims_import', 'RAILS_TABLE_USERS', '105', 2);
SELECT t.call($$SELECT * FROM claims.preview_import(1, 'regress_claims_import', 'RAILS_TABLE_USERS', '', 2)$$);
SELECT t.call($$SELECT * FROM claims.preview_import(1, 'regress_claims_import', 'RAILS_TABLE_USERS', NULL, 0)$$);
RESET ROLE;
SELECT creator_id, count(*) FROM claims.claims GROUP BY 1 ORDER BY 1;
SELECT * FROM t.imports();

-- import_claims: with a batch of a few rows, stopped after each by max_runtime, and continued; another cell's lease ends meanwhile
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', batch_size => 10, max_runtime => '0 s');
SELECT * FROM t.imports();
SELECT count(*), string_agg(source_id, ' ' ORDER BY source_id::int) FROM claims.claims WHERE creator_id = 1;
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', batch_size => 10, max_runtime => '0 s');
SELECT * FROM t.imports();
SELECT claims.commit_update(2, t.u(5800));
SET ROLE regress_claims_one;
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', batch_size => 10);
SELECT * FROM t.imports();
-- n9 was leased: when it is tried again depends on the time
SELECT bucket_type, bucket_value, source_id, reason, holder_cell_id FROM claims.import_collisions(1, 'RAILS_TABLE_USERS') ORDER BY source_id::int;
SELECT cursor FROM claims.import_collisions(1, 'RAILS_TABLE_USERS', max_results => 2) OFFSET 1 \gset
SELECT bucket_value FROM claims.import_collisions(1, 'RAILS_TABLE_USERS', :'cursor', 2);
SELECT t.call($$SELECT * FROM claims.import_collisions(1, 'RAILS_TABLE_USERS', 'x')$$);
SELECT t.call($$SELECT * FROM claims.import_collisions(1, 'RAILS_TABLE_USERS', max_results => 0)$$);
RESET ROLE;
SELECT creator_id, status, count(*) FROM claims.claims GROUP BY 1, 2 ORDER BY 1;
SELECT count(*) FROM claims.check();
SELECT checked, missing, different, extra, held_by_other, skipped
  FROM claims.verify(1, 'regress_claims_import', 'RAILS_TABLE_USERS', recent => '0 s');
SELECT t.call($$SELECT claims.import_step(1, 'RAILS_TABLE_USERS')$$);
-- what it claimed are claims like others: a row gives its name up, and gets another one
UPDATE app.users SET name = 'renamed' WHERE id = 1; DELETE FROM app.users WHERE id = 2;
DO $$ BEGIN FOR n IN 1..3000 LOOP EXIT WHEN NOT EXISTS (SELECT FROM claims.claim_leases); PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT bucket_value, source_id, status FROM claims.claims WHERE bucket_value IN ('n1', 'n2', 'renamed');
-- another import begins anew, and finds what is there
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
SELECT * FROM t.imports();
SELECT creator_id, count(*) FROM claims.claims GROUP BY 1 ORDER BY 1;
-- when a collision is resolved, the next import does not list it
UPDATE app.users SET name = 'n5 of cell 1' WHERE id = 5;
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
SELECT bucket_value FROM claims.import_collisions(1, 'RAILS_TABLE_USERS') ORDER BY 1;

-- a limit on batches makes its calls smaller, one on leases does not bind it, since it begins none; a mode ends it
SELECT claims.set_cell_limits(1, 'few', max_outstanding => 1, max_batch_size => 1);
DELETE FROM claims.claims WHERE creator_id = 1;
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
SELECT count(*) FROM claims.claims WHERE creator_id = 1;
SELECT claims.set_cell_limits(1, 'no limit');
DELETE FROM claims.claims WHERE creator_id = 1;
SELECT claims.set_mode('settle_only', 'a transfer', 1);
\set VERBOSITY sqlstate
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
\set VERBOSITY default
SELECT * FROM t.imports();
SELECT claims.set_mode('open', 'done', 1);
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
SELECT * FROM t.imports();

-- names are claimed in canonical form, with their spelling; look-alikes are found
SELECT claims.add_bucket_type(121, 'NICKS', 'username', 'reject');
CREATE TABLE app.nicks (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), nick text);
INSERT INTO app.nicks (nick) VALUES ('Ada'), ('paypal'), ('with space'), ('bob');
SELECT claims.claim_attribute('app.nicks', 'nick', 'NICKS', 'ORGANIZATION', 'id', 'RAILS_TABLE_GROUPS');
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim(U&'p\0430ypal', 'NICKS', 1))));
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_GROUPS', batch_size => 2);
SELECT bucket_value, display_value, source_id = (SELECT id::text FROM app.nicks WHERE lower(nick) = bucket_value) FROM claims.claims
 WHERE bucket_type = 121 AND creator_id = 1 ORDER BY 1;
SELECT bucket_value, reason, holder_cell_id FROM claims.import_collisions(1, 'RAILS_TABLE_GROUPS') ORDER BY 1;
SELECT * FROM t.imports();
SELECT count(*) FROM claims.check();

-- with a pace, batches are small enough for short pauses
SELECT claims.unclaim_attribute('app.nicks', 'nick');
DELETE FROM claims.claims WHERE creator_id = 1;
SELECT clock_timestamp() AS began \gset
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS', rows_per_second => 20);
SELECT clock_timestamp() - :'began' > '1 s';
SELECT count(*) FROM claims.claims WHERE creator_id = 1;

-- it reads each row once
CREATE SEQUENCE app.reads;
CREATE FUNCTION app.read(bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('app.reads'); RETURN true; END $$;
CREATE TABLE app.read_once (id bigint PRIMARY KEY, name text);
INSERT INTO app.read_once SELECT n, 'once ' || n FROM generate_series(1, 1000) n; ANALYZE app.read_once;
SELECT claims.claim_attribute('app.read_once', 'name', 'USERNAMES', 'ORGANIZATION', 'id', 'RAILS_TABLE_EMAILS', condition => 'app.read(id)');
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_EMAILS', batch_size => 100);
SELECT last_value FROM app.reads; SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'once%';
SELECT claims.unclaim_attribute('app.read_once', 'name');

-- the change feed has what was imported
ALTER SERVER regress_claims_import OPTIONS (ADD options '-c claims.change_feed=on');
DELETE FROM claims.claims WHERE creator_id = 1;
CALL claims.import_claims(1, 'regress_claims_import', 'RAILS_TABLE_USERS');
SELECT op, count(*), min(new_cell_id), count(old_cell_id) FROM claims.changes GROUP BY 1;
-- a monitoring role sees the numbers, and no names
SELECT claims.grant_monitor('regress_claims_nobody');
SET ROLE regress_claims_nobody;
SELECT count(*) FROM claims.imports;
SELECT t.call($$SELECT * FROM claims.import_collisions(1, 'RAILS_TABLE_USERS')$$);
RESET ROLE;
SELECT claims.revoke_monitor('regress_claims_nobody');

-- cleans up
SELECT claims.automatic(NULL, NULL); SELECT claims.unclaim_attribute('app.users', 'name');
DROP SERVER regress_claims_import CASCADE; DROP SCHEMA app CASCADE;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DELETE FROM claims.reservations; DELETE FROM claims.skeletons; DELETE FROM claims.import_runs;
SELECT t.clean();
