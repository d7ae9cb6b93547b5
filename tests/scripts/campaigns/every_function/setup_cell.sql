-- A cell's database, in which another cell is registered, too.
SELECT claims.register_cell(1, 'every_one', 'one'), claims.register_cell(2, 'every_two', 'two');
SELECT claims.grant_read('every_reader'), claims.grant_monitor('every_monitor'), claims.grant_worker('every_worker');
SELECT claims.add_bucket_type(100, 'HANDLES', 'username', 'reject'), claims.add_bucket_type(101, 'MAILS', 'email');
CREATE FUNCTION pg_temp.u(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
\ir setup_tables.sql
CREATE SERVER service FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port :'service_port', dbname 'every_service', connect_timeout '30');
GRANT USAGE ON FOREIGN SERVER service TO every_owner;
CREATE USER MAPPING FOR every_owner SERVER service OPTIONS (user 'every_one', password :'service_password');
-- One that nobody has named, and one that was named.
CREATE EXTENSION postgres_fdw;
CREATE SERVER unnamed FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port :'service_port', dbname 'every_service');
CREATE SERVER named FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port :'service_port', dbname 'every_service');
GRANT USAGE ON FOREIGN SERVER unnamed, named TO every_owner;
CREATE USER MAPPING FOR every_owner SERVER unnamed OPTIONS (user 'every_one', password :'service_password');
CREATE USER MAPPING FOR every_owner SERVER named OPTIONS (user 'every_one', password :'service_password');
SELECT claims.add_service('named', 'it keeps claims');
SELECT claims.claim_attribute('app.names', 'name', 'ROUTES', 'GROUP', 'group_id', 'RAILS_TABLE_ROUTES', condition => 'group_id > 0');
SELECT claims.claim_attribute('app.parts', 'name', 'HANDLES', 'GROUP', 'group_id', 'RAILS_TABLE_ROUTES');
SELECT claims.capture_requests('app.names', 'work', 'name');
INSERT INTO app.names VALUES (10, 'mine', 10), (12, 'not claimed', 12);
SELECT claims.track_lease(pg_temp.u(1)), claims.track_lease(pg_temp.u(11));
UPDATE claims.cells_outstanding_leases SET cell_id = 1 WHERE uuid = pg_temp.u(1);
SELECT count(*) FROM claims.judge_leases(jsonb_build_array(jsonb_build_object('lease_uuid', pg_temp.u(12), 'created_at', '2020-01-01')));
SELECT claims.begin_verification(1, 'RAILS_TABLE_ROUTES');
UPDATE claims.verification_passes SET pass = pg_temp.u(10);
SELECT claims.add_expiring('shards', '{a,b,c}'), (SELECT count(*) FROM claims.acquire_expiring('shards', 'somebody', '1 h', 1));
