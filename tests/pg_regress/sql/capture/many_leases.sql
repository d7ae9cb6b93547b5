-- begin_pending and automatic mode send more changes than a batch may have in several leases.
SET client_min_messages = error;
SELECT t.clean();
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE DEFERRABLE INITIALLY DEFERRED, namespace_id int DEFAULT 10);
GRANT ALL ON app.routes TO PUBLIC;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_many FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L, options %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database(), '-c claims.max_batch_size=10'); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_many OPTIONS (user 'postgres');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
SET claims.service_timeout = '5min';
-- t.at_service(): how many leases are outstanding, how many are tracked, and the claims by status
CREATE FUNCTION t.at_service() RETURNS text LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    SELECT (SELECT count(*) FROM claims.claim_leases) || ' leases, ' || (SELECT count(*) FROM claims.cells_outstanding_leases) || ' tracked, '
        || coalesce((SELECT string_agg(status || ': ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM claims.claims
                      WHERE creator_id = 1 GROUP BY 1) c), 'no claims')
$$;
-- t.settled(): waits until no lease is outstanding, as the session settles them without waiting for the answer
CREATE FUNCTION t.settled() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    FOR n IN 1..3000 LOOP EXIT WHEN NOT EXISTS (SELECT FROM claims.claim_leases); PERFORM pg_sleep(0.01); END LOOP;
    RETURN t.at_service();
END $$;

-- the limit of a batch is for cells, and the lower of two
SELECT claims.batch_limit(1);
SELECT claims.set_cell_limits(1, 'small ones', max_batch_size => 7);
SELECT claims.batch_limit(1), claims.batch_limit(2);
SELECT claims.set_cell_limits(1, 'no limit');
SELECT t.call($$SELECT claims.batch_limit(NULL)$$);
SELECT t.call($$SELECT claims.batch_limit(77)$$);
BEGIN; SET LOCAL ROLE regress_claims_one; SELECT claims.batch_limit(1); SELECT t.call($$SELECT claims.batch_limit(2)$$); ROLLBACK;

-- begin_pending: 25 names are three leases of one transaction; finish() with the first one commits all
BEGIN;
INSERT INTO app.routes SELECT n, 'many/' || n FROM generate_series(1, 25) n;
SELECT claims.begin_pending(1, 'regress_claims_many') AS lease \gset
SELECT t.at_service(), (SELECT uuid = :'lease' FROM claims.cells_outstanding_leases ORDER BY uuid LIMIT 1);
SELECT string_agg(creates || '+' || destroys, ' ' ORDER BY lease_uuid) FROM claims.leases;
SELECT replace(x, :'lease', '<lease>') FROM t.call(format('SELECT claims.finish(1, %L, %L)', 'regress_claims_many', :'lease')) x;
COMMIT;
SELECT t.at_service();
SELECT claims.finish(1, 'regress_claims_many', :'lease');
SELECT t.at_service();
SELECT claims.finish(1, 'regress_claims_many', :'lease');
-- finish() with another one of them commits that one only; recovery commits the others
BEGIN;
UPDATE app.routes SET path = 'more/' || id WHERE id <= 10;
SELECT claims.begin_pending(1, 'regress_claims_many') AS lease \gset
COMMIT;
SELECT t.at_service();
SELECT uuid AS second FROM claims.cells_outstanding_leases WHERE uuid <> :'lease' \gset
SELECT claims.finish(1, 'regress_claims_many', :'second');
SELECT count(*) FROM claims.claim_leases;
SELECT committed, rolled_back FROM claims.reconcile(1, 'regress_claims_many');
SELECT t.at_service();
-- finish() again, where the first lease was not committed yet and another one was
BEGIN;
UPDATE app.routes SET path = 'many/' || id WHERE id <= 10;
SELECT claims.begin_pending(1, 'regress_claims_many') AS lease \gset
COMMIT;
SELECT claims.commit_update(1, uuid) FROM claims.cells_outstanding_leases WHERE uuid <> :'lease';
SELECT claims.finish(1, 'regress_claims_many', :'lease');
SELECT t.at_service();

-- the create and the destroy of one name stay in one lease: rows that swap their names replace the claims
BEGIN;
UPDATE app.routes r SET path = 'many/' || (26 - id);
SELECT claims.begin_pending(1, 'regress_claims_many') AS lease \gset
SELECT string_agg(creates || '+' || destroys, ' ' ORDER BY lease_uuid) FROM claims.leases;
SELECT bool_and((SELECT array_agg(c ->> 'value') FROM jsonb_path_query(payload, '$.create_records[*].bucket') c)
    = (SELECT array_agg(c ->> 'value') FROM jsonb_path_query(payload, '$.destroy_records[*].bucket') c)) FROM claims.claim_leases;
COMMIT;
SELECT claims.finish(1, 'regress_claims_many', :'lease');
SELECT t.at_service(), (SELECT bool_and(c.source_id = r.id::text) FROM app.routes r JOIN claims.claims c ON c.bucket_value = r.path);
-- a name and its look-alike stay in one lease, whatever stands between them
SELECT claims.add_bucket_type(120, 'LOOKS', 'username', 'reject');
CREATE TABLE app.looks (id bigint PRIMARY KEY, name text);
SELECT claims.claim_attribute('app.looks', 'name', 'LOOKS', 'GROUP', 'id', 'RAILS_TABLE_GROUPS');
ALTER SERVER regress_claims_many OPTIONS (SET options '-c claims.max_batch_size=2');
BEGIN; INSERT INTO app.looks VALUES (1, 'paypal'), (2, 'q'); SELECT claims.begin_pending(1, 'regress_claims_many') AS lease \gset
COMMIT; SELECT claims.finish(1, 'regress_claims_many', :'lease');
BEGIN;
UPDATE app.looks SET name = U&'p\0430ypal' WHERE id = 1; INSERT INTO app.looks SELECT n, 'r' || n FROM generate_series(3, 6) n;
SELECT claims.begin_pending(1, 'regress_claims_many') AS lease \gset
SELECT string_agg(creates || '+' || destroys, ' ' ORDER BY lease_uuid) FROM claims.leases;
COMMIT; SELECT claims.finish(1, 'regress_claims_many', :'lease');
SELECT count(*) FROM claims.claims WHERE bucket_type = 120 AND status = 1;
-- what stays in one lease and is larger than the limit is refused as before
ALTER SERVER regress_claims_many OPTIONS (SET options '-c claims.max_batch_size=1');
BEGIN;
UPDATE app.looks SET name = CASE id WHEN 3 THEN 'r4' ELSE 'r5' END WHERE id IN (3, 5); DELETE FROM app.looks WHERE id = 4;
SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_many')$$);
ROLLBACK;
SELECT claims.unclaim_attribute('app.looks', 'name'); DROP TABLE app.looks;
ALTER SERVER regress_claims_many OPTIONS (SET options '-c claims.max_batch_size=10');

-- a conflict in the last lease ends the others
SELECT claims.commit_update(2, claims.begin_update(2, t.creates('new/9')));
BEGIN; INSERT INTO app.routes SELECT n, 'new/' || n FROM generate_series(101, 125) n; UPDATE app.routes SET path = 'new/9' WHERE id = 125;
SELECT left(t.call($$SELECT claims.begin_pending(1, 'regress_claims_many')$$), 200); ROLLBACK;
SELECT t.settled();
-- after a savepoint is rolled back, too
BEGIN; SAVEPOINT before;
INSERT INTO app.routes SELECT n, 'new/' || n FROM generate_series(101, 125) n;
SELECT claims.begin_pending(1, 'regress_claims_many') IS NOT NULL, t.at_service();
ROLLBACK TO SAVEPOINT before; SELECT t.settled();
INSERT INTO app.routes SELECT n, 'new/' || n FROM generate_series(101, 115) n;
SELECT claims.begin_pending(1, 'regress_claims_many') AS lease \gset
COMMIT; SELECT claims.finish(1, 'regress_claims_many', :'lease'), t.at_service();
-- names that were never claimed are left out of each lease; where nothing remains, there is no lease
BEGIN; SELECT claims.skip_capture('rows from before'); INSERT INTO app.routes SELECT n, 'old/' || n FROM generate_series(201, 225) n; COMMIT;
BEGIN; DELETE FROM app.routes WHERE path LIKE 'old/%'; SELECT claims.begin_pending(1, 'regress_claims_many'); COMMIT;
SELECT t.at_service();

-- automatic mode: all leases are committed after the COMMIT
SELECT claims.automatic(1, 'regress_claims_many');
INSERT INTO app.routes SELECT n, 'auto/' || n FROM generate_series(301, 325) n;
SELECT t.settled() ~ '^0 leases.*1: 71$';
-- and all are rolled back if a later part of the transaction fails
BEGIN;
INSERT INTO app.routes SELECT n, 'fails/' || n FROM generate_series(401, 425) n;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT (SELECT count(*) FROM claims.claim_leases) > 2;
ROLLBACK;
SELECT t.settled() ~ '^0 leases.*1: 71$';
BEGIN; INSERT INTO app.routes SELECT n, CASE n WHEN 525 THEN 'new/9' ELSE 'nay/' || n END FROM generate_series(501, 525) n; COMMIT;
SELECT t.settled() ~ '^0 leases.*1: 71$', (SELECT count(*) FROM app.routes WHERE id > 500);
-- a prepared transaction has all of them; recovery commits them
BEGIN; INSERT INTO app.routes SELECT n, 'prepared/' || n FROM generate_series(601, 625) n; PREPARE TRANSACTION 'regress_claims_many';
SELECT count(*) FROM claims.claim_leases;
SELECT committed, rolled_back, pending FROM claims.reconcile(1, 'regress_claims_many');
COMMIT PREPARED 'regress_claims_many';
SELECT committed, rolled_back, pending FROM claims.reconcile(1, 'regress_claims_many');
SELECT t.settled() ~ '^0 leases, 0 tracked, 1: 96$';
SELECT claims.automatic(NULL, NULL);

-- the service has claims.service_timeout for each thousand records: four seconds are too long for a few names, and not for 3000
ALTER SERVER regress_claims_many OPTIONS (SET options '-c claims.max_batch_size=5000');
CREATE FUNCTION t.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(4); RETURN NULL; END $$;
CREATE TRIGGER slow BEFORE INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION t.slow();
SET claims.service_timeout = '3s';
BEGIN; INSERT INTO app.routes SELECT n, 'slow/' || n FROM generate_series(1001, 1010) n;
SELECT claims.begin_pending(1, 'regress_claims_many'); ROLLBACK;
BEGIN; SET LOCAL debug_discard_caches = 0; INSERT INTO app.routes SELECT n, 'slow/' || n FROM generate_series(10001, 13000) n;
SELECT claims.begin_pending(1, 'regress_claims_many') IS NOT NULL; ROLLBACK;
DROP TRIGGER slow ON claims.claim_leases;
SET claims.service_timeout = '5min';
SELECT pg_sleep(0.1) FROM generate_series(1, 100) WHERE EXISTS (SELECT FROM pg_stat_activity WHERE query ~ 'begin_update_text' AND state = 'active'
    AND pid <> pg_backend_pid());

-- cleans up
SELECT claims.unclaim_attribute('app.routes', 'path');
DROP SERVER regress_claims_many CASCADE; DROP SCHEMA app CASCADE;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
SELECT t.clean();
