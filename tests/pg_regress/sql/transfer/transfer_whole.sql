-- Transfers of all claims of a cell. Transfers and leases 65xx.
SELECT t.clean();
CREATE FUNCTION t.whole(n int, from_cell bigint DEFAULT 1, to_cell bigint DEFAULT 2, max_runtime interval DEFAULT NULL) RETURNS SETOF text
LANGUAGE sql AS $$
    SELECT t.call(format('SELECT * FROM claims.prepare_transfer(t.u(%s), %s, %s, NULL, ''test'', %L)', n, from_cell, to_cell, max_runtime)) $$;
CREATE FUNCTION t.groups(VARIADIC ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', ids))
$$;
CREATE FUNCTION t.transfer() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s, at %s: %s subjects, holds %s, skipped %s, moved %s', state, cell_id, coalesce(subjects::text, 'all'), held, skipped, moved)
      FROM claims.transfers ORDER BY transfer_uuid $$;
SELECT t.have(1, 'a', 'b', 'c'), t.have(2, 'z');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('other subject', id => 77))));

-- the first call marks all claims of all subjects, and is not finished
SELECT t.whole(6500);
SELECT * FROM t.state();
SELECT t.transfer();
-- while the cell is open it goes on to make claims, which the next call marks
SELECT t.have(1, 'd');
SELECT t.whole(6500);
SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(6501));
-- a call with nothing to mark fails while the cell is open, and switch is refused
SELECT t.whole(6500);
SELECT t.call($$SELECT claims.switch_transfer(t.u(6500), 'x')$$);
-- a lease that is outstanding in mode settle_only is skipped; the call after its settlement is not the last one if it marks its claims
SELECT claims.set_mode('settle_only', 'moves', 1);
SELECT t.whole(6500);
SELECT t.transfer();
SELECT claims.commit_update(1, t.u(6501));
SELECT t.state_of($$SELECT claims.begin_update(1, t.creates('f'))$$);
SELECT t.whole(6500);
SELECT * FROM t.state();
-- repeats, other cells, and a repeat with subjects
SELECT t.whole(6500);
SELECT t.whole(6500, 1, 3);
SELECT t.call($$SELECT * FROM claims.prepare_transfer(t.u(6500), 1, 2, t.groups(1), 'x')$$);
SELECT arguments FROM claims.admin_log WHERE action = 'prepare_transfer' ORDER BY id DESC LIMIT 1;
-- the mode: opened or set again since the last call, a switch is refused until another call
BEGIN;
SELECT claims.set_mode('open', 'x', 1);
SELECT t.call($$SELECT claims.switch_transfer(t.u(6500), 'x')$$);
SELECT t.whole(6500);
ROLLBACK;
SELECT claims.set_mode('settle_only', 'again', 1);
SELECT t.call($$SELECT claims.switch_transfer(t.u(6500), 'x')$$);
SELECT t.whole(6500);
-- settle_only of all cells counts, too
SELECT claims.set_mode('open', 'x', 1), claims.set_mode('settle_only', 'x');
SELECT t.call($$SELECT claims.switch_transfer(t.u(6500), 'x')$$);
SELECT t.whole(6500);
SELECT claims.set_mode('settle_only', 'x', 1), claims.set_mode('open', 'x');
SELECT t.whole(6500);

-- while it has not ended, nothing else brings the cell claims: transfers, corrections, a change of profile
SELECT t.call($$SELECT * FROM claims.prepare_transfer(t.u(6502), 2, 1, t.groups(1), 'x')$$);
SELECT t.call($$SELECT * FROM claims.prepare_transfer(t.u(6502), 2, 1, NULL, 'x')$$);
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('a', 'new', 'z'), '0', true)
 ORDER BY bucket_value;
SELECT t.call($$SELECT * FROM claims.set_profile('ROUTES', 'casefold', 'x', dry_run => false)$$);
-- the other cell goes on, and so do transfers from it to a third one
SELECT t.have(2, 'y');
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('y', 'z', 'w'), '0', true)
 ORDER BY bucket_value;

-- switch, verification of both cells, finish
SELECT claims.switch_transfer(t.u(6500), 'x');
SELECT string_agg(bucket_value || ' ' || cell_id, ', ' ORDER BY bucket_value) FROM claims.records;
SELECT string_agg(discrepancy || ' ' || bucket_value || ' ' || outcome, ', ' ORDER BY bucket_value)
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('a', 'b'), '0', true);
SELECT string_agg(discrepancy || ' ' || bucket_value || ' ' || coalesce(outcome, 'open'), ', ' ORDER BY bucket_value)
  FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('a', 'b', 'y', 'z', 'w'), '0');
SELECT t.whole(6500);
-- the cell may be opened again after the switch; a switch after a reverse needs another call
SELECT claims.reverse_transfer(t.u(6500), 'x');
SELECT claims.set_mode('open', 'x', 1);
SELECT t.have(1, 'g');
SELECT t.call($$SELECT claims.switch_transfer(t.u(6500), 'x')$$);
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT t.call($$SELECT claims.switch_transfer(t.u(6500), 'x')$$);
SELECT t.whole(6500);
SELECT claims.switch_transfer(t.u(6500), 'x');
SELECT claims.set_mode('open', 'x', 1);
SELECT * FROM claims.finish_transfer(t.u(6500));
SELECT t.transfer();
SELECT creator_id, status, count(*) FROM claims.claims GROUP BY 1, 2;
SELECT count(*) FROM claims.check();
SELECT * FROM claims.finish_transfer(t.u(6500));
SELECT t.whole(6500);
-- the cell is empty, and can be removed; its corrections work again
BEGIN;
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('new'), '0', true);
ROLLBACK;
BEGIN;
SELECT claims.remove_cell(1, 'moved');
ROLLBACK;

-- cancel: all claims are ACTIVE claims of the cell again
SELECT t.whole(6510, 2, 1);
SELECT * FROM claims.cancel_transfer(t.u(6510), 'x');
SELECT creator_id, status, count(*) FROM claims.claims GROUP BY 1, 2;
SELECT t.whole(6510, 2, 1);

-- steps: a pass that began before the mode was set is not the last one
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'many ' || n, 2, n % 5, 3, n / 3, 1, 1 FROM generate_series(1, 25000) n;
SELECT t.whole(6520, 1, 2, '0');
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT t.whole(6520, 1, 2, '0');
SELECT t.whole(6520, 1, 2, '0');
SELECT t.transfer() OFFSET 2;
-- the next pass begins in mode settle_only; a change of mode during it breaks it
SELECT t.whole(6520, 1, 2, '0');
SELECT claims.set_mode('open', 'x', 1);
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT t.whole(6520, 1, 2, '0');
SELECT t.whole(6520, 1, 2, '0');
SELECT t.whole(6520, 1, 2);
SELECT claims.switch_transfer(t.u(6520), 'x');
SELECT * FROM claims.finish_transfer(t.u(6520));
SELECT claims.set_mode('open', 'x', 1);
SELECT creator_id, status, count(*) FROM claims.claims WHERE bucket_value LIKE 'many%' GROUP BY 1, 2;
SELECT count(*) FROM claims.check();

-- another transfer's claims of the cell are skipped until it has ended; one that brings claims to the cell is waited for
SELECT t.clean();
DELETE FROM claims.cell_transfers;
SELECT t.have(1, 'a', 'b'), t.have(2, 'z');
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT * FROM claims.prepare_transfer(t.u(6530), 1, 2, t.groups(1), 'x');
SELECT * FROM claims.prepare_transfer(t.u(6531), 2, 1, t.groups(1), 'x');
SELECT t.whole(6532);
SELECT t.whole(6532);
SELECT * FROM claims.cancel_transfer(t.u(6530), 'x');
SELECT t.whole(6532);
SELECT t.whole(6532);
SELECT claims.switch_transfer(t.u(6531), 'x');
SELECT * FROM claims.finish_transfer(t.u(6531));
SELECT t.whole(6532);
SELECT creator_id, status, count(*) FROM claims.claims GROUP BY 1, 2;
SELECT * FROM claims.cancel_transfer(t.u(6532), 'x');

-- nothing that this transaction has done counts: others do not see it yet
BEGIN;
SELECT t.whole(6540);
SELECT t.whole(6540);
ROLLBACK;
SELECT t.whole(6540);
SELECT claims.set_mode('open', 'x', 1);
BEGIN;
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT t.whole(6540);
SAVEPOINT s;
COMMIT;
SELECT t.whole(6540);
SELECT * FROM claims.cancel_transfer(t.u(6540), 'x');
-- an old snapshot is refused
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT t.whole(6541);
ROLLBACK;
-- a cell without claims
SELECT t.clean();
SELECT t.whole(6542);
SELECT t.whole(6542);
SELECT claims.switch_transfer(t.u(6542), 'x');
SELECT * FROM claims.finish_transfer(t.u(6542));

-- cleans up
SELECT claims.set_mode('open', 'x', 1);
SELECT t.clean();
DELETE FROM claims.mode_settings;
DELETE FROM claims.cell_transfers;
DELETE FROM claims.transfer_subjects;
DROP FUNCTION t.groups, t.whole, t.transfer;
VACUUM claims.claims, claims.claim_leases;
