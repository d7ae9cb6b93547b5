-- is_available and look_up ask a service, here in the same database.
\pset null NULL
SET client_min_messages = warning;
SELECT t.clean(); DELETE FROM claims.reservations;
CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
CREATE TABLE app.users (id bigint PRIMARY KEY, name text, other text, org int DEFAULT 10);
GRANT INSERT (id, org), UPDATE (name) ON app.users TO regress_claims_one;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_asked FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_asked OPTIONS (user 'postgres');
CREATE SERVER regress_claims_gone FOREIGN DATA WRAPPER claims_service OPTIONS (host '/nowhere', port '1');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_gone OPTIONS (user 'postgres');
SET claims.service_timeout = '5min'; SET claims.observe_timeout = '60s';
SELECT claims.add_bucket_type(122, 'PEOPLE', 'username', 'reject');
SELECT claims.claim_attribute('app.users', 'name', 'PEOPLE', 'ORGANIZATION', 'org', 'RAILS_TABLE_ROUTES');
-- without a service there is nobody to ask
SELECT t.call($$SELECT claims.is_available('app.users', 'name', 'ada')$$);
SELECT claims.attend(1, 'regress_claims_asked');
SELECT claims.is_available('app.users', 'name', 'ada');
SELECT claims.attend(2, 'regress_claims_asked');
SELECT t.call($$SELECT claims.is_available('app.users', 'name', 'ada')$$);
SELECT claims.attend(2, NULL); SELECT claims.automatic(1, 'regress_claims_asked');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('Ada', 'PEOPLE', 1), t.claim('paypal', 'PEOPLE', 2))));
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('Bob', 'PEOPLE', 1))));
SELECT claims.reserve_names('PEOPLE', '{root}', 'ours');
SELECT claims.begin_update(2, jsonb_build_array(t.claim('cy', 'PEOPLE', 3)), lease_uuid => t.u(5801)) IS NOT NULL;
SET ROLE regress_claims_one;
-- free; in any spelling taken, also by this cell; reserved; leased; a look-alike; refused by the profile; NULL
SELECT left(n.value, 10), claims.is_available('app.users', 'name', n.value)
  FROM (VALUES ('free'), ('ADA'), ('ada'), ('BOB'), ('Root'), ('cy'), (U&'p\0430ypal'), ('with space'), (''), (NULL),
    (repeat('x', 2000))) AS n (value);
-- a row's own claim is available to it, and to no other row
SELECT claims.is_available('app.users', 'name', 'ADA', '1'), claims.is_available('app.users', 'name', 'ada', '2'),
    claims.is_available('app.users', 'name', 'bob', '1'), claims.is_available('app.users', 'name', 'cy', '3');
-- whoever may write the column may ask
SELECT t.call($$SELECT claims.is_available('app.users', 'other', 'ada')$$);
SELECT t.call($$SELECT claims.is_available('app.users', 'nothing', 'ada')$$);
RESET ROLE;
SELECT t.call($$SELECT claims.is_available('app.users', 'other', 'ada')$$);
SELECT t.call($$SELECT claims.is_available(NULL, 'name', 'ada')$$);
SELECT t.call($$SELECT claims.is_available('app.users', NULL, 'ada')$$);
SELECT t.call($$SELECT claims.is_available(0, 'name', 'ada')$$);
SET ROLE regress_claims_two; SELECT t.call($$SELECT claims.is_available('app.users', 'name', 'ada')$$); RESET ROLE;
GRANT SELECT, DELETE, INSERT (id), UPDATE (other) ON app.users TO regress_claims_two;
SET ROLE regress_claims_two; SELECT t.call($$SELECT claims.is_available('app.users', 'name', 'ada')$$); RESET ROLE;
GRANT INSERT (name) ON app.users TO regress_claims_two;
SET ROLE regress_claims_two; SELECT t.call($$SELECT claims.is_available('app.users', 'name', 'ada')$$); RESET ROLE;
SET ROLE regress_claims_nobody; SELECT t.state_of($$SELECT claims.is_available('app.users', 'name', 'ada')$$); RESET ROLE;
-- it asks only: nothing was begun
SELECT count(*) FROM claims.claim_leases;
-- a service that cannot be reached, or does not answer in time: NULL
SELECT claims.automatic(1, 'regress_claims_gone');
SELECT claims.is_available('app.users', 'name', 'ada');
SELECT claims.automatic(1, 'regress_claims_asked');
BEGIN; LOCK TABLE claims.claims; SET LOCAL claims.observe_timeout = '100ms'; SELECT claims.is_available('app.users', 'name', 'ada'); COMMIT;
SELECT claims.is_available('app.users', 'name', 'ada');
SELECT t.call($$SET claims.observe_timeout = 0$$);

-- look_up: what get_records returns at the service, in the order asked
SET ROLE regress_claims_one;
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid, cell_name, cell_address,
    display_value
  FROM claims.look_up(1, 'regress_claims_asked', '[{"type": "PEOPLE", "value": "BOB"}, {"type": "PEOPLE", "value": "none"},
    {"type": "PEOPLE", "value": "cy"}]');
SELECT t.call($$SELECT * FROM claims.look_up(2, 'regress_claims_asked', '[]')$$);
RESET ROLE;
SELECT count(*) FROM (SELECT * FROM claims.look_up(1, 'regress_claims_asked', '[{"type": "PEOPLE", "value": "Ada"},
    {"type": "PEOPLE", "value": "bob"}]') INTERSECT
    SELECT * FROM claims.get_records('[{"type": "PEOPLE", "value": "Ada"}, {"type": "PEOPLE", "value": "bob"}]')) AS same;
SELECT t.call($$SELECT * FROM claims.look_up(1, 'regress_claims_asked', NULL)$$);
SELECT t.call($$SELECT * FROM claims.look_up(1, 'regress_claims_asked', '[{"type": "NOTHING", "value": "x"}]')$$);
SELECT t.state_of($$SELECT * FROM claims.look_up(1, 'regress_claims_gone', '[]')$$);
-- name_holder, which the cell asks
SELECT n.value, h.* FROM (VALUES ('free'), ('ADA'), ('Root'), ('cy'), (U&'p\0430ypal')) AS n (value) LEFT JOIN LATERAL
    claims.name_holder('PEOPLE', n.value) h ON true;
SELECT t.call($$SELECT * FROM claims.name_holder('PEOPLE', 'with space')$$);
SELECT t.call($$SELECT * FROM claims.name_holder('NOTHING', 'x')$$);
SELECT t.call($$SELECT * FROM claims.name_holder(NULL, 'x')$$);

-- cleans up
SELECT claims.automatic(NULL, NULL); SELECT claims.attend(1, NULL); SELECT claims.unclaim_attribute('app.users', 'name');
DROP SERVER regress_claims_asked CASCADE; DROP SERVER regress_claims_gone CASCADE; DROP SCHEMA app CASCADE;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT t.clean();
