-- Metrics of both sides, named as in OpenMetrics. Their cost is bounded: large numbers are estimated, or counted up to 10,000.

CREATE OR REPLACE FUNCTION claims.metrics() RETURNS TABLE (name text, labels jsonb, value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    -- A plan made while a table is empty must not read the whole table later. In look-ups of one row by another, OFFSET 0 prevents
    -- other joins than by the index.
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := clock_timestamp();
    here oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
BEGIN
    PERFORM claims.require_own_tables();
    IF (SELECT v.distributed FROM claims.version() v) THEN
        RETURN QUERY SELECT d.name, d.labels, d.value FROM claims.distributed_metrics() d;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'claims_info', jsonb_build_object('library', v.library, 'extension', v.extension, 'protocol', v.protocol::text, 'unicode', v.unicode),
           1.0::float8
      FROM claims.version() v;
    -- An exporter that repeats old values repeats this one, too.
    RETURN QUERY SELECT 'claims_time_seconds', '{}'::jsonb, extract(epoch FROM now)::float8;

    -- At the service: leases by cell, also of cells that are not registered. The age is 0 if there are none.
    RETURN QUERY
    WITH RECURSIVE hop AS (
        (SELECT l.creator_id FROM claims.claim_leases l ORDER BY l.creator_id, l.created_at LIMIT 1)
        UNION ALL
        SELECT (SELECT l.creator_id FROM claims.claim_leases l WHERE l.creator_id > hop.creator_id ORDER BY l.creator_id, l.created_at LIMIT 1)
          FROM hop WHERE hop.creator_id IS NOT NULL),
    cell AS MATERIALIZED (
        SELECT c.cell_id FROM claims.cells c UNION SELECT hop.creator_id FROM hop WHERE hop.creator_id IS NOT NULL),
    found AS MATERIALIZED (
        SELECT c.cell_id, l.leases, l.oldest, f.future
          FROM cell c
         CROSS JOIN LATERAL (SELECT count(*) AS leases, min(o.created_at) AS oldest
                               FROM (SELECT l.created_at FROM claims.claim_leases l WHERE l.creator_id = c.cell_id
                                      ORDER BY l.creator_id, l.created_at LIMIT 10000) o) l
         CROSS JOIN LATERAL (SELECT count(*) AS future
                               FROM (SELECT FROM claims.claim_leases l
                                      WHERE l.creator_id = c.cell_id AND l.created_at > now + interval '1 minute' LIMIT 10000) n) f)
    SELECT m.name, jsonb_build_object('cell', f.cell_id::text), m.value::float8
      FROM found f
     CROSS JOIN LATERAL (VALUES ('claims_leases', f.leases), ('claims_future_leases', f.future),
                                ('claims_oldest_lease_age_seconds', greatest(extract(epoch FROM now - f.oldest), 0))) AS m (name, value)
     WHERE m.value IS NOT NULL;

    -- Claims by cell, estimated as the planner does: no row before the first ANALYZE.
    RETURN QUERY
    WITH size AS MATERIALIZED (
        SELECT CASE WHEN c.relpages > 0 THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::float8)
               ELSE c.reltuples END AS rows
          FROM pg_class c WHERE c.oid = 'claims.claims'::regclass AND c.reltuples >= 0),
    stats AS MATERIALIZED (
        SELECT s.rows, coalesce(p.most_common_vals::text::bigint[], '{}') AS common, coalesce(p.most_common_freqs, '{}') AS shares,
               CASE WHEN p.n_distinct < 0 THEN -p.n_distinct * s.rows ELSE p.n_distinct END AS cells
          FROM size s JOIN pg_stats p ON p.schemaname = 'claims' AND p.tablename = 'claims' AND p.attname = 'creator_id' AND NOT p.inherited)
    SELECT 'claims_claims', jsonb_build_object('cell', c.cell_id::text),
           round(s.rows * coalesce(s.shares[array_position(s.common, c.cell_id)],
                 -- Cells that are not common values share the remainder equally.
                 CASE WHEN s.cells > cardinality(s.common)
                      THEN greatest(1 - (SELECT coalesce(sum(f.f), 0) FROM unnest(s.shares) AS f (f)), 0) / (s.cells - cardinality(s.common))
                      ELSE 0 END))::float8
      FROM stats s CROSS JOIN claims.cells c;

    -- Names that are kept back, counted up to 100,000: they are side by side in the index by owner.
    RETURN QUERY
    WITH kept AS MATERIALIZED (
        SELECT k.bucket_type, count(*) AS names
          FROM (SELECT c.bucket_type FROM claims.claims c
                 WHERE c.creator_id = -1 AND c.status IN (5, 6) AND c.available_at > now LIMIT 100000) k
         GROUP BY k.bucket_type)
    SELECT 'claims_quarantined_names', jsonb_build_object('type', t.name), coalesce(k.names, 0)::float8
      FROM claims.bucket_types t LEFT JOIN kept k ON k.bucket_type = t.id
     WHERE t.keep_for > '0' OR k.names > 0;

    -- Counters in shared memory.
    RETURN QUERY SELECT c.name, c.labels, c.value FROM claims.counters() c;

    RETURN QUERY
    SELECT 'claims_mode', jsonb_strip_nulls(jsonb_build_object('cell', nullif(m.cell_id, -1)::text, 'mode', m.mode)), 1::float8
      FROM claims.mode_settings m WHERE m.mode <> 'open';

    -- Transfers that have not ended, by state. The age is 0 if there are none.
    RETURN QUERY
    SELECT m.name, jsonb_build_object('state', s.state), m.value::float8
      FROM (VALUES ('preparing'), ('prepared'), ('switched'), ('finishing')) AS s (state)
     CROSS JOIN LATERAL (SELECT count(*) AS transfers, coalesce(sum(t.held), 0) AS held, min(t.created_at) AS oldest
                           FROM claims.cell_transfers t WHERE t.ended_at IS NULL AND t.state = s.state) f
     CROSS JOIN LATERAL (VALUES ('claims_transfers', f.transfers), ('claims_transfer_claims', f.held),
                                ('claims_oldest_transfer_age_seconds', greatest(extract(epoch FROM now - f.oldest), 0))) AS m (name, value);

    -- Id spaces: the ids that no block has reserved. bigint's largest difference exceeds a bigint.
    RETURN QUERY
    SELECT m.name, jsonb_build_object('id_space', s.name), m.value::float8
      FROM claims.id_spaces s
     CROSS JOIN LATERAL (VALUES ('claims_id_space_size', s.last_id::numeric - s.first_id + 1),
                                ('claims_id_space_left', greatest(s.last_id::numeric - s.next_id + 1, 0))) AS m (name, value);

    -- The cells that verify at this service now.
    RETURN QUERY SELECT 'claims_verification_slots_held', '{}'::jsonb, count(*)::float8 FROM claims.verification_slots s WHERE s.held_until > now;

    -- Tables that grow.
    RETURN QUERY
    SELECT m.name, jsonb_build_object('table', t.relname), m.value::float8
      FROM (SELECT c.relname, sum(p.reltuples) FILTER (WHERE p.reltuples >= 0) AS rows, sum(pg_total_relation_size(p.oid)) AS bytes
              FROM pg_class c
              LEFT JOIN LATERAL pg_partition_tree(c.oid) part ON part.isleaf
              JOIN pg_class p ON p.oid = coalesce(part.relid, c.oid)
             WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'p')
               AND c.relname IN ('claims', 'claim_leases', 'lease_outcomes', 'change_sets', 'cells_outstanding_leases', 'requests',
                                 'expiring_claims', 'pass_log', 'admin_log', 'audit_log')
             GROUP BY c.relname) t
     CROSS JOIN LATERAL (VALUES ('claims_table_bytes', t.bytes), ('claims_table_rows', t.rows)) AS m (name, value)
     WHERE m.value IS NOT NULL;

    -- The holders of old snapshots, which keep dead rows of this database from being removed, and so make reading slower. Only a
    -- superuser or a member of pg_read_all_stats sees other sessions; the extension's owner should be one.
    RETURN QUERY
    WITH holders AS (
        SELECT 'session' AS holder, a.pid::text AS pid, a.usename::text AS usename, nullif(a.application_name, '') AS name, a.xact_start AS since,
               greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions
          FROM pg_stat_activity a
         WHERE a.pid <> pg_backend_pid() AND (a.datid = here OR a.datid IS NULL) AND coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL
           AND a.backend_type <> 'autovacuum worker'
        UNION ALL
        SELECT 'prepared transaction', NULL, p.owner::text, p.gid, p.prepared, age(p.transaction) FROM pg_prepared_xacts p
         WHERE p.database = current_database()
        UNION ALL
        SELECT 'replication slot', s.active_pid::text, NULL, s.slot_name::text, NULL, age(s.xmin) FROM pg_replication_slots s
         WHERE s.xmin IS NOT NULL),
    oldest AS (
        SELECT jsonb_strip_nulls(jsonb_build_object('holder', h.holder, 'pid', h.pid, 'usename', h.usename, 'name', h.name)) AS labels,
               h.since, h.transactions
          FROM holders h ORDER BY h.transactions DESC, h.since LIMIT 1)
    SELECT m.name, o.labels, m.value::float8
      FROM oldest o
     CROSS JOIN LATERAL (VALUES ('claims_oldest_snapshot_transactions', o.transactions::numeric),
                                ('claims_oldest_snapshot_age_seconds',
                                    CASE WHEN o.since IS NOT NULL THEN greatest(extract(epoch FROM now - o.since), 0) END)) AS m (name, value)
     WHERE m.value IS NOT NULL;

    RETURN QUERY
    SELECT 'claims_change_feed_held_seconds',
           jsonb_strip_nulls(jsonb_build_object('holder', f.holder, 'pid', f.pid::text, 'usename', f.usename, 'name', f.name, 'cell', f.cell_id::text)),
           greatest(extract(epoch FROM now - f.since), 0)::float8
      FROM claims.feed_holder() f;

    -- In a cell.
    RETURN QUERY
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object('cell', t.cell_id::text, 'service', t.service)), m.value::float8
      FROM (SELECT l.cell_id, l.service, count(l.uuid) AS leases, min(l.created_at) AS oldest
              FROM (SELECT l.cell_id, l.service, l.uuid, l.created_at FROM claims.cells_outstanding_leases l
                    UNION ALL SELECT c.cell_id, NULL, NULL, NULL FROM claims.cells c) l GROUP BY l.cell_id, l.service) t
     CROSS JOIN LATERAL (VALUES ('claims_tracked_leases', t.leases),
                                ('claims_oldest_tracked_lease_age_seconds', greatest(extract(epoch FROM now - t.oldest), 0))) AS m (name, value)
     WHERE m.value IS NOT NULL;

    RETURN QUERY
    SELECT 'claims_orphans', jsonb_strip_nulls(jsonb_build_object('cell', c.cell_id::text, 'service', c.service)), count(t.uuid)::float8
      FROM (SELECT c.cell_id, NULL AS service, NULL::uuid AS lease_uuid FROM claims.cells c
            UNION ALL SELECT o.cell_id, o.service, o.lease_uuid FROM claims.seen_orphans o) c
      LEFT JOIN LATERAL (SELECT t.uuid FROM claims.cells_outstanding_leases t WHERE t.uuid = c.lease_uuid OFFSET 0) t ON true
     GROUP BY c.cell_id, c.service;
    RETURN QUERY SELECT 'claims_lease_fences', '{}'::jsonb, count(*)::float8 FROM (SELECT FROM claims.lease_fences LIMIT 10000) f;

    RETURN QUERY
    SELECT 'claims_observations_total', jsonb_build_object('table', o.table_name::text, 'attribute', o.attribute::text, 'outcome', o.outcome),
           sum(o.count)::float8
      FROM claims.observed o GROUP BY o.table_name, o.attribute, o.outcome;

    -- Sequences that draw from ranges: the ids left in their ranges. A sequence whose last value the extension's owner may not read, or
    -- that a standby does not have, has no row.
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT s.sequence_name AS sequence, s.id_space, s.low_water, s.cell_id, s.id_range, s.next_range, q.seqincrement, q.seqmin, c.relpersistence
          FROM claims.id_sequences s
         CROSS JOIN LATERAL (SELECT q.seqincrement, q.seqmin FROM pg_sequence q WHERE q.seqrelid = s.sequence_name OFFSET 0) q
         CROSS JOIN LATERAL (SELECT c.relpersistence FROM pg_class c WHERE c.oid = s.sequence_name OFFSET 0) c),
    -- Only a sequence has such privileges; pg_sequence has made sure of that.
    readable AS MATERIALIZED (
        SELECT * FROM known k
         WHERE has_sequence_privilege(k.sequence, 'USAGE, SELECT') AND (k.relpersistence = 'p' OR NOT pg_is_in_recovery())),
    counted AS MATERIALIZED (
        SELECT r.*, greatest(r.seqincrement, 1)::numeric AS step,
               coalesce(pg_sequence_last_value(r.sequence)::numeric, r.seqmin::numeric - r.seqincrement) AS last_value
          FROM readable r)
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object('cell', c.cell_id::text, 'sequence', c.sequence::text, 'id_space', c.id_space)), m.value::float8
      FROM counted c
     CROSS JOIN LATERAL (VALUES
         ('claims_ids_left', greatest(div(upper(c.id_range)::numeric - 1 - c.last_value, c.step), 0)
                             + coalesce(div(upper(c.next_range)::numeric - lower(c.next_range), c.step), 0)),
         ('claims_ids_low_water', c.low_water::numeric)) AS m (name, value);

    -- For each kind of pass: whether the last one failed; and time and counts of the last one that did not. Of services that the cell does not
    -- use any more, only the newest pass counts.
    RETURN QUERY
    WITH used AS MATERIALIZED (
        SELECT a.cell_id, a.service FROM claims.attended_cells a UNION SELECT a.cell_id, a.service FROM claims.automatic_service a
        UNION SELECT t.cell_id, t.service FROM claims.automatic_types t),
    logged AS MATERIALIZED (
        SELECT p.kind, p.cell_id, p.source_type, p.service, max(p.id::text) AS last,
               max(p.id::text) FILTER (WHERE p.sqlstate IS NULL) AS last_good
          FROM claims.pass_log p GROUP BY p.kind, p.cell_id, p.source_type, p.service),
    pass AS MATERIALIZED (
        SELECT p.*, max(p.last) OVER (PARTITION BY p.kind, p.cell_id, p.source_type) AS newest FROM logged p),
    good AS MATERIALIZED (
        SELECT jsonb_strip_nulls(jsonb_build_object('kind', p.kind, 'cell', p.cell_id::text, 'source_type', p.source_type,
                   'service', p.service)) AS labels,
               p.last IS DISTINCT FROM p.last_good AS failed, l.ended_at, l.started_at, l.counts,
               coalesce(f.sqlstate = '55000' AND f.message LIKE 'another database acts as cell%', false) AS is_another
          FROM pass p
          LEFT JOIN LATERAL (SELECT f.sqlstate, f.message FROM claims.pass_log f WHERE f.id = p.last::uuid OFFSET 0) f ON true
          LEFT JOIN LATERAL (SELECT l.ended_at, l.started_at, l.counts FROM claims.pass_log l WHERE l.id = p.last_good::uuid OFFSET 0) l ON true
         WHERE p.last = p.newest OR EXISTS (SELECT FROM used u WHERE u.cell_id = p.cell_id AND u.service = p.service))
    SELECT 'claims_pass_failed', g.labels, g.failed::int::float8 FROM good g
    UNION ALL
    SELECT 'claims_another_database_acts', g.labels - 'kind', g.is_another::int::float8 FROM good g WHERE g.labels ->> 'kind' = 'reconcile'
    UNION ALL
    SELECT 'claims_pass_age_seconds', g.labels, greatest(extract(epoch FROM now - g.ended_at), 0)::float8 FROM good g WHERE g.ended_at IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_duration_seconds', g.labels, greatest(extract(epoch FROM g.ended_at - g.started_at), 0)::float8 FROM good g
     WHERE g.ended_at IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_count', g.labels || jsonb_build_object('count', c.key), c.value::float8
      FROM good g CROSS JOIN LATERAL jsonb_each_text(g.counts) c WHERE jsonb_typeof(g.counts -> c.key) = 'number';

    -- A breaker belongs to the cells that use its service; if none is known, to all cells of this database.
    RETURN QUERY
    WITH used AS MATERIALIZED (
        SELECT a.cell_id, a.service FROM claims.attended_cells a UNION SELECT a.cell_id, a.service FROM claims.automatic_service a
        UNION SELECT t.cell_id, t.service FROM claims.automatic_types t)
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object('cell', c.cell_id::text, 'service', s.service, 'state', m.state)), m.value
      FROM claims.service_states() s
      LEFT JOIN LATERAL (SELECT u.cell_id FROM used u WHERE u.service = s.service
                         UNION ALL
                         SELECT c.cell_id FROM claims.cells c WHERE NOT EXISTS (SELECT FROM used u WHERE u.service = s.service)) c ON true
     CROSS JOIN LATERAL (VALUES ('claims_service_breaker', 'closed', (s.breaker = 'closed')::int::float8),
                                ('claims_service_breaker', 'open', (s.breaker = 'open')::int::float8),
                                ('claims_service_breaker', 'trying', (s.breaker = 'trying')::int::float8),
                                ('claims_service_failures', NULL, s.failures::float8)) AS m (name, state, value);

    -- The calls and connections of this server's sessions, if the library is preloaded.
    RETURN QUERY
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object('service', s.service, 'state', m.state)), m.value::float8
      FROM claims.service_calls() s
     CROSS JOIN LATERAL (VALUES ('claims_service_calls', 'calling', s.calling), ('claims_service_calls', 'waiting', s.waiting),
                                ('claims_service_calls', 'waiting_for_place', s.waiting_for_place),
                                ('claims_service_connections', NULL, s.connections),
                                ('claims_service_connections_refused_total', NULL, s.refused_connections),
                                ('claims_service_calls_failed_total', NULL, s.failed_calls)) AS m (name, state, value);

    -- Requests that are not complete, by queue. Complete ones are not counted.
    RETURN QUERY
    WITH RECURSIVE open AS (
        (SELECT r.queue FROM claims.requests r WHERE r.status IN ('new', 'in-progress') ORDER BY r.queue, r.entity, r.id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.queue FROM claims.requests r WHERE r.status IN ('new', 'in-progress') AND r.queue > open.queue
                 ORDER BY r.queue, r.entity, r.id LIMIT 1)
          FROM open WHERE open.queue IS NOT NULL),
    failed AS (
        (SELECT r.queue FROM claims.requests r WHERE r.status = 'error' ORDER BY r.queue, r.entity, r.id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.queue FROM claims.requests r WHERE r.status = 'error' AND r.queue > failed.queue ORDER BY r.queue, r.entity, r.id LIMIT 1)
          FROM failed WHERE failed.queue IS NOT NULL),
    queue AS MATERIALIZED (
        SELECT o.queue FROM open o WHERE o.queue IS NOT NULL UNION SELECT f.queue FROM failed f WHERE f.queue IS NOT NULL),
    found AS MATERIALIZED (
        SELECT q.queue, s.status, count(r.created_at) AS requests, min(r.created_at) AS oldest
          FROM queue q CROSS JOIN (VALUES ('new'), ('in-progress'), ('error')) AS s (status)
          LEFT JOIN LATERAL (
              (SELECT r.created_at, r.status FROM claims.requests r
                WHERE s.status <> 'error' AND r.queue = q.queue AND r.status IN ('new', 'in-progress') AND r.status = s.status LIMIT 10000)
              UNION ALL
              (SELECT r.created_at, r.status FROM claims.requests r
                WHERE s.status = 'error' AND r.queue = q.queue AND r.status = 'error' LIMIT 10000)) r ON true
         GROUP BY q.queue, s.status)
    SELECT m.name, jsonb_build_object('queue', f.queue, 'status', f.status), m.value::float8
      FROM found f
     CROSS JOIN LATERAL (VALUES ('claims_requests', f.requests::numeric),
                                ('claims_oldest_request_age_seconds', greatest(extract(epoch FROM now - f.oldest), 0))) AS m (name, value)
     WHERE m.value IS NOT NULL;

    -- Each shared verification has a kind of its own: they are counted together.
    RETURN QUERY
    SELECT 'claims_expiring_keys', jsonb_build_object('kind', k.kind, 'state', s.state), s.keys::float8
      FROM (SELECT CASE WHEN e.kind LIKE 'claims.verify %' THEN 'claims.verify' ELSE e.kind END AS kind,
                   count(*) FILTER (WHERE e.expires_at > now) AS held, count(*) AS keys
              FROM claims.expiring_claims e GROUP BY 1) k
     CROSS JOIN LATERAL (VALUES ('held', k.held), ('free', k.keys - k.held)) AS s (state, keys);
END $$;
COMMENT ON FUNCTION claims.metrics() IS
    'Metrics of this database, the shared one or a cell''s: names and units as in OpenMetrics, one row for each value. Claims are estimated from '
    'statistics, leases and requests counted up to 10,000 a cell or queue. Counters (begins, commits, rollbacks, conflicts, durations, the last '
    'check()) exist if the library is preloaded, and start with the server. No bucket values, no payloads. On distributed tables the metrics of '
    'all nodes. For administrators and monitoring roles. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.service_calls() IS
    'Internal: the part of claims.metrics() about calls of services and connections to them. Locks nothing.';
COMMENT ON FUNCTION claims.counters() IS 'Internal: the part of claims.metrics() that is kept in shared memory. Locks nothing.';
COMMENT ON FUNCTION claims.note_check(bigint, bigint) IS
    'Internal: stores in shared memory that claims.check() has ended, how many violations it found, and how many rows are dated in the future.';
INSERT INTO claims.audiences (function_name, audience) VALUES ('metrics', 'monitor') ON CONFLICT DO NOTHING;
