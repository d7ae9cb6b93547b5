-- metrics() for distributed tables: each node returns its own values, and one node combines them.

-- Values that are added up have the names of claims.metrics(); values that are not a metric by themselves have names that begin with
-- a minus.
CREATE OR REPLACE FUNCTION claims.node_metrics(asking_node int, asking_pid int) RETURNS TABLE (name text, labels jsonb, value double precision)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET max_parallel_workers_per_gather = 0
    -- Shards are in the catalogs.
    SET citus.override_table_visibility = off
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := clock_timestamp();
    here oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    asks_itself boolean;
    shards text := 'SELECT to_regclass(format(''claims.%I'', c.relname || ''_'' || s.shardid)) AS shard, c.relname FROM pg_dist_shard s
                      JOIN pg_class c ON c.oid = s.logicalrelid JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_local_group g USING (groupid)
                     WHERE c.relnamespace = ''claims''::regnamespace AND c.relname = ANY ($1)';
    shard regclass;
    cells bigint[];
BEGIN
    PERFORM claims.require_own_tables();
    cells := ARRAY(SELECT c.cell_id FROM claims.cells c);
    EXECUTE 'SELECT g.groupid = $1 FROM pg_dist_local_group g' INTO asks_itself USING asking_node;

    FOR shard IN EXECUTE shards USING '{claim_leases}'::text[] LOOP
        RETURN QUERY EXECUTE format($query$
        WITH RECURSIVE hop AS (
            (SELECT l.creator_id FROM %1$s l ORDER BY l.creator_id, l.created_at LIMIT 1)
            UNION ALL
            SELECT (SELECT l.creator_id FROM %1$s l WHERE l.creator_id > hop.creator_id ORDER BY l.creator_id, l.created_at LIMIT 1)
              FROM hop WHERE hop.creator_id IS NOT NULL)
        SELECT m.name, jsonb_build_object('cell', h.creator_id::text), m.value::float8
          FROM hop h
         CROSS JOIN LATERAL (SELECT count(*) AS leases, min(o.created_at) AS oldest
                               FROM (SELECT l.created_at FROM %1$s l WHERE l.creator_id = h.creator_id
                                      ORDER BY l.creator_id, l.created_at LIMIT 10000) o) l
         CROSS JOIN LATERAL (SELECT count(*) AS future
                               FROM (SELECT FROM %1$s l
                                      WHERE l.creator_id = h.creator_id AND l.created_at > $1 + interval '1 minute' LIMIT 10000) n) f
         CROSS JOIN LATERAL (VALUES ('claims_leases', l.leases), ('claims_future_leases', f.future),
                                    ('claims_oldest_lease_age_seconds', greatest(extract(epoch FROM $1 - l.oldest), 0))) AS m (name, value)
         WHERE h.creator_id IS NOT NULL $query$, shard) USING now;
    END LOOP;

    -- Estimated as the planner does. Cells that are not common values in a shard share the remainder equally.
    FOR shard IN EXECUTE shards USING '{claims}'::text[] LOOP
        RETURN QUERY
        WITH size AS MATERIALIZED (
            SELECT CASE WHEN c.relpages > 0 THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::float8)
                   ELSE c.reltuples END AS rows
              FROM pg_class c WHERE c.oid = shard AND c.reltuples >= 0),
        stats AS MATERIALIZED (
            SELECT s.rows, coalesce(p.most_common_vals::text::bigint[], '{}') AS common, coalesce(p.most_common_freqs, '{}') AS shares
              FROM size s LEFT JOIN (SELECT p.most_common_vals, p.most_common_freqs
                                       FROM pg_stats p JOIN pg_class c ON c.oid = shard AND c.relname = p.tablename
                                      WHERE p.schemaname = 'claims' AND p.attname = 'creator_id' AND NOT p.inherited) p ON true),
        rest AS MATERIALIZED (
            SELECT greatest(1 - (SELECT coalesce(sum(f.f), 0) FROM unnest(s.shares) AS f (f)), 0)
                   / nullif((SELECT count(*) FROM unnest(cells) AS c (cell_id) WHERE c.cell_id <> ALL (s.common)), 0) AS share
              FROM stats s)
        SELECT 'claims_claims', jsonb_build_object('cell', c.cell_id::text),
               (s.rows * coalesce(s.shares[array_position(s.common, c.cell_id)], r.share, 0))::float8
          FROM stats s CROSS JOIN rest r CROSS JOIN unnest(cells) AS c (cell_id);
    END LOOP;

    -- Names that are kept back, counted up to 100,000 in each shard.
    FOR shard IN EXECUTE shards USING '{claims}'::text[] LOOP
        RETURN QUERY EXECUTE format($query$
        SELECT 'claims_quarantined_names', jsonb_build_object('type', t.name), count(k.bucket_type)::float8
          FROM claims.bucket_types t
          LEFT JOIN (SELECT c.bucket_type FROM %s c WHERE c.creator_id = -1 AND c.status IN (5, 6) AND c.available_at > $1 LIMIT 100000) k
            ON k.bucket_type = t.id
         GROUP BY t.name, t.keep_for HAVING t.keep_for > '0' OR count(k.bucket_type) > 0 $query$, shard) USING now;
    END LOOP;

    RETURN QUERY SELECT c.name, c.labels, c.value FROM claims.counters() c;

    RETURN QUERY EXECUTE format($query$
    SELECT m.name, jsonb_build_object('table', t.relname), sum(m.value)::float8
      FROM (SELECT s.relname, s.shard FROM (%s) s
            UNION ALL
            SELECT c.relname, c.oid FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace AND c.relname IN ('pass_log', 'admin_log')) t
      JOIN pg_class c ON c.oid = t.shard
     CROSS JOIN LATERAL (VALUES ('claims_table_bytes', pg_total_relation_size(c.oid)::float8),
                                ('claims_table_rows', CASE WHEN c.reltuples >= 0 THEN c.reltuples::float8 END)) AS m (name, value)
     WHERE m.value IS NOT NULL
     GROUP BY m.name, t.relname $query$, shards) USING '{claims,claim_leases,lease_outcomes,change_sets}'::text[];

    -- The oldest snapshot of this node. The session that asks does not count.
    RETURN QUERY
    WITH holders AS (
        SELECT 'session' AS holder, a.pid::text AS pid, a.usename::text AS usename, nullif(a.application_name, '') AS name, a.xact_start AS since,
               greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions
          FROM pg_stat_activity a
         WHERE a.pid <> pg_backend_pid() AND NOT (asks_itself AND a.pid = asking_pid)
           AND (a.datid = here OR a.datid IS NULL) AND coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL AND a.backend_type <> 'autovacuum worker'
        UNION ALL
        SELECT 'prepared transaction', NULL, p.owner::text, p.gid, p.prepared, age(p.transaction) FROM pg_prepared_xacts p
         WHERE p.database = current_database()
        UNION ALL
        SELECT 'replication slot', s.active_pid::text, NULL, s.slot_name::text, NULL, age(s.xmin) FROM pg_replication_slots s
         WHERE s.xmin IS NOT NULL)
    (SELECT '-oldest snapshot', jsonb_build_object('holder', h.holder, 'pid', h.pid, 'usename', h.usename, 'name', h.name,
                                                 'transactions', h.transactions),
            greatest(extract(epoch FROM now - h.since), 0)::float8
       FROM holders h ORDER BY h.transactions DESC, h.since LIMIT 1);

    RETURN QUERY
    SELECT '-pass', jsonb_build_object('kind', p.kind, 'cell', p.cell_id::text, 'source_type', p.source_type, 'last', p.last,
                                       'last_good', p.last_good,
                                       'age', greatest(extract(epoch FROM now - l.ended_at), 0),
                                       'took', greatest(extract(epoch FROM l.ended_at - l.started_at), 0),
                                       'counts', l.counts), NULL::float8
      FROM (SELECT p.kind, p.cell_id, p.source_type, max(p.id::text) AS last, max(p.id::text) FILTER (WHERE p.sqlstate IS NULL) AS last_good
              FROM claims.pass_log p GROUP BY p.kind, p.cell_id, p.source_type) p
      LEFT JOIN LATERAL (SELECT l.ended_at, l.started_at, l.counts FROM claims.pass_log l WHERE l.id = p.last_good::uuid OFFSET 0) l ON true;
END $$;
COMMENT ON FUNCTION claims.node_metrics(int, int) IS
    'Internal: the values of one node of a Citus cluster, for claims.metrics() on any node. Locks nothing.';

CREATE OR REPLACE FUNCTION claims.distributed_metrics() RETURNS TABLE (name text, labels jsonb, value double precision)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    -- A node that is down must not delay the answers of the others.
    SET citus.node_connection_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
    answers jsonb;
    cells bigint[];
    transfers jsonb;
BEGIN
    cells := ARRAY(SELECT c.cell_id FROM claims.cells c ORDER BY c.cell_id);
    SELECT coalesce(jsonb_object_agg(t.state, jsonb_build_object('transfers', t.transfers, 'held', t.held, 'age', t.age)), '{}') INTO transfers
      FROM (SELECT t.state, count(*) AS transfers, sum(t.held) AS held, greatest(extract(epoch FROM clock_timestamp() - min(t.created_at)), 0) AS age
              FROM claims.cell_transfers t WHERE t.ended_at IS NULL GROUP BY t.state) t;
    EXECUTE $query$
    SELECT coalesce(jsonb_agg(jsonb_build_object('node', format('%s:%s', n.nodename, n.nodeport), 'is_up', r.success, 'samples',
           CASE WHEN r.success THEN coalesce(r.result::jsonb, '[]') ELSE '[]' END)), '[]')
      FROM run_command_on_all_nodes(format('SELECT jsonb_agg(m) FROM claims.node_metrics(%s, %s) m',
                                           (SELECT g.groupid FROM pg_dist_local_group g), pg_backend_pid())) r
      JOIN pg_dist_node n ON n.nodeid = r.nodeid $query$ INTO answers;

    RETURN QUERY
    SELECT 'claims_info', jsonb_build_object('library', v.library, 'extension', v.extension, 'protocol', v.protocol::text, 'unicode', v.unicode),
           1.0::float8
      FROM claims.version() v;
    RETURN QUERY SELECT 'claims_time_seconds', '{}'::jsonb, extract(epoch FROM clock_timestamp())::float8;
    RETURN QUERY
    SELECT 'claims_mode', jsonb_strip_nulls(jsonb_build_object('cell', nullif(m.cell_id, -1)::text, 'mode', m.mode)), 1::float8
      FROM claims.mode_settings m WHERE m.mode <> 'open';
    RETURN QUERY
    SELECT m.name, jsonb_build_object('state', s.state), coalesce((transfers -> s.state ->> m.field)::float8, 0)
      FROM (VALUES ('preparing'), ('prepared'), ('switched'), ('finishing')) AS s (state)
     CROSS JOIN (VALUES ('claims_transfers', 'transfers'), ('claims_transfer_claims', 'held'), ('claims_oldest_transfer_age_seconds', 'age'))
         AS m (name, field);
    RETURN QUERY
    SELECT 'claims_node_up', jsonb_build_object('node', a.node), a.is_up::int::float8
      FROM jsonb_to_recordset(answers) AS a (node text, is_up boolean);

    RETURN QUERY
    WITH sample AS MATERIALIZED (
        SELECT a.node, s.name, s.labels, s.value
          FROM jsonb_to_recordset(answers) AS a (node text, samples jsonb)
         CROSS JOIN LATERAL jsonb_to_recordset(a.samples) AS s (name text, labels jsonb, value float8)),
    -- Registered cells without leases have the value 0.
    given AS MATERIALIZED (
        SELECT s.name, s.labels, s.value FROM sample s
        UNION ALL
        SELECT m.name, jsonb_build_object('cell', c.cell_id::text), 0
          FROM unnest(cells) AS c (cell_id) CROSS JOIN (VALUES ('claims_leases'), ('claims_future_leases'), ('claims_oldest_lease_age_seconds'))
              AS m (name)),
    snapshot AS MATERIALIZED (
        SELECT jsonb_strip_nulls(s.labels - 'transactions' || jsonb_build_object('node', s.node)) AS labels,
               (s.labels ->> 'transactions')::float8 AS transactions, s.value AS age
          FROM sample s WHERE s.name = '-oldest snapshot' ORDER BY s.value DESC NULLS LAST, (s.labels ->> 'transactions')::bigint DESC LIMIT 1),
    pass AS MATERIALIZED (
        SELECT jsonb_strip_nulls(s.labels - '{last,last_good,age,took,counts}'::text[]) AS labels, s.labels AS last,
               -- Ids are in the order in which passes ended, on all nodes.
               row_number() OVER (PARTITION BY s.labels - '{last,last_good,age,took,counts}'::text[]
                   ORDER BY s.labels ->> 'last_good' DESC NULLS LAST) AS nth,
               max(s.labels ->> 'last') OVER (PARTITION BY s.labels - '{last,last_good,age,took,counts}'::text[]) AS last_of_all
          FROM sample s WHERE s.name = '-pass'),
    good AS MATERIALIZED (SELECT p.labels, p.last, p.last_of_all IS DISTINCT FROM p.last ->> 'last_good' AS failed FROM pass p WHERE p.nth = 1)
    SELECT g.name, g.labels, CASE g.name WHEN 'claims_oldest_lease_age_seconds' THEN max(g.value)
           WHEN 'claims_claims' THEN round(sum(g.value)) ELSE sum(g.value) END
      FROM given g
     WHERE g.name NOT LIKE '-%' AND g.name NOT LIKE 'claims_check_%'
     GROUP BY g.name, g.labels
    UNION ALL
    -- The last check() on any node.
    SELECT c.name, c.labels, c.value
      FROM sample c
     WHERE c.name LIKE 'claims_check_%'
       AND c.node = (SELECT a.node FROM sample a WHERE a.name = 'claims_check_age_seconds' ORDER BY a.value LIMIT 1)
    UNION ALL
    SELECT 'claims_oldest_snapshot_transactions', s.labels, s.transactions FROM snapshot s
    UNION ALL
    SELECT 'claims_oldest_snapshot_age_seconds', s.labels, s.age FROM snapshot s WHERE s.age IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_failed', g.labels, g.failed::int FROM good g
    UNION ALL
    SELECT 'claims_pass_age_seconds', g.labels, (g.last ->> 'age')::float8 FROM good g WHERE g.last ->> 'age' IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_duration_seconds', g.labels, (g.last ->> 'took')::float8 FROM good g WHERE g.last ->> 'took' IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_count', g.labels || jsonb_build_object('count', c.key), c.value::float8
      FROM good g CROSS JOIN LATERAL jsonb_each_text(g.last -> 'counts') c
     WHERE jsonb_typeof(g.last -> 'counts') = 'object' AND jsonb_typeof(g.last -> 'counts' -> c.key) = 'number';
END $$;
COMMENT ON FUNCTION claims.distributed_metrics() IS
    'Internal: claims.metrics() on distributed tables. Nodes that do not answer are left out, and counted as down. Locks nothing.';
