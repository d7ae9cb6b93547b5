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
SELECT t.state_of($$SET claims.observe_timeout = 0$$);

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
SET client_min_messages = notice;
-- first_available: the first of several names; its own name is free for a row; a NOTICE says why none is returned
SELECT claims.first_available('app.users', 'name', '{ADA,root,cy,free,other}'), claims.first_available('app.users', 'name', '{ADA,root}', '1');
SELECT claims.first_available('app.users', 'name', '{with space,ADA,"",root}');
SELECT claims.first_available('app.users', 'name', '{}');
SELECT claims.first_available('app.users', 'name', array_fill('ADA'::text, '{99}') || 'free'::text);
SELECT claims.automatic(1, 'regress_claims_gone');
SELECT claims.first_available('app.users', 'name', '{free}');
SELECT claims.automatic(1, 'regress_claims_asked');
SET client_min_messages = warning;
SELECT t.call($$SELECT claims.first_available('app.users', 'name', ARRAY['x', NULL])$$);
SELECT t.call($$SELECT claims.first_available('app.users', 'name', array_fill('x'::text, '{101}'))$$);
SELECT t.call($$SELECT claims.first_available('app.users', 'nothing', '{x}')$$);
-- name_holders, which the cell asks
SELECT * FROM claims.name_holders('PEOPLE', ARRAY['free', 'ADA', 'Root', 'cy', U&'p\0430ypal']);
SELECT t.call($$SELECT * FROM claims.name_holders('PEOPLE', '{x,with space}')$$);
SELECT t.call($$SELECT * FROM claims.name_holders('NOTHING', '{x}')$$);
SELECT t.call($$SELECT * FROM claims.name_holders(NULL, '{x}')$$);
SELECT t.call($$SELECT * FROM claims.name_holders('PEOPLE', ARRAY['x', NULL])$$);
-- a name that is kept back is free for the subject that may have it; t.settled() waits until the leases of the cell have ended
CREATE FUNCTION t.settled() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM claims.claim_leases WHERE creator_id = 1) LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT claims.set_quarantine('PEOPLE', '1 day', 'a test');
INSERT INTO app.users VALUES (1, 'zed', '', 10), (2, 'yak', '', 10), (3, 'xen', '', 11);
UPDATE app.users SET name = 'zoe' WHERE id = 1; SELECT t.settled();
SELECT n.id, claims.is_available('app.users', 'name', 'Zed', n.id), claims.first_available('app.users', 'name', '{ada,zed,free}', n.id)
  FROM (VALUES ('1'), ('2'), ('3'), ('4'), (NULL)) AS n (id);
-- not while a lease takes it back
SELECT claims.begin_update(1, jsonb_build_array(jsonb_set(t.claim('zed', 'PEOPLE', 10), '{subject,type}', '"ORGANIZATION"')),
                           lease_uuid => t.u(5802)) IS NOT NULL;
SELECT claims.is_available('app.users', 'name', 'zed', '1'), claims.rollback_update(1, t.u(5802));
SELECT claims.set_quarantine('PEOPLE', '1 day', 'a test', 'nobody');
SELECT claims.is_available('app.users', 'name', 'zed', '1');
SELECT * FROM claims.name_holders('PEOPLE', '{zed}', 1, 'ORGANIZATION', '10');
SET ROLE regress_claims_two; SELECT t.call($$SELECT * FROM claims.name_holders('PEOPLE', '{zed}', 1, 'ORGANIZATION', '10')$$); RESET ROLE;
-- a save reads like any name that is taken, and that of the subject succeeds
BEGIN; UPDATE app.users SET name = 'zed' WHERE id = 3;
SELECT regexp_replace(c, '"available_at":"[^"]+"', '<time>') FROM t.call('SET CONSTRAINTS ALL IMMEDIATE') c; ROLLBACK;
SELECT reason, retryable, holder_cell_id FROM claims.last_conflicts();
SELECT claims.set_quarantine('PEOPLE', '1 day', 'a test');
UPDATE app.users SET name = 'zed' WHERE id = 1; SELECT t.settled();
SELECT bucket_value, subject_id, source_id FROM claims.get_record('PEOPLE', 'zed');
SELECT bucket_value FROM claims.quarantined_names;
DELETE FROM app.users; SELECT t.settled(); DROP FUNCTION t.settled;

-- cleans up
SELECT claims.automatic(NULL, NULL); SELECT claims.attend(1, NULL); SELECT claims.unclaim_attribute('app.users', 'name');
DROP SERVER regress_claims_asked CASCADE; DROP SERVER regress_claims_gone CASCADE; DROP SCHEMA app CASCADE;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT t.clean();
