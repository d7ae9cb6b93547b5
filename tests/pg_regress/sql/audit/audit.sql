-- The audit log: settled leases and fences, in the transaction that settles them. (audit.sh tests refusals and denials.)
SELECT t.clean();
CREATE FUNCTION t.u(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
CREATE FUNCTION t.log() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('cell %s %s %s by %s: %s %s %s', cell_id, what, right(lease_uuid::text, 2), application_name, ops, bucket_types, bucket_values)
      FROM claims.audit_log ORDER BY at, id $$;

-- off by default, and only superusers turn it on
SHOW claims.audit;
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('a'), lease_uuid => t.u(1)));
SELECT count(*) FROM claims.audit_log;
SELECT t.call($$SET claims.audit = 'some'$$);
SET ROLE regress_claims_one;
SELECT t.call($$SET claims.audit = 'all'$$);
SELECT t.call($$SELECT * FROM claims.audit_log$$);
SELECT t.call($$SELECT claims.purge_audit('0 s')$$);
RESET ROLE;

-- settled: commits and rollbacks with all their names, no fences
SET claims.audit = settled; SET application_name = 'a test';
SELECT claims.begin_update(1, t.creates('b', 'c'), t.destroys('a'), t.u(2));
SELECT count(*) FROM claims.audit_log;
SELECT claims.commit_update(1, t.u(2)), claims.commit_update(1, t.u(2));
SELECT claims.begin_update(1, t.creates('d'), lease_uuid => t.u(3)), claims.rollback_update(1, t.u(3));
SELECT claims.rollback_update(1, t.u(4));
SELECT t.log();
-- who it was, from where, and when
SELECT session_role = session_user, client_address IS NOT DISTINCT FROM inet_client_addr(), at > clock_timestamp() - interval '1 hour',
       at <= clock_timestamp(), conflict IS NULL FROM claims.audit_log;
TRUNCATE claims.audit_log;

-- a replaced name, many leases in one call, an administrator's rollback, profiles and types of one's own
SELECT claims.add_bucket_type(100, 'HANDLES', 'username');
SELECT claims.begin_update(1, t.creates('b'), t.destroys('b'), t.u(5)), claims.commit_update(1, t.u(5));
SELECT claims.begin_update(1, jsonb_build_array(t.claim('Ada', 'HANDLES')), lease_uuid => t.u(6)),
    claims.begin_update(1, t.creates('e'), lease_uuid => t.u(7)),
       claims.begin_update(2, t.creates('f'), lease_uuid => t.u(8));
SELECT outcome, settled FROM claims.settle_leases(1, ARRAY[t.u(6)], ARRAY[t.u(7), t.u(9)]);
SELECT count(*) FROM claims.force_rollback(2, t.u(8), 'a test');
SELECT t.log();
TRUNCATE claims.audit_log;

-- all: fences, too, by each way
SET claims.audit = 'all';
SELECT claims.rollback_update(1, t.u(10));
SELECT outcome, settled FROM claims.settle_leases(1, '{}', ARRAY[t.u(11), t.u(12)]);
SELECT t.log();
TRUNCATE claims.audit_log;

-- a log that somebody has altered is written all the same, and check() tells of it; an index is expected
BEGIN;
CREATE INDEX ON claims.audit_log (session_role);
SELECT count(*) FROM claims.find_altered_tables();
ALTER TABLE claims.audit_log ADD COLUMN note text;
SELECT problem, detail FROM claims.check();
SELECT claims.rollback_update(1, t.u(13));
SELECT t.log();
ROLLBACK;

-- beyond the rate of the cell fences are counted: without preloading a row of the same call has their number
SELECT outcome, count(*) FROM claims.settle_leases(1, '{}', (SELECT array_agg(t.u(1000 + n)) FROM generate_series(1, 130) n)) GROUP BY 1;
SELECT cell_id, what, count(*), max(conflict::text) FROM claims.audit_log GROUP BY 1, 2 ORDER BY 2;
SELECT claims.set_cell_limits(1, 'few rows', refusals_per_second => 2);
TRUNCATE claims.audit_log;
SELECT outcome, count(*) FROM claims.settle_leases(1, '{}', (SELECT array_agg(t.u(1200 + n)) FROM generate_series(1, 5) n)) GROUP BY 1;
SELECT cell_id, what, count(*), max(conflict::text) FROM claims.audit_log GROUP BY 1, 2 ORDER BY 2;
SELECT claims.set_cell_limits(1, 'done');
TRUNCATE claims.audit_log;

-- names that change hands without a lease: imported, corrected, moved by a transfer and back, released
SELECT count(*) FROM claims.import_records(1, t.creates('i1', 'i2')::text);
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('i2', 'i3'), '0 s', true,
    (SELECT array_agg(uuid) FROM claims.claims WHERE bucket_value = 'i1')) ORDER BY 2;
SELECT t.log();
TRUNCATE claims.audit_log;
SELECT marked > 1 FROM claims.prepare_transfer(t.u(30), 1, 2,
    (SELECT jsonb_agg(jsonb_build_object('type', 'GROUP', 'ids', jsonb_build_array(subject_id::bigint)))
       FROM claims.claims WHERE bucket_value = 'i2'), 'a test');
SELECT claims.switch_transfer(t.u(30), 'a test'), claims.reverse_transfer(t.u(30), 'a test');
SELECT cell_id, what, right(lease_uuid::text, 2), ops[1], bucket_values @> '{i2,i3}', cardinality(ops) = cardinality(bucket_values)
  FROM claims.audit_log
 ORDER BY at, id;
SELECT released > 0 FROM claims.cancel_transfer(t.u(30), 'a test');
TRUNCATE claims.audit_log;
SELECT claims.release_records(1, 'a test') > 0;
SELECT cell_id, what, lease_uuid, ops[1], bucket_values @> '{i2,i3}', cardinality(ops) = cardinality(bucket_types) FROM claims.audit_log;
TRUNCATE claims.audit_log;

-- rows are committed and rolled back with the settlement
SELECT claims.begin_update(1, t.creates('g'), lease_uuid => t.u(13));
BEGIN; SELECT claims.commit_update(1, t.u(13)); SELECT t.log(); ROLLBACK;
SELECT t.log();
BEGIN; SAVEPOINT s; SELECT claims.rollback_update(1, t.u(13)); ROLLBACK TO s; SELECT claims.commit_update(1, t.u(13)); COMMIT;
SELECT t.log();
TRUNCATE claims.audit_log;

-- indexes that an administrator has added: the log is written all the same
CREATE INDEX ON claims.audit_log USING gin (bucket_values);
CREATE INDEX ON claims.audit_log (session_role, at);
SELECT claims.begin_update(1, t.creates('h', 'i'), lease_uuid => t.u(14)), claims.commit_update(1, t.u(14));
SELECT t.log();
SELECT count(*) FROM claims.audit_log WHERE bucket_values @> ARRAY['i'] AND at >= '2020-01-01';
SELECT problem FROM claims.check();

-- a batch of many names, of long names and of characters of all kinds
SELECT claims.begin_update(1, (SELECT jsonb_agg(t.claim('many/' || n)) FROM generate_series(1, 2000) n), lease_uuid => t.u(15)),
    claims.commit_update(1, t.u(15));
SELECT cardinality(ops), cardinality(bucket_types), cardinality(bucket_values), bucket_values @> ARRAY['many/1', 'many/2000']
  FROM claims.audit_log WHERE lease_uuid = t.u(15);
SELECT claims.begin_update(1, t.creates(repeat('é', 1024), '"a\b{},', U&'\+01F600'), lease_uuid => t.u(16)), claims.commit_update(1, t.u(16));
SELECT length(v), CASE WHEN length(v) < 20 THEN v END FROM claims.audit_log, unnest(bucket_values) v WHERE lease_uuid = t.u(16) ORDER BY 1;

-- purging: by age, oldest first, for administrators
UPDATE claims.audit_log SET at = at - interval '40 days' WHERE lease_uuid IN (t.u(14), t.u(15));
SELECT claims.purge_audit('30 days');
SELECT right(lease_uuid::text, 2) FROM claims.audit_log;
SELECT t.call($$SELECT claims.purge_audit(NULL)$$);
SELECT t.call($$SELECT claims.purge_audit('-1 s')$$);
SELECT claims.purge_audit('0 s');
-- the log of admin actions and the subjects of transfers likewise
SELECT claims.set_mode('open', 'old'), claims.set_mode('open', 'young');
UPDATE claims.admin_log SET id = '01800000-0000-7000-8000-000000000000', at = '2022-04-07' WHERE reason = 'old';
SELECT claims.purge_admin_log('30 days');
SELECT count(*) FILTER (WHERE reason = 'old'), count(*) FILTER (WHERE reason = 'young') FROM claims.admin_log;
SELECT t.call($$SELECT claims.purge_admin_log(NULL)$$);
SELECT marked FROM claims.prepare_transfer(t.u(20), 1, 2, '[{"type": "GROUP", "ids": [77, 78]}]', 'ends');
SELECT marked FROM claims.prepare_transfer(t.u(21), 1, 2, '[{"type": "GROUP", "ids": [79]}]', 'goes on');
SELECT released, finished FROM claims.cancel_transfer(t.u(20), 'a test');
SELECT claims.purge_transfer_subjects('1 day');
UPDATE claims.cell_transfers SET ended_at = ended_at - interval '2 days' WHERE transfer_uuid = t.u(20);
SELECT claims.purge_transfer_subjects('1 day'), claims.purge_transfer_subjects('1 day');
SELECT right(transfer_uuid::text, 2), subject_id FROM claims.transfer_subjects;
-- a repeat of the ended transfer is still recognized
SELECT t.call($$SELECT claims.prepare_transfer(t.u(20), 1, 2, '[{"type": "GROUP", "ids": [77, 78]}]', 'ends')$$);
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.purge_admin_log('0 s')$$);
SELECT t.call($$SELECT claims.purge_transfer_subjects('0 s')$$);
RESET ROLE;
