-- hand_over gives a name to a cell, wherever it was before.
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(125, 'GIVEN', 'casefold'), claims.add_bucket_type(126, 'ALIKE', 'username', 'reject');
SELECT claims.set_quarantine('GIVEN', '1 day', 'a test'), claims.set_quarantine('ALIKE', '1 day', 'a test');
SET claims.change_feed = on;
CREATE FUNCTION t.give(type text, value text, cell bigint DEFAULT 2, subject text DEFAULT '9') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.hand_over(%L, %L, %s, ''GROUP'', %L, ''RAILS_TABLE_ROUTES'', %L, ''a court said so'')',
                         type, value, cell, subject, subject)) $$;
CREATE FUNCTION t.own(cell bigint, type text, value text) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, jsonb_build_array(t.claim(value, type)))) $$;
CREATE FUNCTION t.give_up(cell bigint, type text, value text) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, '[]',
        jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', value))))) $$;
CREATE FUNCTION t.owner(type text, value text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', bucket_value, 'of', cell_id, subject_type, subject_id, source_id, status, display_value)
      FROM claims.get_record(type, value) $$;

-- where it was: with another cell, reserved, kept back, free, with the same cell
SELECT t.own(1, 'GIVEN', 'taken'), claims.reserve_names('GIVEN', '{reserved}', 'ours'), t.own(1, 'GIVEN', 'kept'), t.give_up(1, 'GIVEN', 'kept');
SELECT t.give('GIVEN', 'Taken'), t.give('GIVEN', 'Reserved'), t.give('GIVEN', 'KEPT'), t.give('GIVEN', 'free'), t.give('GIVEN', 'free', 2, '8');
SELECT t.owner('GIVEN', v) FROM unnest('{taken,reserved,kept,free}'::text[]) v;
SELECT count(*) FROM claims.reserved_names WHERE bucket_type = 'GIVEN';
SELECT count(*) FROM claims.check();
SELECT op, bucket_value, old_cell_id, new_cell_id FROM claims.changes WHERE bucket_type = 125 OR bucket_type::text = 'GIVEN' ORDER BY id;
SELECT arguments, reason FROM claims.admin_log WHERE action = 'hand_over' ORDER BY at LIMIT 1;
-- one whose time is over was free
SELECT t.give_up(2, 'GIVEN', 'kept');
UPDATE claims.claims SET available_at = updated_at WHERE status = 5;
SELECT t.give('GIVEN', 'kept', 1), t.owner('GIVEN', 'kept');
-- the cell that had it: its destroy is not its own, its verification reports it, its lease for the name is refused
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, '[]', '[{"bucket": {"type": "GIVEN", "value": "taken"}}]');
SELECT discrepancy, bucket_value, outcome
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, jsonb_build_array(t.claim('taken', 'GIVEN')), '0', true);
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, jsonb_build_array(t.claim('taken', 'GIVEN')));
-- leased: nothing changes
SELECT claims.begin_update(1, jsonb_build_array(t.claim('new', 'GIVEN')), lease_uuid => t.u(9701)) = t.u(9701);
SELECT claims.begin_update(2, '[]', '[{"bucket": {"type": "GIVEN", "value": "taken"}}]', t.u(9702)) = t.u(9702);
SELECT t.give('GIVEN', 'new'); SELECT t.give('GIVEN', 'taken', 1);
SELECT claims.rollback_update(1, t.u(9701)), claims.commit_update(2, t.u(9702));
SELECT claims.begin_update(2, jsonb_build_array(t.claim('taken', 'GIVEN', 9)), lease_uuid => t.u(9703)) = t.u(9703);
SELECT t.give('GIVEN', 'taken', 1);
SELECT claims.rollback_update(2, t.u(9703)), t.give('GIVEN', 'taken', 1);
-- a transfer holds it
SELECT marked FROM claims.prepare_transfer(t.u(9704), 1, 2, '[{"type": "GROUP", "ids": [9]}]', 'they move');
SELECT t.give('GIVEN', 'taken');
SELECT released FROM claims.cancel_transfer(t.u(9704), 'they stay');
-- names that look alike
SELECT t.own(1, 'ALIKE', 'paypal'), claims.reserve_names('ALIKE', '{visa}', 'ours'), t.own(1, 'ALIKE', 'lego'), t.give_up(1, 'ALIKE', 'lego');
SELECT t.give('ALIKE', U&'p\0430ypal'); SELECT t.give('ALIKE', U&'vis\0430'); SELECT t.give('ALIKE', U&'leg\043E');
SELECT t.give('ALIKE', 'paypal'), t.give('ALIKE', 'visa'), t.give('ALIKE', 'lego');
SELECT bucket_value, reserved FROM claims.skeletons ORDER BY 1;
SELECT count(*) FROM claims.check();
-- arguments
SELECT t.give('GIVEN', 'x', 77); SELECT t.give('NOTHING', 'x'); SELECT t.give('GIVEN', ''); SELECT t.give('GIVEN', 'x', 2, '');
SELECT t.call($$SELECT claims.hand_over('GIVEN', 'x', 2, 'NOTHING', '1', 'RAILS_TABLE_ROUTES', '1', 'x')$$);
SELECT t.call($$SELECT claims.hand_over('GIVEN', 'x', 2, 'GROUP', '1', 'UNSPECIFIED', '1', 'x')$$);
SELECT t.call($$SELECT claims.hand_over('GIVEN', 'x', 2, 'GROUP', '1', 'RAILS_TABLE_ROUTES', '1', '')$$);
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.hand_over('GIVEN', 'x', 2, 'GROUP', '1', 'RAILS_TABLE_ROUTES', '1', 'x')$$);
RESET ROLE;
-- each of them that has happened is one row of the log of actions and one of the feed
SELECT count(*) FROM claims.admin_log WHERE action = 'hand_over' AND arguments ->> 'bucket_type' IN ('GIVEN', 'ALIKE');
SELECT count(*) FROM claims.changes WHERE op = 'transfer' AND bucket_type IN (125, 126);
-- cleans up
RESET claims.change_feed;
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
DELETE FROM claims.cell_transfers; DELETE FROM claims.transfer_subjects;
DELETE FROM claims.change_sets;
DELETE FROM claims.bucket_types WHERE id >= 120; DELETE FROM claims.type_names WHERE id >= 120;
DROP FUNCTION t.give, t.own, t.give_up, t.owner;
