-- metrics(). The test metrics.sh has the counters in shared memory, which need a preloaded library.
SELECT t.clean();
DELETE FROM claims.requests;
DELETE FROM claims.expiring_claims;
DELETE FROM claims.seen_orphans;
DELETE FROM claims.pass_log;
DELETE FROM claims.lease_fences;
-- t.metric() returns the samples of some names, with ages in minutes
CREATE FUNCTION t.metric(VARIADIC names text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', name, nullif(labels, '{}'), CASE WHEN name LIKE '%seconds' THEN round(value::numeric / 60) || ' min' ELSE value::text END)
      FROM claims.metrics() WHERE name = ANY (names) ORDER BY name COLLATE "C", labels $$;
CREATE FUNCTION t.pass(n int, kind text, cell bigint, source text, ended interval, counts jsonb, sqlstate text DEFAULT NULL) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO claims.pass_log VALUES (lpad(n::text, 32, '0')::uuid, kind, cell, source, clock_timestamp() - ended - interval '2 min',
          clock_timestamp() - ended, counts, sqlstate, 'x') $$;

-- empty tables: zeros for registered cells, and no ages
SELECT t.metric('claims_leases', 'claims_future_leases', 'claims_oldest_lease_age_seconds', 'claims_tracked_leases',
      'claims_oldest_tracked_lease_age_seconds', 'claims_orphans', 'claims_lease_fences', 'claims_requests', 'claims_expiring_keys', 'claims_mode');
SELECT labels ->> 'protocol', labels ->> 'library' = (SELECT library FROM claims.version()), value FROM claims.metrics() WHERE name = 'claims_info';
-- names and labels are well-formed and unique, and no value is missing
SELECT count(*) FROM claims.metrics() WHERE name !~ '^claims_[a-z_]+$' OR value IS NULL OR labels IS NULL;
SELECT count(*) FROM claims.metrics(), jsonb_each(labels) l WHERE jsonb_typeof(l.value) <> 'string';
SELECT name, labels FROM claims.metrics() GROUP BY 1, 2 HAVING count(*) > 1;

-- leases: number and age, also in the future and of an unregistered cell
SELECT claims.begin_update(1, t.creates('secret-a', 'secret-b'), lease_uuid => t.u(9901)) = t.u(9901),
    claims.begin_update(1, t.creates('secret-c'), lease_uuid => t.u(9902)) = t.u(9902);
UPDATE claims.claim_leases SET created_at = clock_timestamp() - interval '3 hours' WHERE uuid = t.u(9901);
SELECT t.metric('claims_leases', 'claims_future_leases', 'claims_oldest_lease_age_seconds');
UPDATE claims.claim_leases SET created_at = clock_timestamp() + interval '7 days' WHERE uuid = t.u(9901);
INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES (t.u(9903), 99, '{}');
SELECT t.metric('claims_leases', 'claims_future_leases', 'claims_oldest_lease_age_seconds');
DELETE FROM claims.claim_leases WHERE uuid = t.u(9903);
SELECT count(claims.commit_update(1, u)) FROM unnest(ARRAY[t.u(9901), t.u(9902)]) u;
INSERT INTO claims.claim_leases (uuid, creator_id, payload) SELECT gen_random_uuid(), 2, '{}' FROM generate_series(1, 10005);
SELECT t.metric('claims_leases');
DELETE FROM claims.claim_leases;

-- claims are estimated from statistics: none before ANALYZE; frequent and rare cells
DELETE FROM claims.claims;
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
SELECT 1, 'm' || i, 2, '1', 3, i::text, CASE WHEN i % 4 = 0 THEN 2 ELSE 1 END, 1 FROM generate_series(1, 8000) i;
SELECT claims.reserve_names('ROUTES', '{reserved}', 'test');
ANALYZE claims.claims;
SELECT labels ->> 'cell', abs(value - CASE labels ->> 'cell' WHEN '1' THEN 6000 ELSE 2000 END) < 300 FROM claims.metrics()
  WHERE name = 'claims_claims' ORDER BY 1;
SELECT claims.unreserve_names('ROUTES', '{reserved}', 'test');
-- sizes of the tables that grow, and of no others
SELECT string_agg(labels ->> 'table', ', ' ORDER BY labels ->> 'table'), bool_and(value >= 8192) FROM claims.metrics()
  WHERE name = 'claims_table_bytes';
SELECT labels ->> 'table', value FROM claims.metrics() WHERE name = 'claims_table_rows' AND labels ->> 'table' = 'claims';
SELECT t.clean();

-- the clock of the database
SELECT labels, abs(value - extract(epoch FROM clock_timestamp())) < 60 FROM claims.metrics() WHERE name = 'claims_time_seconds';

-- slots for verification that are held now
BEGIN;
INSERT INTO claims.verification_slots VALUES (1, clock_timestamp() + interval '1 min'), (2, clock_timestamp() - interval '1 min');
SELECT t.metric('claims_verification_slots_held');
ROLLBACK;
SELECT t.metric('claims_verification_slots_held');

-- modes other than open
BEGIN; SELECT claims.set_mode('settle_only', 'test'), claims.set_mode('read_only', 'test', 2); SELECT t.metric('claims_mode');
SELECT claims.set_mode('open', 'test'); SELECT t.metric('claims_mode');
SELECT claims.set_mode('open', 'test', 2); SELECT t.metric('claims_mode'); ROLLBACK;

-- transfers by state until they have ended: number, age, and claims still to write
SELECT t.metric('claims_transfers', 'claims_transfer_claims', 'claims_oldest_transfer_age_seconds');
SELECT t.have(1, 'moving-a', 'moving-b', 'moving-c');
UPDATE claims.claims SET subject_id = '9970' WHERE bucket_value LIKE 'moving-%';
SELECT marked FROM claims.prepare_transfer(t.u(9931), 1, 2, '[{"type": "GROUP", "ids": [9970]}]', 'test');
SELECT marked FROM claims.prepare_transfer(t.u(9932), 2, 1, '[{"type": "GROUP", "ids": [9970]}]', 'test');
UPDATE claims.cell_transfers SET created_at = created_at - interval '2 hours' WHERE transfer_uuid = t.u(9931);
SELECT claims.switch_transfer(t.u(9931), 'test');
SELECT t.metric('claims_transfers', 'claims_transfer_claims', 'claims_oldest_transfer_age_seconds');
SELECT moved FROM claims.finish_transfer(t.u(9931));
SELECT released FROM claims.cancel_transfer(t.u(9932), 'test');
SELECT t.metric('claims_transfers', 'claims_transfer_claims', 'claims_oldest_transfer_age_seconds');
DELETE FROM claims.transfer_subjects; DELETE FROM claims.cell_transfers; SELECT t.clean();

-- in a cell: tracked leases, orphans, fences
SELECT claims.register_cell(1, 'regress_claims_one');
INSERT INTO claims.cells_outstanding_leases (uuid, cell_id, created_at) VALUES (t.u(9911), 1, clock_timestamp() - interval '2 hours'),
    (t.u(9912), 1, clock_timestamp()), (t.u(9913), NULL, clock_timestamp() - interval '1 min');
INSERT INTO claims.seen_orphans VALUES (t.u(9911), 1, 'rolled_back', clock_timestamp()), (t.u(9919), 1, NULL, clock_timestamp());
INSERT INTO claims.lease_fences VALUES (t.u(9914), clock_timestamp());
SELECT t.metric('claims_tracked_leases', 'claims_oldest_tracked_lease_age_seconds', 'claims_orphans', 'claims_lease_fences');
DELETE FROM claims.cells_outstanding_leases; DELETE FROM claims.seen_orphans; DELETE FROM claims.lease_fences;

-- passes: the last one, and the last one that did not fail
SELECT t.pass(1, 'reconcile', 1, NULL, '9 min', '{"processed": 7, "orphaned": 1}'),
    t.pass(2, 'reconcile', 1, NULL, '5 min', '{"processed": 3, "orphaned": 0}'),
       t.pass(3, 'reconcile', 1, NULL, '3 min', NULL, '08001'),
       t.pass(4, 'verify', 1, 'RAILS_TABLE_ROUTES', '60 min', '{"missing": 2, "finished": 1}'),
       t.pass(5, 'verify', 1, 'RAILS_TABLE_USERS', '30 min', '{"missing": 0, "finished": 1}'), t.pass(6, 'purge', NULL, NULL, '1 min', NULL, 'XX001');
SELECT t.metric('claims_pass_failed', 'claims_pass_age_seconds', 'claims_pass_duration_seconds', 'claims_pass_count');
-- each service that a cell uses has passes of its own; of the others only the newest counts
INSERT INTO claims.pass_log (id, kind, cell_id, started_at, ended_at, sqlstate, service)
VALUES (lpad('7', 32, '0')::uuid, 'reconcile', 2, clock_timestamp(), clock_timestamp(), NULL, 'first'),
       (lpad('8', 32, '0')::uuid, 'reconcile', 2, clock_timestamp(), clock_timestamp(), '08001', 'second');
SELECT labels ->> 'service', value FROM claims.metrics() WHERE name = 'claims_pass_failed' AND labels ->> 'cell' = '2' ORDER BY 1;
BEGIN; INSERT INTO claims.attended_cells (cell_id, service, by_type) VALUES (2, 'first', true), (2, 'second', true);
SELECT labels ->> 'service', value FROM claims.metrics() WHERE name = 'claims_pass_failed' AND labels ->> 'cell' = '2' ORDER BY 1;
ROLLBACK;
DELETE FROM claims.pass_log;
-- the last 1,000 passes of each kind are kept
INSERT INTO claims.pass_log (id, kind, started_at, ended_at)
SELECT lpad((CASE kind WHEN 'verify' THEN 9000000 ELSE 0 END + n)::text, 32, '0')::uuid, kind, clock_timestamp(), clock_timestamp()
  FROM generate_series(1, 1005) n, unnest('{purge,verify}'::text[]) kind WHERE kind = 'purge' OR n <= 3;
SELECT claims.purge_changes('100 years');
SELECT kind, count(*), min(right(id::text, 7)), count(*) FILTER (WHERE counts IS NOT NULL) AS new FROM claims.pass_log GROUP BY kind ORDER BY kind;
DELETE FROM claims.pass_log;
-- and the last success of each cell, source type and service: however often another one fails, its interval goes on after a restart
INSERT INTO claims.pass_log (id, kind, cell_id, source_type, started_at, ended_at, counts, sqlstate)
SELECT lpad(n::text, 32, '0')::uuid, 'purge', cell, source, clock_timestamp(), clock_timestamp(), counts::jsonb, state
  FROM (VALUES (1, 1, 'A', '{"finished": 1}', NULL), (2, 1, 'A', '{"finished": 1}', NULL), (3, 1, 'A', '{"finished": 0}', NULL),
               (4, 1, 'A', NULL, '55P03'), (5, 1, 'B', '{}', NULL), (6, 2, 'A', NULL, NULL), (7, 3, 'A', NULL, 'XX001'))
       AS r (n, cell, source, counts, state);
INSERT INTO claims.pass_log (id, kind, cell_id, source_type, started_at, ended_at, sqlstate)
SELECT lpad((100 + n)::text, 32, '0')::uuid, 'purge', 4, 'C', clock_timestamp(), clock_timestamp(), '55P03' FROM generate_series(1, 1100) n;
SELECT claims.purge_changes('100 years');
SELECT right(id::text, 3) AS pass, cell_id, source_type, sqlstate FROM claims.pass_log WHERE id < lpad('100', 32, '0')::uuid ORDER BY id;
SELECT count(*), count(*) FILTER (WHERE sqlstate IS NOT NULL) AS failed FROM claims.pass_log WHERE id > lpad('100', 32, '0')::uuid;
DELETE FROM claims.pass_log;

-- the circuit breaker of a service
CREATE SERVER regress_claims_down FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '1', dbname 'x');
CREATE USER MAPPING FOR postgres SERVER regress_claims_down OPTIONS (user 'x', password 'x');
SET claims.breaker_failures = 2; SET claims.breaker_pause = '30 s';
SELECT left(t.call($$SELECT claims.explain_lease(1, 'regress_claims_down', t.u(1))$$), 5) LIMIT 1;
SELECT left(t.call($$SELECT claims.explain_lease(1, 'regress_claims_down', t.u(1))$$), 5) LIMIT 1;
SELECT t.metric('claims_service_breaker', 'claims_service_failures');
-- the service's metrics name the cells that use it, if any
BEGIN; SELECT claims.attend(2, 'regress_claims_down'); SELECT t.metric('claims_service_failures'); ROLLBACK;
BEGIN; DELETE FROM claims.cells; SELECT t.metric('claims_service_failures'); ROLLBACK;
RESET claims.breaker_failures; RESET claims.breaker_pause;
SET client_min_messages = warning; DROP SERVER regress_claims_down CASCADE; RESET client_min_messages;
SELECT t.metric('claims_service_breaker', 'claims_service_failures');

-- requests by queue and status; settled requests are history
SELECT count(claims.enqueue_request('mail', 'e' || i, 'update')) FROM generate_series(1, 5) i;
SELECT claims.enqueue_request('pages', 'e', 'create') > 0;
SELECT count(*) FROM claims.take_requests('mail', t.u(9921), hold_for => '1 minute');
UPDATE claims.requests SET status = 'error', error = 'x', settled_at = clock_timestamp() WHERE queue = 'mail' AND entity = 'e4';
UPDATE claims.requests SET status = 'complete', settled_at = clock_timestamp() WHERE queue = 'mail' AND entity = 'e5';
UPDATE claims.requests SET created_at = clock_timestamp() - interval '4 hours' WHERE entity = 'e3';
SELECT t.metric('claims_requests', 'claims_oldest_request_age_seconds');
DELETE FROM claims.requests;
-- expiring keys by kind; all shared verifications are one kind
SELECT claims.add_expiring('shard', '{a,b,c}'), claims.add_expiring('claims.verify 1', '{1}'), claims.add_expiring('claims.verify 2', '{1}');
SELECT count(*) FROM claims.acquire_expiring('shard', 'me', '1 minute', 2);
SELECT claims.release_expiring('shard', 'me', '{a}');
SELECT t.metric('claims_expiring_keys');
DELETE FROM claims.expiring_claims;

-- the oldest snapshot: no session's here; a prepared transaction has its name
CREATE TABLE t.written (n int);
BEGIN; INSERT INTO t.written VALUES (1); PREPARE TRANSACTION 'regress metrics';
SELECT labels - 'pid', value < 60 FROM claims.metrics() WHERE name = 'claims_oldest_snapshot_age_seconds' AND labels ->> 'holder' LIKE 'prepared%';
SELECT labels ->> 'name', value >= 1 FROM claims.metrics()
  WHERE name = 'claims_oldest_snapshot_transactions' AND labels ->> 'holder' LIKE 'prepared%';
ROLLBACK PREPARED 'regress metrics';
DROP TABLE t.written;

-- counters are missing where the library is not preloaded
SELECT count(*) FROM claims.check();
SELECT count(*) FROM claims.metrics() WHERE name ~ '_total$|_bucket$|_check_';

-- monitoring roles and administrators may call metrics(); no bucket's name is in it
BEGIN;
CREATE ROLE regress_claims_watch;
SELECT claims.grant_monitor('regress_claims_watch');
SELECT t.have(1, 'secret-d');
SELECT claims.begin_update(1, t.creates('secret-e')) IS NOT NULL;
ANALYZE claims.claims;
SET LOCAL SESSION AUTHORIZATION regress_claims_watch;
SELECT count(*) > 10, bool_or(m::text LIKE '%secret%') FROM claims.metrics() m;
SELECT t.call($$SELECT claims.counters()$$);
SELECT t.call($$SELECT claims.note_check(0, 0)$$);
RESET SESSION AUTHORIZATION;
ROLLBACK;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT * FROM claims.metrics()$$);
SET SESSION AUTHORIZATION regress_claims_router;
SELECT t.call($$SELECT * FROM claims.metrics()$$);
RESET SESSION AUTHORIZATION;
BEGIN READ ONLY; SELECT count(*) > 10 FROM claims.metrics(); COMMIT;
SELECT t.clean();
DROP FUNCTION t.metric, t.pass;
