-- Names that are kept back and handed over, in the audit log, in histories and in erasures.
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons; DELETE FROM claims.audit_log; DELETE FROM claims.change_sets;
SELECT claims.add_bucket_type(127, 'TRACED', 'casefold'), claims.add_bucket_type(128, 'SEEN', 'username', 'reject');
SELECT claims.set_quarantine('TRACED', '30 days', 'a test', 'cell'), claims.set_quarantine('SEEN', '30 days', 'a test');
SET claims.audit = 'settled';
CREATE FUNCTION t.named(type text, VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', v)) ORDER BY n)
      FROM unnest(vals) WITH ORDINALITY AS u(v, n) $$;
CREATE FUNCTION t.own(cell bigint, type text, value text, subject bigint DEFAULT 1) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, jsonb_build_array(t.claim(value, type, subject)))) $$;
CREATE FUNCTION t.give_up(cell bigint, type text, VARIADIC vals text[]) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, '[]', t.named(type, VARIADIC vals))) $$;
-- t.audited() lists the names of the audit log, oldest first, with their subjects before and after
CREATE FUNCTION t.audited() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', a.what, 'cell', a.cell_id, n.op, n.value, coalesce(n.old_subject, '-'), '->', coalesce(n.subject, '-'), a.context)
      FROM claims.audit_log a,
           LATERAL unnest(a.ops, a.bucket_values, a.subjects, a.old_subjects) WITH ORDINALITY AS n (op, value, subject, old_subject, nth)
     ORDER BY a.at, a.id, n.nth $$;
CREATE FUNCTION t.history(id text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', what, 'cell', cell_id, bucket_type, bucket_value, context) FROM claims.subject_history('GROUP', id) $$;
CREATE FUNCTION t.masked(value text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(value, 'erased-[0-9a-f]{32}', '<erased>', 'g') $$;

-- a name that its cell takes back for another subject: the log has the new subject, not the one that gave it up, also of a rollback
SELECT t.own(1, 'TRACED', 'ada', 7), t.give_up(1, 'TRACED', 'ada');
SELECT claims.begin_update(1, jsonb_build_array(t.claim('ada', 'TRACED', 8)), lease_uuid => t.u(9801)) = t.u(9801),
       claims.rollback_update(1, t.u(9801));
SELECT t.own(1, 'TRACED', 'ada', 8);
SELECT t.audited();
-- the history of a subject has the names that are kept back of it, each once, until they are free; that of the next one has the claim
SELECT t.own(1, 'TRACED', 'bob', 7), t.give_up(1, 'TRACED', 'bob');
SELECT t.history('7');
SELECT t.history('8');
SELECT what, at = (SELECT given_up_at FROM claims.quarantined_names WHERE bucket_value = 'bob') FROM claims.subject_history('GROUP', '7') LIMIT 1;
-- by when they were given up, and not by when they were claimed
SELECT t.own(1, 'TRACED', 'one', 70), t.own(1, 'TRACED', 'two', 70), t.own(1, 'TRACED', 'three', 70);
SELECT t.give_up(1, 'TRACED', 'two'), t.give_up(1, 'TRACED', 'one');
SELECT h FROM t.history('70') h WHERE h LIKE 'kept_back%' OR h LIKE 'holds%';
SELECT h FROM t.history('70') h WHERE h LIKE 'kept_back%' LIMIT 1;
-- page by page
DO $$
DECLARE
    after text; r record; one text := ''; whole text;
BEGIN
    SELECT string_agg(what || bucket_value, ' ') INTO whole FROM claims.subject_history('GROUP', '7');
    LOOP
        SELECT * INTO r FROM claims.subject_history('GROUP', '7', after, 1);
        EXIT WHEN NOT FOUND;
        one := concat_ws(' ', NULLIF(one, ''), r.what || r.bucket_value); after := r.cursor;
    END LOOP;
    IF one <> whole THEN RAISE 'pages: %, whole: %', one, whole; END IF;
END $$;
-- while a lease takes it back it is still kept back; what is over is nobody's
SELECT claims.begin_update(1, jsonb_build_array(t.claim('bob', 'TRACED', 9)), lease_uuid => t.u(9802)) = t.u(9802);
SELECT h FROM t.history('7') h WHERE h LIKE 'kept_back%'; SELECT count(*) FROM t.history('9');
SELECT claims.rollback_update(1, t.u(9802));
UPDATE claims.claims SET available_at = updated_at WHERE bucket_value = 'bob';
SELECT count(*) FROM t.history('7') h WHERE h LIKE 'kept_back%';
DELETE FROM claims.claims; DELETE FROM claims.audit_log;

-- released from quarantine: the log says whose it was, and the owners in the name's history stay as they were
SELECT t.own(1, 'TRACED', 'carl', 7), t.give_up(1, 'TRACED', 'carl'), t.own(2, 'TRACED', 'dora', 6), t.give_up(2, 'TRACED', 'dora');
SET claims.context = 'the helpdesk';
SELECT claims.release_quarantine('TRACED', '{Carl,dora,nothing}', 'they asked');
SELECT a FROM t.audited() a WHERE a LIKE 'quarantine_released%' ORDER BY 1;
SELECT t.history('7');
SELECT op, cell_id, since IS NOT NULL, until IS NOT NULL FROM claims.bucket_history('TRACED', 'carl');
-- handed over: both subjects have it in their histories; the context is in the log and in the feed
SET claims.change_feed = on;
SELECT t.own(1, 'TRACED', 'emil', 7), claims.hand_over('TRACED', 'emil', 2, 'GROUP', '11', 'RAILS_TABLE_ROUTES', '11', 'a court said so');
SELECT a FROM t.audited() a WHERE a LIKE 'handed_over%';
SELECT h FROM t.history('7') h WHERE h LIKE '%emil%'; SELECT h FROM t.history('11') h;
SELECT op, old_cell_id, new_cell_id, context FROM claims.changes WHERE bucket_value = 'emil' ORDER BY id;
-- the feed says that a name is given up, and nothing when its time is over
SELECT t.own(1, 'TRACED', 'gina', 7), t.give_up(1, 'TRACED', 'gina');
UPDATE claims.claims SET available_at = updated_at WHERE bucket_value = 'gina';
SELECT claims.purge_quarantine() > 0, t.own(2, 'TRACED', 'gina', 8);
SELECT op, old_cell_id, new_cell_id FROM claims.changes WHERE bucket_value = 'gina' ORDER BY id;
-- also where no lease gives it up
SELECT t.own(1, 'TRACED', 'kim', 7);
SELECT discrepancy, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true);
SET client_min_messages = error;
SELECT t.own(1, 'TRACED', 'leo', 7), claims.release_records(1, 'a test');
RESET client_min_messages;
SELECT bucket_value, op, old_cell_id, new_cell_id FROM claims.changes WHERE bucket_value IN ('kim', 'leo') ORDER BY id;
SELECT bucket_value, cell_id FROM claims.quarantined_names WHERE bucket_value IN ('kim', 'leo') ORDER BY 1;
-- a correction that takes it back finds no owner
SELECT discrepancy, outcome
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, jsonb_build_array(t.claim('kim', 'TRACED', 8)), '0', true);
SELECT a FROM t.audited() a WHERE a LIKE '%kim%' OR a LIKE '%leo%';
SELECT t.give_up(1, 'TRACED', 'kim');
RESET claims.change_feed; DELETE FROM claims.change_sets;
SELECT op, cell_id, context FROM claims.bucket_history('TRACED', 'emil');
-- the log says which cell had it before, also where it does not reach back to when that cell got it
SELECT set_config('claims.audit', 'off', false), t.own(1, 'TRACED', 'finn', 7), set_config('claims.audit', 'settled', false),
       claims.hand_over('TRACED', 'finn', 2, 'GROUP', '11', 'RAILS_TABLE_ROUTES', '11', 'a court said so');
SELECT what, old_cell_id, cell_id FROM claims.audit_log WHERE bucket_values = '{finn}';
SELECT op, cell_id, since IS NULL AS since_ever, until IS NULL AS until_now FROM claims.bucket_history('TRACED', 'finn');
RESET claims.context;

-- an erased name is replaced where it is kept back, and is free
SELECT t.own(1, 'SEEN', 'fred', 7), t.give_up(1, 'SEEN', 'fred');
SELECT place, rows FROM claims.erase_name('SEEN', 'Fred', 'a request') WHERE rows > 0 ORDER BY 1;
SELECT bucket_type, t.masked(bucket_value), subject_id FROM claims.quarantined_names WHERE bucket_type = 'SEEN';
SELECT t.masked(bucket_value), t.masked(reserved) FROM claims.skeletons ORDER BY 1;
SELECT count(*) FROM claims.claims WHERE bucket_value = 'fred'; SELECT count(*) FROM claims.check();
SELECT t.own(2, 'SEEN', 'fred', 9);
-- the look-alikes of a free name are free
SELECT t.give_up(2, 'SEEN', 'fred'), claims.release_quarantine('SEEN', '{fred}', 'a test'), t.own(2, 'SEEN', U&'fr\0435d', 9);
SELECT t.give_up(2, 'SEEN', U&'fr\0435d'), claims.release_quarantine('SEEN', ARRAY[U&'fr\0435d'], 'a test');
-- once more, while the form is still kept back: there is one such row
SELECT t.own(1, 'SEEN', 'fred', 7), t.give_up(1, 'SEEN', 'fred');
SELECT place, rows FROM claims.erase_name('SEEN', 'fred', 'again') WHERE place IN ('quarantined_names', 'skeletons');
SELECT count(*) FROM claims.quarantined_names WHERE bucket_type = 'SEEN'; SELECT count(*) FROM claims.check();
-- the skeleton of a claim that somebody has deleted by hand goes, too
SELECT t.own(1, 'SEEN', 'zoe', 7); DELETE FROM claims.claims WHERE bucket_value = 'zoe';
SELECT rows FROM claims.erase_name('SEEN', 'zoe', 'a request') WHERE place = 'skeletons';
SELECT count(*) FROM claims.skeletons WHERE bucket_value = 'zoe';
-- not while a lease takes it back
SELECT t.own(1, 'TRACED', 'gus', 7), t.give_up(1, 'TRACED', 'gus');
SELECT claims.begin_update(1, jsonb_build_array(t.claim('gus', 'TRACED', 9)), lease_uuid => t.u(9803)) = t.u(9803);
SELECT t.call($$SELECT * FROM claims.erase_name('TRACED', 'gus', 'a request')$$);
SELECT claims.rollback_update(1, t.u(9803));

-- a cell that is removed has no right any more: another one can get its number
SELECT t.own(2, 'TRACED', 'hugo', 7), t.give_up(2, 'TRACED', 'hugo');
BEGIN;
SELECT claims.release_records(2, 'a test', quarantine => false) >= 0;
SELECT claims.remove_cell(2, 'a test');
SELECT cell_id, subject_id FROM claims.quarantined_names WHERE bucket_value = 'hugo';
SELECT h FROM t.history('7') h WHERE h LIKE '%hugo%' LIMIT 1;
SELECT claims.register_cell(2, 'regress_claims_two');
SELECT t.mask(regexp_replace(conflicts::text, '"available_at": ?"[^"]*"', '"available_at": "<time>"')::jsonb)
  FROM claims.try_begin_update(2, jsonb_build_array(t.claim('hugo', 'TRACED', 7)));
SELECT count(*) FROM claims.check();
ROLLBACK;
SELECT t.own(2, 'TRACED', 'hugo', 7);

-- a forced rollback keeps a name anew that the lease was to take back: its cell may have saved it
SELECT t.own(1, 'TRACED', 'ida', 7), t.give_up(1, 'TRACED', 'ida');
UPDATE claims.claims SET available_at = updated_at WHERE bucket_value = 'ida';
SELECT claims.begin_update(2, jsonb_build_array(t.claim('ida', 'TRACED', 9)), lease_uuid => t.u(9804)) = t.u(9804);
SELECT jsonb_path_query_array(f, '$.quarantined[*].bucket.value') FROM claims.force_rollback(2, t.u(9804), 'a test') f;
SELECT cell_id, subject_id, available_at - given_up_at AS kept_for FROM claims.quarantined_names WHERE bucket_value = 'ida';
-- without a quarantine it is kept back as it was
SELECT t.own(1, 'TRACED', 'jon', 7), t.give_up(1, 'TRACED', 'jon');
SELECT claims.begin_update(1, jsonb_build_array(t.claim('jon', 'TRACED', 7)), lease_uuid => t.u(9805)) = t.u(9805);
SELECT claims.set_quarantine('TRACED', '0', 'enough');
SELECT jsonb_path_query_array(f, '$.quarantined[*].bucket.value') FROM claims.force_rollback(1, t.u(9805), 'a test') f;
SELECT cell_id, subject_id, available_at - given_up_at AS kept_for FROM claims.quarantined_names WHERE bucket_value = 'jon';
SELECT count(*) FROM claims.check();

-- cleans up
RESET claims.audit;
SELECT t.clean(); DELETE FROM claims.skeletons; DELETE FROM claims.audit_log; DELETE FROM claims.erasure_key;
DELETE FROM claims.bucket_types WHERE id >= 120; DELETE FROM claims.type_names WHERE id >= 120;
DROP FUNCTION t.named, t.own, t.give_up, t.audited, t.history, t.masked;
