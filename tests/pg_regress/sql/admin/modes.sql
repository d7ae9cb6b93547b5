-- Modes: what the service does for cells in each of them. Leases 51xx.
SELECT t.clean();
SELECT t.have(1, 'mine'); SELECT t.have(2, 'yours');
SELECT claims.begin_update(1, t.creates('a'), lease_uuid => t.u(5100)), claims.begin_update(2, t.creates('b'), lease_uuid => t.u(5101));
-- t.everything() calls every function of a cell, rolls each back, and shows the result
CREATE FUNCTION t.everything(cell bigint, lease uuid) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE s text; c text; r text[] := '{}';
BEGIN
    FOREACH s IN ARRAY ARRAY[
        format('begin_update(%s, t.creates(''new''))', cell), format('try_begin_update(%s, t.creates(''new''))', cell),
        format('begin_update(%s, t.creates(CASE %s WHEN 1 THEN ''a'' ELSE ''b'' END), lease_uuid => %L)', cell, cell, lease),
        format('begin_first(%s, %L)', cell, jsonb_build_array(jsonb_build_object('create_records', t.creates('new')))),
        format('begin_update_text(%s, %L, ''[]'')', cell, t.creates('new')),
        format('commit_update(%s, %L)', cell, lease), format('commit_unflushed(%s, %L)', cell, lease),
        format('rollback_update(%s, %L)', cell, lease), format('rollback_update(%s, t.u(5199))', cell),
        format('settle_leases(%s, ARRAY[%L::uuid])', cell, lease),
        format('present_epoch(%s, 51)', cell), format('verify_records(%s, ''RAILS_TABLE_ROUTES'', NULL, NULL, ''[]'', ''0'', true)', cell),
        format('verify_records(%s, ''RAILS_TABLE_ROUTES'', NULL, NULL, ''[]'', ''0'')', cell),
        format('digest_records(%s, ''RAILS_TABLE_ROUTES'')', cell), format('list_leases(%s)', cell), format('list_records(%s)', cell),
        format('lease_outcome(%s, %L)', cell, lease), 'get_record(''ROUTES'', ''mine'')', 'purge_outcomes()']
    LOOP
        BEGIN
            SELECT split_part(s, '(', 1) || ' ' || left(x, 5) INTO c FROM t.call('SELECT * FROM claims.' || s) x LIMIT 1;
            RAISE SQLSTATE 'ZZ000';
        EXCEPTION WHEN SQLSTATE 'ZZ000' THEN r := r || regexp_replace(c, ' ok .*| ok$', ' ok');
        END;
    END LOOP;
    RETURN QUERY SELECT string_agg(x, ', ' ORDER BY n) FROM unnest(r) WITH ORDINALITY u(x, n);
END $$;
-- every function in each mode
SELECT t.everything(1, t.u(5100));
SELECT claims.set_mode('settle_only', 'the names are compared');
SELECT t.everything(1, t.u(5100));
SELECT claims.set_mode('read_only', 'the disk is full');
SELECT t.everything(1, t.u(5100));
-- the error names the mode, its time and its reason
SELECT regexp_replace(c, ' at .*: the', ' at <time>: the') FROM t.call($$SELECT claims.begin_update(1, t.creates('new'))$$) c;
SELECT regexp_replace(c, ' at .*: the', ' at <time>: the') FROM t.call($$SELECT claims.commit_update(1, t.u(5100))$$) c;
-- an administrator that acts for a cell is refused as the cell is
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT left(c, 5) FROM t.call($$SELECT claims.begin_update(1, t.creates('new'))$$) c LIMIT 1;
RESET SESSION AUTHORIZATION;
-- a role that is not the cell learns nothing about the mode
SET SESSION AUTHORIZATION regress_claims_two;
SELECT left(c, 5) FROM t.call($$SELECT claims.begin_update(1, t.creates('new'))$$) c LIMIT 1;
RESET SESSION AUTHORIZATION;
-- admin actions are not refused
BEGIN;
SELECT claims.force_rollback(1, t.u(5100), 'test') IS NOT NULL, claims.register_cell(3, 'regress_claims_nobody') IS NOT NULL;
ROLLBACK;
SELECT claims.set_mode('open', 'space was made');
-- the mode of one cell
SELECT claims.set_mode('settle_only', 'it hammers', 1);
SELECT regexp_replace(c, ' at .*: it', ' at <time>: it') FROM t.call($$SELECT claims.begin_update(1, t.creates('new'))$$) c;
SELECT left(c, 2) FROM t.call($$SELECT claims.rollback_update(2, claims.begin_update(2, t.creates('new')))$$) c;
-- the stricter one of the two modes applies
SELECT claims.set_mode('read_only', 'everybody');
SELECT t.everything(1, t.u(5100)) = t.everything(2, t.u(5101));
SELECT cell_id, cell_name, mode, in_effect, reason, role, since IS NOT NULL AS dated, open_writers FROM claims.modes ORDER BY cell_id NULLS FIRST;
SELECT claims.set_mode('settle_only', 'everybody'), claims.set_mode('read_only', 'it hammers', 1);
SELECT cell_id, mode, in_effect FROM claims.modes ORDER BY cell_id NULLS FIRST;
SELECT left(c, 5) FROM unnest('{1,2}'::int[]) cell, t.call(format('SELECT claims.rollback_update(%s, t.u(5199))', cell)) c WHERE c !~ '^ ';
SELECT claims.set_mode('open', 'over'), claims.set_mode('open', 'over', 1);
SELECT t.everything(1, t.u(5100));
-- unknown modes and cells are refused
SELECT t.call($$SELECT claims.set_mode(NULL, 'x')$$);
SELECT t.call($$SELECT claims.set_mode('Open', 'x')$$);
SELECT t.call($$SELECT claims.set_mode('open', 'x', 77)$$);
-- only administrators set modes; monitoring roles may read them, cells may not
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.set_mode('open', 'x', 1)$$);
SELECT t.call('SELECT * FROM claims.modes');
RESET SESSION AUTHORIZATION;
BEGIN;
SELECT claims.grant_monitor('regress_claims_nobody');
SET LOCAL SESSION AUTHORIZATION regress_claims_nobody;
SELECT count(*) FROM claims.modes;
SELECT t.call($$SELECT claims.set_mode('open', 'x')$$);
ROLLBACK;
-- a mode applies in its own transaction at once, and ends with a rollback
BEGIN;
SELECT claims.set_mode('read_only', 'for a moment');
SELECT left(c, 5) FROM t.call($$SELECT claims.begin_update(1, t.creates('new'))$$) c LIMIT 1;
ROLLBACK;
SELECT left(c, 2) FROM t.call($$SELECT claims.rollback_update(1, claims.begin_update(1, t.creates('new')))$$) c LIMIT 1;
DELETE FROM claims.mode_settings;
DROP FUNCTION t.everything;
SELECT t.clean();
