-- Transfers: refusals, privileges, and other functions on claims that a transfer holds. Transfers and leases 62xx.
SELECT t.clean();
CREATE FUNCTION t.groups(VARIADIC ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', ids))
$$;
CREATE FUNCTION t.prepare(n int, subjects jsonb, from_cell bigint DEFAULT 1, to_cell bigint DEFAULT 2) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT * FROM claims.prepare_transfer(t.u(%s), %L, %L, %L, ''test'')', n, from_cell, to_cell, subjects)) $$;
SELECT t.have(1, 'a', 'b', 'c'), t.have(2, 'z');

-- invalid arguments are refused
SELECT s, c FROM unnest(ARRAY['NULL, 1, 2, ''[]'', ''x''', 't.u(1), NULL, 2, ''[]'', ''x''', 't.u(1), 1, NULL, ''[]'', ''x''',
        't.u(1), 1, 2, ''[]'', NULL', 't.u(1), 1, 2, ''[]'', ''''',
    't.u(1), 1, 2, ''[]'', ''x''', 't.u(1), 1, 2, t.groups(1), ''x'', ''-1 s''', 't.u(1), 1, 1, t.groups(1), ''x''',
        't.u(1), 1, 99, t.groups(1), ''x''', 't.u(1), 99, 1, t.groups(1), ''x''', 't.u(1), -1, 1, t.groups(1), ''x''']) s,
    t.call('SELECT * FROM claims.prepare_transfer(' || s || ')') c;
SELECT s, c FROM unnest(ARRAY['{}', '1', '[1]', '[{}]', '[{"type": "GROUP"}]', '[{"ids": [1]}]', '[{"type": "GROUP", "ids": 1}]',
        '[{"type": "GROUP", "ids": []}]', '[{"type": "GROUP", "ids": [null]}]', '[{"type": "GROUP", "ids": [1.5]}]',
    '[{"type": "GROUP", "ids": [""]}]', '[{"type": "GROUP", "id": [1]}]', '[{"type": "NONE", "ids": [1]}]', '[{"type": 0, "ids": [1]}]',
        '[{"type": "GROUP", "ids": [1]}, {"type": "USER", "ids": [{"a": 1}]}]', 'null']) s,
    t.prepare(1, s::jsonb) c;
SELECT t.prepare(1, jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', jsonb_build_array(repeat('9', 129)))));
SELECT t.state_of(format('SELECT * FROM claims.prepare_transfer(t.u(1), 1, 2, %L, ''x'')',
        (SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', jsonb_agg(n))) FROM generate_series(1, 1000001) n)));
SELECT f, c FROM unnest(ARRAY['switch_transfer(NULL, ''x'')', 'switch_transfer(t.u(1), NULL)', 'switch_transfer(t.u(1), ''x'')',
        'reverse_transfer(NULL, ''x'')', 'reverse_transfer(t.u(1), '' '')', 'reverse_transfer(t.u(1), ''x'')', 'finish_transfer(NULL)',
    'finish_transfer(t.u(1))', 'finish_transfer(t.u(1), ''-1 s'')', 'cancel_transfer(NULL, ''x'')', 'cancel_transfer(t.u(1), NULL)',
        'cancel_transfer(t.u(1), ''x'')', 'cancel_transfer(t.u(1), ''x'', ''-1 s'')']) f, t.call('SELECT * FROM claims.' || f) c;
SELECT count(*) FROM claims.transfers;

-- a uuid with another request, and the uuid of a lease, are refused
SELECT t.prepare(6200, t.groups(1));
SELECT t.prepare(6200, t.groups(1, 2));
SELECT t.prepare(6200, t.groups(1), 2, 1);
SELECT claims.begin_update(2, t.creates('y'), lease_uuid => t.u(6201)), claims.rollback_update(2, t.u(6202));
SELECT t.prepare(6201, t.groups(1));
SELECT t.prepare(6202, t.groups(1));
SELECT claims.rollback_update(2, t.u(6201));

-- every function in every state of a transfer
CREATE FUNCTION t.acts(n int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE act text; line text;
BEGIN
    FOREACH act IN ARRAY ARRAY['switch_transfer(t.u(%s), ''x'')', 'reverse_transfer(t.u(%s), ''x'')', 'finish_transfer(t.u(%s))',
      'cancel_transfer(t.u(%s), ''x'')', 'prepare_transfer(t.u(%s), 1, 2, t.groups(1), ''x'')'] LOOP
        BEGIN
            FOR line IN SELECT t.call('SELECT * FROM claims.' || format(act, n)) LOOP
                RETURN NEXT split_part(act, '_', 1) || ': ' || line;
            END LOOP;
            RAISE 'undo' USING ERRCODE = 'ZZ000';
        EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
        END;
    END LOOP;
END $$;
\echo prepared
SELECT t.acts(6200);
\echo switched
SELECT claims.switch_transfer(t.u(6200), 'x');
SELECT t.acts(6200);
\echo finishing
-- a claim that cannot be locked is left to the next call (simulated: `held` counts one more)
BEGIN;
UPDATE claims.cell_transfers SET held = held + 1 WHERE transfer_uuid = t.u(6200);
SELECT * FROM claims.finish_transfer(t.u(6200));
SELECT t.acts(6200);
ROLLBACK;
\echo finished
BEGIN;
SELECT * FROM claims.finish_transfer(t.u(6200));
SELECT t.acts(6200);
ROLLBACK;
\echo reversed
SELECT claims.reverse_transfer(t.u(6200), 'x');
SELECT t.acts(6200);
\echo reversed and finishing
BEGIN;
UPDATE claims.cell_transfers SET held = held + 1 WHERE transfer_uuid = t.u(6200);
SELECT * FROM claims.finish_transfer(t.u(6200));
SELECT t.acts(6200);
ROLLBACK;
\echo cancelled
BEGIN;
SELECT * FROM claims.cancel_transfer(t.u(6200), 'x');
SELECT t.acts(6200);
ROLLBACK;
\echo preparing
BEGIN;
SELECT claims.begin_update(1, t.creates('begun'), lease_uuid => t.u(6203));
SELECT t.prepare(6200, t.groups(1));
SELECT t.acts(6200);
ROLLBACK;

-- functions of leases do not find a transfer
SELECT f, c FROM unnest(ARRAY['rollback_update(1, t.u(6200))', 'rollback_update(2, t.u(6200))', 'commit_update(1, t.u(6200))',
        'settle_leases(1, rollback_leases => ARRAY[t.u(6200)])', 'settle_leases(2, ARRAY[t.u(6200)])', 'lease_outcome(1, t.u(6200))',
    'force_rollback(1, t.u(6200), ''x'')']) f, t.call('SELECT * FROM claims.' || f) c;
SELECT count(*) FROM claims.lease_outcomes WHERE lease_uuid = t.u(6200);
SELECT count(*) FROM claims.list_leases(NULL);
SELECT cell_id, cell_name, role_name, age < '1 hour', creates, destroys FROM claims.lease_details(t.u(6200));
SELECT lease_uuid = t.u(6200) FROM claims.lease_details(bucket_type => 'ROUTES', bucket_value => 'a');
SET SESSION AUTHORIZATION regress_claims_two;
SELECT cell_id FROM claims.lease_details(t.u(6200));
RESET SESSION AUTHORIZATION;
-- a lease with the uuid of a transfer does not disturb it
SELECT claims.begin_update(2, t.creates('same'), lease_uuid => t.u(6200));
SELECT count(*) FROM claims.check();
SELECT claims.commit_update(2, t.u(6200));
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();

-- release_records leaves claims that a transfer holds, and remove_cell refuses both of its cells
BEGIN;
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT claims.release_records(1, 'x', dry_run => true), claims.release_records(1, 'x');
SELECT claims.release_records(2, 'x');
SELECT t.call($$SELECT claims.remove_cell(1, 'x')$$);
SELECT t.call($$SELECT claims.remove_cell(2, 'x')$$);
SELECT * FROM t.state();
ROLLBACK;

-- a transfer continues in mode settle_only; read_only of a cell or of all stops it
BEGIN;
SELECT claims.set_mode('settle_only', 'x');
SELECT t.acts(6200) c;
SELECT claims.set_mode('read_only', 'x', 2);
SELECT left(c, 12) FROM t.acts(6200) c WHERE c !~ 'DETAIL|HINT';
SELECT claims.set_mode('open', 'x', 2), claims.set_mode('open', 'x'), claims.set_mode('read_only', 'x', 1);
SELECT left(c, 12) FROM t.acts(6200) c WHERE c !~ 'DETAIL|HINT';
ROLLBACK;

-- set_profile is refused while a transfer holds names that change
BEGIN;
SELECT claims.add_bucket_type(6200, 'MOVING');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('Big', 'MOVING', 62))));
SELECT t.prepare(6210, t.groups(62));
SELECT t.call($$SELECT * FROM claims.set_profile('MOVING', 'casefold', 'x', dry_run => false)$$);
SELECT claims.switch_transfer(t.u(6210), 'x');
SELECT * FROM claims.finish_transfer(t.u(6210));
SELECT t.call($$SELECT * FROM claims.set_profile('MOVING', 'casefold', 'x', dry_run => false)$$);
SELECT bucket_value, display_value, cell_id FROM claims.get_record('MOVING', 'BIG');
ROLLBACK;

-- reserved names are not transferred
SELECT claims.reserve_names('ROUTES', '{nobodys}', 'x');
SELECT t.prepare(6211, '[{"type": "GROUP", "ids": [0]}, {"type": "USER", "ids": ["0"]}]');
SELECT creator_id, status FROM claims.claims WHERE bucket_value = 'nobodys';
SELECT claims.unreserve_names('ROUTES', '{nobodys}', 'x');

-- check() finds every damage of a transfer
CREATE FUNCTION t.damaged(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE found jsonb;
BEGIN
    BEGIN
        EXECUTE statement;
        SELECT jsonb_agg(concat_ws(' | ', k.problem, k.bucket_value, k.detail)) INTO found FROM claims.check() k;
        RAISE 'undo' USING ERRCODE = 'ZZ000';
    EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
    END;
    RETURN QUERY SELECT jsonb_array_elements_text(coalesce(found, '["none"]')) ORDER BY 1;
END $$;
SELECT t.damaged('SELECT 1');
SELECT t.damaged('DELETE FROM claims.cell_transfers WHERE held > 0');
SELECT t.damaged('DELETE FROM claims.claims WHERE bucket_value = ''a''');
SELECT t.damaged('UPDATE claims.claims SET status = 1, lease_uuid = NULL WHERE status = 4');
SELECT t.damaged('UPDATE claims.claims SET lease_uuid = NULL WHERE bucket_value = ''a''');
SELECT t.damaged('UPDATE claims.claims SET lease_uuid = t.u(1) WHERE bucket_value = ''a''');
SELECT t.damaged('UPDATE claims.claims SET status = 3 WHERE bucket_value = ''a''');
SELECT t.damaged('UPDATE claims.claims SET creator_id = 2 WHERE bucket_value = ''a''');
SELECT t.damaged('UPDATE claims.claims SET status = 4, lease_uuid = t.u(6200) WHERE bucket_value = ''z''');
SELECT regexp_replace(d, 'Created at.*', '<times>')
  FROM t.damaged('UPDATE claims.claims SET updated_at = now() + interval ''1 day'' WHERE bucket_value = ''a''') d;
SELECT t.damaged('UPDATE claims.cell_transfers SET ended_at = now(), state = ''finished'' WHERE held > 0');
SELECT t.damaged('UPDATE claims.cell_transfers SET cell_id = 77 WHERE held > 0');
SELECT t.damaged('UPDATE claims.cell_transfers SET state = ''switched'' WHERE held > 0');
SELECT t.damaged('UPDATE claims.cell_transfers SET from_cell = 77, cell_id = 77 WHERE held > 0');
SELECT regexp_replace(d, 'Created at.*', '<times>')
  FROM t.damaged('UPDATE claims.cell_transfers SET updated_at = now() + interval ''1 day'' WHERE held > 0') d;
-- missing claims: finish and cancel refuse
BEGIN;
DELETE FROM claims.claims WHERE status = 4;
SELECT t.call($$SELECT * FROM claims.cancel_transfer(t.u(6200), 'x')$$);
SELECT claims.switch_transfer(t.u(6200), 'x');
SELECT t.call($$SELECT * FROM claims.finish_transfer(t.u(6200))$$);
ROLLBACK;

-- only administrators may transfer
SELECT r, s, left(c, 5) FROM unnest('{regress_claims_one,regress_claims_two,regress_claims_router}'::name[]) r,
    unnest(ARRAY['prepare_transfer(t.u(1), 1, 2, ''[]'', ''x'')', 'switch_transfer(t.u(1), ''x'')', 'reverse_transfer(t.u(1), ''x'')',
        'finish_transfer(t.u(1))', 'cancel_transfer(t.u(1), ''x'')']) s,
    LATERAL (SELECT set_config('role', r, true)) i, t.call('SELECT claims.' || s) c WHERE c !~ '^ ';
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT t.prepare(6220, t.groups(404));
SELECT * FROM claims.cancel_transfer(t.u(6220), 'x');
RESET SESSION AUTHORIZATION;
BEGIN;
CREATE ROLE regress_claims_watch;
SELECT claims.grant_monitor('regress_claims_watch');
SET LOCAL ROLE regress_claims_watch;
SELECT state, held, role FROM claims.transfers ORDER BY created_at;
ROLLBACK;
BEGIN;
CREATE ROLE regress_claims_watch;
SELECT claims.grant_monitor('regress_claims_watch'), claims.revoke_monitor('regress_claims_watch');
SELECT has_table_privilege('regress_claims_watch', 'claims.transfers', 'SELECT'), has_table_privilege('regress_claims_one',
      'claims.transfers', 'SELECT'), has_table_privilege('regress_claims_router', 'claims.transfers', 'SELECT');
ROLLBACK;

-- check() finds nothing after a cancellation; cleans up
SELECT * FROM claims.cancel_transfer(t.u(6200), 'x');
SELECT count(*) FROM claims.check();
SELECT t.clean();
DELETE FROM claims.cell_transfers;
DELETE FROM claims.transfer_subjects;
DROP FUNCTION t.groups, t.prepare, t.acts, t.damaged;
