-- Names that are kept back refuse those that look like them.
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(124, 'LOOKS', 'username', 'reject');
SELECT claims.set_quarantine('LOOKS', '1 day', 'a test');
\set paypai 'U&''p\\0430ypal'''
CREATE FUNCTION t.one(value text, subject bigint DEFAULT 1) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(t.claim(value, 'LOOKS', subject)) $$;
CREATE FUNCTION t.gone(value text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'LOOKS', 'value', value))) $$;
CREATE FUNCTION t.want(cell bigint, value text, subject bigint DEFAULT 1) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    SELECT * INTO r FROM claims.try_begin_update(cell, t.one(value, subject));
    IF r.lease_uuid IS NULL THEN
        RETURN (SELECT string_agg(concat_ws(' ', c ->> 'reason', c ->> 'retryable', c ->> 'holder_cell_id', c ->> 'similar_to'), ', ')
                  FROM jsonb_array_elements(r.conflicts) c);
    END IF;
    PERFORM claims.rollback_update(cell, r.lease_uuid);
    RETURN 'ok';
END $$;
CREATE FUNCTION t.looks() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT bucket_value || CASE reserved WHEN '' THEN '' ELSE ' (reserved)' END || coalesce(' then ' || successor, '')
      FROM claims.skeletons ORDER BY bucket_value COLLATE "C", reserved $$;

SELECT claims.commit_update(1, claims.begin_update(1, t.one('PayPal'))), claims.commit_update(1, claims.begin_update(1, '[]', t.gone('paypal')));
SELECT t.looks(), (SELECT count(*) FROM claims.check());
-- a look-alike conflicts for everybody; the name itself for all but its subject
SELECT t.want(1, :paypai), t.want(2, :paypai), t.want(1, 'paypal', 2), t.want(1, 'paypal');
SELECT t.looks();
SELECT discrepancy, outcome FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, t.one(:paypai), '0');
SELECT discrepancy, outcome FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, t.one(:paypai), '0', true);
SELECT ordinal, reason, holder_cell_id FROM claims.name_holders('LOOKS', ARRAY['free', 'paypal', U&'p\0430ypal']);
SELECT ordinal, reason FROM claims.name_holders('LOOKS', ARRAY['free', 'paypal'], 1, 'GROUP', '1');
SELECT ordinal, reason FROM claims.name_holders('LOOKS', ARRAY['free', 'paypal'], 1, 'GROUP', '2');
-- while it is reclaimed, and when that is rolled back
SELECT claims.begin_update(1, t.one('paypal'), lease_uuid => t.u(9601)) = t.u(9601);
SELECT t.looks(), (SELECT count(*) FROM claims.check());
SELECT t.want(2, :paypai);
SELECT claims.rollback_update(1, t.u(9601)), t.looks(), t.want(2, :paypai);
-- and when it is committed
SELECT claims.commit_update(1, claims.begin_update(1, t.one('paypal')));
SELECT t.looks(), (SELECT count(*) FROM claims.check()), t.want(2, :paypai);
-- a rename to a look-alike in one batch passes the skeleton on, and the old name is kept back beside it
SELECT claims.commit_update(1, claims.begin_update(1, t.one(:paypai), t.gone('paypal')));
SELECT t.looks(), (SELECT count(*) FROM claims.check());
SELECT t.want(2, U&'p\0430yp\0430l'), t.want(1, 'paypal');
-- back again: each of the two is in the batch
SELECT claims.commit_update(1, claims.begin_update(1, t.one('paypal'), t.gone(:paypai)));
SELECT t.looks(), (SELECT count(*) FROM claims.check());
-- each of the two is kept back now, and refuses the other, for the subject of both too
SELECT claims.commit_update(1, claims.begin_update(1, '[]', t.gone('paypal')));
SELECT t.want(1, 'paypal'), t.want(1, :paypai);
SELECT claims.release_quarantine('LOOKS', ARRAY[:paypai], 'they are the same one''s'), t.want(1, 'paypal');
-- a forced rollback of a reclaim, and of a new name
SELECT claims.begin_update(1, t.one('paypal') || t.one('visa'), lease_uuid => t.u(9602)) = t.u(9602);
SELECT jsonb_array_length(f -> 'freed'), jsonb_array_length(f -> 'quarantined') FROM claims.force_rollback(1, t.u(9602), 'a test') f;
SELECT t.looks(), (SELECT count(*) FROM claims.check());
-- what is over refuses nothing
UPDATE claims.claims SET available_at = updated_at WHERE bucket_value = 'visa';
SELECT t.want(2, U&'vis\0430'), claims.commit_update(2, claims.begin_update(2, t.one(U&'vis\0430'))), t.want(1, 'visa');
SELECT t.looks(), (SELECT count(*) FROM claims.check());
SELECT claims.purge_quarantine(), claims.release_quarantine('LOOKS', ARRAY['paypal', U&'p\0430ypal'], 'a test');
SELECT t.looks(), t.want(2, :paypai);
-- a correction that destroys keeps the name back, one that creates has its skeleton
SELECT claims.commit_update(1, claims.begin_update(1, t.one('lego')));
SELECT discrepancy, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true);
SELECT t.looks(), t.want(2, U&'leg\043E');
SELECT discrepancy, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.one('lego'), '0', true);
SELECT t.looks(), (SELECT count(*) FROM claims.check());
SET client_min_messages = error;
SELECT claims.release_records(1, 'a test'), t.looks(), t.want(2, U&'leg\043E');
RESET client_min_messages;
-- reserved, its look is that of the reservation
BEGIN;
SELECT claims.reserve_names('LOOKS', '{lego}', 'a test'), t.looks(), (SELECT count(*) FROM claims.check());
SELECT claims.unreserve_names('LOOKS', '{lego}', 'a test'), t.looks(), t.want(2, U&'leg\043E');
ROLLBACK;
-- another profile: names that are kept back move, and collide
SELECT claims.commit_update(1, claims.begin_update(1, t.one('Ada'))), claims.commit_update(1, claims.begin_update(1, '[]', t.gone('ada')));
SELECT * FROM claims.set_profile('LOOKS', 'exact', 'a test', 'allow', false);
SELECT bucket_value FROM claims.quarantined_names ORDER BY 1;
SELECT t.looks();
SELECT claims.commit_update(2, claims.begin_update(2, t.one('ada')));
SELECT * FROM claims.set_profile('LOOKS', 'username', 'a test');
SELECT t.call($$SELECT * FROM claims.set_profile('LOOKS', 'username', 'a test', dry_run => false)$$);
-- nor while a lease takes one of them back
SELECT claims.begin_update(1, t.one('Ada'), lease_uuid => t.u(9603)) = t.u(9603);
SELECT t.call($$SELECT * FROM claims.set_profile('LOOKS', 'username', 'a test', dry_run => false)$$);
SELECT claims.rollback_update(1, t.u(9603));
SELECT claims.release_quarantine('LOOKS', '{Ada}', 'they would be one');
SELECT claims.commit_update(1, claims.begin_update(1, t.one('Bea'))), claims.commit_update(1, claims.begin_update(1, '[]', t.gone('Bea')));
SELECT claims.begin_update(1, t.one('Bea'), lease_uuid => t.u(9604)) = t.u(9604);
SELECT t.call($$SELECT * FROM claims.set_profile('LOOKS', 'username', 'a test', dry_run => false)$$);
SELECT claims.rollback_update(1, t.u(9604));
SELECT * FROM claims.set_profile('LOOKS', 'username', 'a test', 'reject', false);
SELECT bucket_value FROM claims.quarantined_names ORDER BY 1;
SELECT t.looks(), (SELECT count(*) FROM claims.check());
-- names whose time is over do not count
SELECT claims.commit_update(2, claims.begin_update(2, '[]', t.gone('ada'))), claims.commit_update(1, claims.begin_update(1, t.one('bob')));
SELECT * FROM claims.set_profile('LOOKS', 'exact', 'a test', 'allow', false);
UPDATE claims.claims SET available_at = updated_at WHERE status = 5;
SELECT claims.commit_update(1, claims.begin_update(1, t.one('ADA')));
SELECT * FROM claims.set_profile('LOOKS', 'username', 'a test', 'reject', false);
SELECT bucket_value, status FROM claims.claims ORDER BY 1;
SELECT t.looks(), (SELECT count(*) FROM claims.check());
-- cleans up
SELECT t.clean(); DELETE FROM claims.skeletons;
DELETE FROM claims.bucket_types WHERE id >= 120; DELETE FROM claims.type_names WHERE id >= 120;
DROP FUNCTION t.one, t.gone, t.want, t.looks;
