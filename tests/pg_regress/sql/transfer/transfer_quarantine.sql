-- The right to names that are kept back moves with their subjects, or with the whole cell. Transfers and leases 66xx.
SELECT t.clean();
SELECT claims.add_bucket_type(126, 'KEPT'), claims.set_quarantine('KEPT', '1 day', 'a test');
CREATE FUNCTION t.own(cell bigint, value text, subject bigint) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, jsonb_build_array(t.claim(value, 'KEPT', subject)))) $$;
CREATE FUNCTION t.give_up(cell bigint, value text) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, '[]',
        jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'KEPT', 'value', value))))) $$;
CREATE FUNCTION t.rights() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', bucket_value, 'of', creator_id, 'status', status, 'by', given_up_by, 'subject', subject_id)
      FROM claims.claims WHERE bucket_type = 126 ORDER BY bucket_value $$;
CREATE FUNCTION t.prepare(n int, subjects jsonb) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT * FROM claims.prepare_transfer(t.u(%s), 1, 2, %L, ''test'')', n, subjects)) $$;
CREATE FUNCTION t.finish(n int) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT * FROM claims.finish_transfer(t.u(%s))', n)) $$;
SELECT t.own(1, 'old of 1', 1), t.own(1, 'new of 1', 1), t.own(1, 'old of 2', 2), t.own(2, 'other cell', 1);
SELECT t.give_up(1, 'old of 1'), t.give_up(1, 'old of 2'), t.give_up(2, 'other cell');
SELECT t.rights();

-- a lease that takes such a name back is waited for; that of another subject is not
SELECT claims.begin_update(1, jsonb_build_array(t.claim('old of 2', 'KEPT', 2)), lease_uuid => t.u(6601)) = t.u(6601);
SELECT claims.begin_update(1, jsonb_build_array(t.claim('old of 1', 'KEPT', 1)), lease_uuid => t.u(6602)) = t.u(6602);
SELECT t.prepare(6600, '[{"type": "GROUP", "ids": [1]}]');
SELECT claims.rollback_update(1, t.u(6602));
SELECT t.prepare(6600, '[{"type": "GROUP", "ids": [1]}]');
-- until the finish the right is with the old cell
SELECT claims.switch_transfer(t.u(6600), 'test');
SELECT t.rights();
SELECT t.finish(6600);
SELECT t.rights(), (SELECT count(*) FROM claims.check());
SELECT t.state_of($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('old of 1', 'KEPT', 1)))$$);
SELECT t.own(2, 'old of 1', 1);

-- a cancelled transfer moves no right, nor does one that was reversed
SELECT t.give_up(2, 'old of 1'), t.own(1, 'stays', 3), t.own(1, 'gone', 3), t.give_up(1, 'gone');
SELECT t.prepare(6603, '[{"type": "GROUP", "ids": [3]}]');
SELECT released, finished FROM claims.cancel_transfer(t.u(6603), 'test');
SELECT t.prepare(6604, '[{"type": "GROUP", "ids": [3]}]');
SELECT claims.switch_transfer(t.u(6604), 'test'), claims.reverse_transfer(t.u(6604), 'test');
SELECT t.finish(6604);
SELECT t.rights();

-- a whole cell: the lease of the other name is waited for, too
SELECT claims.set_mode('settle_only', 'moves', 1);
SELECT t.prepare(6605, NULL);
SELECT claims.rollback_update(1, t.u(6601));
SELECT t.prepare(6605, NULL);
SELECT t.prepare(6605, NULL);
-- no name of the cell is handed over meanwhile, and none to it; the other cell can get one
SELECT t.call(format('SELECT claims.hand_over(''KEPT'', %L, %s, ''GROUP'', ''9'', ''RAILS_TABLE_ROUTES'', ''9'', ''test'')', name, cell))
  FROM (VALUES ('stays', 2), ('unclaimed', 1), ('unclaimed', 2)) AS n (name, cell);
SELECT claims.switch_transfer(t.u(6605), 'test');
SELECT t.finish(6605);
SELECT t.rights(), (SELECT count(*) FROM claims.check());
SELECT claims.set_mode('open', 'has moved', 1);

-- cleans up
SELECT t.clean(); DELETE FROM claims.cell_transfers; DELETE FROM claims.transfer_subjects;
DELETE FROM claims.bucket_types WHERE id = 126; DELETE FROM claims.type_names WHERE id = 126;
DROP FUNCTION t.own, t.give_up, t.rights, t.prepare, t.finish;
