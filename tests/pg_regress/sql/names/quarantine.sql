-- Names that are kept back after their owners gave them up.
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(120, 'KEPT', 'casefold'), claims.add_bucket_type(121, 'MINE'), claims.add_bucket_type(122, 'NOBODYS'),
       claims.add_bucket_type(123, 'FREE');
-- t.one() is a batch of one claim: type, value, subject
CREATE FUNCTION t.one(type text, value text, subject bigint DEFAULT 1) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(t.claim(value, type, subject)) $$;
CREATE FUNCTION t.gone(type text, VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', v)) ORDER BY n)
      FROM unnest(vals) WITH ORDINALITY AS u(v, n) $$;
-- t.want() returns the conflicts of a create, with their times masked, or ok; it rolls the lease back
CREATE FUNCTION t.want(cell bigint, type text, value text, subject bigint DEFAULT 1) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    SELECT * INTO r FROM claims.try_begin_update(cell, t.one(type, value, subject));
    IF r.lease_uuid IS NULL THEN
        RETURN (SELECT string_agg(regexp_replace(regexp_replace(c, '("lease_age_seconds": ?)[0-9.e-]+', '\1<age>'),
                                                 '("available_at": ?)"[0-9:.T+-]+"', '\1<time>'), ' ') FROM t.mask(r.conflicts) c);
    END IF;
    PERFORM claims.rollback_update(cell, r.lease_uuid);
    RETURN 'ok';
END $$;
CREATE FUNCTION t.own(cell bigint, type text, value text, subject bigint DEFAULT 1) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, t.one(type, value, subject))) $$;
CREATE FUNCTION t.give_up(cell bigint, type text, VARIADIC vals text[]) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, '[]', t.gone(type, VARIADIC vals))) $$;
-- t.kept() lists the rows of names that are kept back
CREATE FUNCTION t.kept() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', bucket_type, bucket_value, 'status', status, 'of', creator_id, 'by', given_up_by, 'subject', subject_id,
                     CASE WHEN available_at <= clock_timestamp() THEN 'over' END, CASE WHEN lease_uuid IS NOT NULL THEN 'leased' END)
      FROM claims.claims WHERE status IN (5, 6) ORDER BY bucket_type, bucket_value $$;

-- the setting
SELECT claims.set_quarantine('KEPT', '30 days', 'no names for strangers');
SELECT claims.set_quarantine('MINE', '1 hour', 'the cell may', 'cell'), claims.set_quarantine('NOBODYS', '1 mon', 'nobody may', 'nobody');
SELECT name, keep_for, reclaim FROM claims.bucket_types WHERE id >= 120 ORDER BY id;
SELECT action, arguments, reason FROM claims.admin_log WHERE action = 'set_quarantine' ORDER BY at LIMIT 1;
SELECT t.call($$SELECT claims.set_quarantine('KEPT', '-1 second', 'x')$$);
SELECT t.call($$SELECT claims.set_quarantine('KEPT', '36526 days', 'x')$$);
SELECT t.call($$SELECT claims.set_quarantine('KEPT', '1 day', 'x', 'friends')$$);
SELECT t.call($$SELECT claims.set_quarantine('NOTHING', '1 day', 'x')$$);
SELECT t.call($$SELECT claims.set_quarantine('KEPT', '1 day', '')$$);
SELECT t.call($$SELECT claims.set_quarantine('KEPT', NULL, 'x')$$);
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.set_quarantine('KEPT', '1 day', 'x')$$);
SELECT t.call($$SELECT * FROM claims.quarantined_names$$);
RESET ROLE;

-- a name that is given up has no owner, and is nobody's claim
SELECT t.own(1, 'KEPT', 'Ada', 7), t.own(1, 'FREE', 'ada', 7);
SELECT t.give_up(1, 'KEPT', 'ada'), t.give_up(1, 'FREE', 'ada');
SELECT t.kept();
SELECT count(*) FROM claims.get_record('KEPT', 'ADA');
SELECT count(*) FROM claims.get_records('[{"type": "KEPT", "value": "ada"}]');
SELECT count(*) FROM claims.records;
SELECT count(*) FROM claims.list_records(1);
SELECT records FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL);
SELECT bucket_type, bucket_value, cell_id, subject_type, subject_id, given_up_at <= clock_timestamp() AS was,
       available_at - given_up_at AS kept_for FROM claims.quarantined_names;
SELECT count(*) FROM claims.check();
-- who may have it: the same cell for the same subject
SELECT t.want(1, 'KEPT', 'ADA', 7), t.want(1, 'FREE', 'ada', 8);
SELECT t.want(2, 'KEPT', 'ada', 7);
SELECT t.want(1, 'KEPT', 'ada', 8);
SELECT available_at FROM claims.quarantined_names \gset
SELECT (conflicts #>> '{0,available_at}')::timestamptz = :'available_at' AS says_until_when FROM claims.try_begin_update(2, t.one('KEPT', 'ada', 7));
-- a rolled back reclaim leaves it as it was
SELECT claims.begin_update(1, t.one('KEPT', 'aDA', 7), lease_uuid => t.u(9501)) = t.u(9501);
SELECT t.kept();
SELECT count(*) FROM claims.get_record('KEPT', 'ada');
SELECT t.want(1, 'KEPT', 'ada', 7);
SELECT t.want(2, 'KEPT', 'ada', 7);
SELECT count(*) FROM claims.check();
SELECT count(*) FROM claims.quarantined_names;
SELECT labels, value FROM claims.metrics() WHERE name = 'claims_quarantined_names' AND labels ->> 'type' = 'KEPT';
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, '[]', t.gone('KEPT', 'ada'));
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, '[]', t.gone('KEPT', 'ada'));
SELECT claims.rollback_update(1, t.u(9501));
SELECT t.kept();
SELECT count(*) FROM claims.quarantined_names WHERE available_at - given_up_at = '30 days';
-- a committed one gives it in place
SELECT t.own(1, 'KEPT', 'aDA', 7);
SELECT bucket_value, subject_id, cell_id, status, display_value FROM claims.get_record('KEPT', 'ada');
SELECT array(SELECT t.kept()), (SELECT count(*) FROM claims.check());
SELECT given_up_by, available_at FROM claims.claims;
-- a repeat of the begin returns the lease, whatever has become of the name
SELECT t.give_up(1, 'KEPT', 'ada');
SELECT claims.begin_update(1, t.one('KEPT', 'ada', 7), lease_uuid => t.u(9502)) = t.u(9502);
SELECT claims.begin_update(1, t.one('KEPT', 'ada', 7), lease_uuid => t.u(9502)) = t.u(9502);
SELECT claims.commit_update(1, t.u(9502)), claims.commit_update(1, t.u(9502));
SELECT t.call($$SELECT claims.rollback_update(1, t.u(9502))$$);
-- a replace and a name that is taken and given up in one batch end nothing
SELECT claims.commit_update(1, claims.begin_update(1, t.one('KEPT', 'Ada', 8), t.gone('KEPT', 'ada')));
SELECT array(SELECT t.kept()), subject_id FROM claims.get_record('KEPT', 'ada');
-- a rename keeps the old name back, and back again the other one
SELECT claims.commit_update(1, claims.begin_update(1, t.one('KEPT', 'bob', 8), t.gone('KEPT', 'ada')));
SELECT t.kept();
SELECT claims.commit_update(1, claims.begin_update(1, t.one('KEPT', 'ada', 8), t.gone('KEPT', 'bob')));
SELECT t.kept();

-- the other rules
SELECT t.own(1, 'MINE', 'x', 1), t.own(1, 'NOBODYS', 'x', 1);
SELECT t.give_up(1, 'MINE', 'x'), t.give_up(1, 'NOBODYS', 'x');
SELECT t.want(1, 'MINE', 'x', 2), t.want(2, 'MINE', 'x', 1);
SELECT t.want(1, 'NOBODYS', 'x', 1);
-- of several conflicts reserved weighs more, and leased less
SELECT claims.reserve_names('FREE', '{r}', 'ours');
SELECT claims.begin_update(2, t.one('FREE', 'l'), lease_uuid => t.u(9500)) = t.u(9500);
SELECT regexp_replace(c, '("available_at":)"[^"]+"', '\1<time>')
  FROM t.call($$SELECT claims.begin_update(1, t.one('KEPT', 'bob', 9) || t.one('FREE', 'l'))$$) c;
SELECT regexp_replace(c, '("available_at":)"[^"]+"', '\1<time>')
  FROM t.call($$SELECT claims.begin_update(1, t.one('NOBODYS', 'x') || t.one('FREE', 'r'))$$) c;
SELECT claims.rollback_update(2, t.u(9500)), claims.unreserve_names('FREE', '{r}', 'a test');
-- the rules of a type go by what is set now, the time by when the name was given up
SELECT claims.set_quarantine('NOBODYS', '1 mon', 'the cell may now', 'cell');
SELECT t.want(1, 'NOBODYS', 'x', 2);
SELECT available_at - given_up_at AS kept_for FROM claims.quarantined_names WHERE bucket_type = 'NOBODYS';
-- an end of the setting frees no name; then the rule is subject
SELECT claims.set_quarantine('NOBODYS', '0', 'enough');
SELECT t.want(1, 'NOBODYS', 'x', 1), t.want(1, 'NOBODYS', 'x', 2);
SELECT t.own(1, 'NOBODYS', 'y'), t.give_up(1, 'NOBODYS', 'y'), t.want(2, 'NOBODYS', 'y');

-- begin_first passes over it, and over none that the cell may have
SELECT chosen FROM claims.begin_first(2, jsonb_build_array(jsonb_build_object('create_records', t.one('KEPT', 'bob', 8)),
      jsonb_build_object('create_records', t.one('KEPT', 'bob1', 8))), t.u(9503));
SELECT chosen FROM claims.begin_first(1, jsonb_build_array(jsonb_build_object('create_records', t.one('KEPT', 'bob', 8)),
      jsonb_build_object('create_records', t.one('KEPT', 'bob2', 8))), t.u(9504));
SELECT claims.commit_update(2, t.u(9503)), claims.rollback_update(1, t.u(9504));
-- skip_missing: the destroy is missing, the create decides
SELECT t.want(1, 'KEPT', 'bob', 8);
SELECT t.call($$SELECT claims.begin_update(1, t.one('KEPT', 'bob', 8), t.gone('KEPT', 'bob'), t.u(9505))$$);
SELECT claims.begin_update(1, t.one('KEPT', 'bob', 8), t.gone('KEPT', 'bob'), t.u(9506), skip_missing => true) = t.u(9506);
SELECT t.kept();
SELECT claims.commit_update(1, t.u(9506)), t.give_up(1, 'KEPT', 'bob');
-- several claims in one batch, some new, some kept back, settled in a list
SELECT claims.begin_update(1, t.one('KEPT', 'bob', 8) || t.one('KEPT', 'carl', 8) || t.one('MINE', 'x', 3), t.gone('KEPT', 'ada'),
      t.u(9507)) = t.u(9507);
SELECT claims.begin_update(1, t.one('MINE', 'y', 3), lease_uuid => t.u(9508)) = t.u(9508);
SELECT array(SELECT t.kept()), (SELECT count(*) FROM claims.check());
SELECT ltrim(right(lease_uuid::text, 12), '0'), outcome, settled FROM claims.settle_leases(1, ARRAY[t.u(9507)], ARRAY[t.u(9508)]) ORDER BY 1;
SELECT t.state();
-- a damaged lease is not settled
SELECT t.give_up(1, 'KEPT', 'carl');
SELECT claims.begin_update(1, t.one('KEPT', 'carl', 8), lease_uuid => t.u(9509)) = t.u(9509);
BEGIN;
DELETE FROM claims.claims WHERE bucket_value = 'carl';
SELECT t.call($$SELECT claims.commit_update(1, t.u(9509))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(9509))$$);
ROLLBACK;
SELECT claims.rollback_update(1, t.u(9509));

-- what is over is free, whether its row is deleted or not
UPDATE claims.claims SET available_at = updated_at WHERE status = 5;
SELECT t.kept();
SELECT count(*) FROM claims.quarantined_names;
SELECT labels, value FROM claims.metrics() WHERE name = 'claims_quarantined_names' AND value > 0;
SELECT t.want(2, 'KEPT', 'carl', 1);
SELECT chosen FROM claims.begin_first(2, jsonb_build_array(jsonb_build_object('create_records', t.one('KEPT', 'carl', 1)),
      jsonb_build_object('create_records', t.one('KEPT', 'none', 8))), t.u(9510));
SELECT t.want(1, 'KEPT', 'carl', 8);
SELECT claims.commit_update(2, t.u(9510));
SELECT cell_id, status FROM claims.get_record('KEPT', 'carl');
SELECT array(SELECT t.kept()), (SELECT count(*) FROM claims.check());
SELECT claims.purge_quarantine(), claims.purge_quarantine();
SELECT t.kept();

-- what is not over stays
SELECT t.give_up(2, 'KEPT', 'carl'), t.give_up(1, 'KEPT', 'bob');
SELECT claims.purge_quarantine();
SELECT t.kept();
-- release_quarantine
SELECT claims.begin_update(1, t.one('KEPT', 'bob', 8), lease_uuid => t.u(9511)) = t.u(9511);
SELECT claims.release_quarantine('KEPT', '{CARL,bob,nothing}', 'a mistake');
SELECT t.kept();
SELECT t.want(1, 'KEPT', 'carl', 3);
SELECT claims.rollback_update(1, t.u(9511)), t.want(2, 'KEPT', 'bob', 3);
SELECT action, arguments, counts, reason FROM claims.admin_log WHERE action = 'release_quarantine';
SELECT t.call($$SELECT claims.release_quarantine('KEPT', ARRAY[NULL], 'x')$$);

-- the ends of claims: release_records, a correction, a forced rollback
SELECT t.own(1, 'KEPT', 'd1', 1), t.own(1, 'KEPT', 'd2', 2), t.own(1, 'FREE', 'd3', 3), t.own(2, 'KEPT', 'd4', 4), t.own(2, 'FREE', 'd5', 5);
DELETE FROM claims.claims WHERE creator_id <> -1 AND bucket_value NOT LIKE 'd_'; DELETE FROM claims.claims WHERE status = 5;
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true) ORDER BY 2;
SELECT t.kept();
SET client_min_messages = error;
SELECT claims.release_records(2, 'it is gone', 1), claims.release_records(2, 'it is gone', 5);
SELECT t.kept();
SELECT t.own(2, 'KEPT', 'd6'), claims.release_records(2, 'it is gone', quarantine => false);
SELECT t.own(2, 'KEPT', 'd6'), claims.release_records(2, 'it is gone', quarantine => false);
RESET client_min_messages;
SELECT t.want(1, 'KEPT', 'd6');
SELECT claims.begin_update(1, t.one('KEPT', 'd1', 1) || t.one('KEPT', 'e1', 1) || t.one('FREE', 'e2', 1), lease_uuid => t.u(9512)) = t.u(9512);
SELECT jsonb_path_query_array(f, '$.freed[*].bucket.value') AS freed, jsonb_path_query_array(f, '$.quarantined[*].bucket.value') AS quarantined
  FROM claims.force_rollback(1, t.u(9512), 'a test') f;
SELECT array(SELECT t.kept()), (SELECT count(*) FROM claims.check());

-- verification and import take what the cell may have, and leave the rest
SELECT discrepancy, bucket_value, outcome, actual FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
      t.one('KEPT', 'd1', 1) || t.one('KEPT', 'd2', 1) || t.one('KEPT', 'd4', 4) || t.one('KEPT', 'f', 4), '0') ORDER BY 2;
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
      t.one('KEPT', 'd1', 1) || t.one('KEPT', 'd2', 1) || t.one('KEPT', 'd4', 4) || t.one('KEPT', 'f', 4), '0', true) ORDER BY 2;
SELECT * FROM claims.import_records(1, (t.one('KEPT', 'e1', 1) || t.one('KEPT', 'd2', 1) || t.one('KEPT', 'g', 4))::text, true);
SELECT * FROM claims.import_records(1, (t.one('KEPT', 'e1', 1) || t.one('KEPT', 'd2', 1) || t.one('KEPT', 'g', 4))::text);
SELECT t.state();
SELECT count(*) FROM claims.check();

-- reserved: a name that is kept back can be reserved, one that a lease reclaims cannot
SELECT t.own(1, 'KEPT', 'd2', 2), t.give_up(1, 'KEPT', 'd2', 'g');
SELECT claims.begin_update(1, t.one('KEPT', 'g', 4), lease_uuid => t.u(9513)) = t.u(9513);
SELECT t.call($$SELECT claims.reserve_names('KEPT', '{D2,g}', 'ours')$$);
SELECT claims.rollback_update(1, t.u(9513)), claims.reserve_names('KEPT', '{D2,g}', 'ours');
SELECT t.want(1, 'KEPT', 'd2', 2), t.kept();
SELECT bucket_value FROM claims.quarantined_names WHERE bucket_value IN ('d2', 'g');
SELECT claims.unreserve_names('KEPT', '{d2}', 'not ours'), t.want(2, 'KEPT', 'd2', 9);

-- a cell can be removed, and its names stay kept back; not while its lease takes one back
SELECT t.own(2, 'KEPT', 'h', 1), t.give_up(2, 'KEPT', 'h');
SELECT claims.release_records(2, 'a test', quarantine => false) >= 0;
BEGIN;
SELECT claims.begin_update(2, t.one('KEPT', 'h', 1), lease_uuid => t.u(9514)) = t.u(9514);
SELECT t.call($$SELECT claims.remove_cell(2, 'a test')$$);
SELECT claims.rollback_update(2, t.u(9514));
SELECT claims.remove_cell(2, 'a test');
SELECT t.kept(); SELECT count(*) FROM claims.check();
ROLLBACK;

-- the metric
SELECT labels, value FROM claims.metrics() WHERE name = 'claims_quarantined_names' ORDER BY 1;

-- cleans up
SELECT t.clean(); DELETE FROM claims.reservations;
DELETE FROM claims.bucket_types WHERE id >= 120; DELETE FROM claims.type_names WHERE id >= 120;
DROP FUNCTION t.one, t.gone, t.want, t.own, t.give_up, t.kept;
