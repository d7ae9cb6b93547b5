-- Who holds back the change feed, for claims.metrics() and claims.check().

CREATE OR REPLACE FUNCTION claims.feed_holder()
    RETURNS TABLE (holder text, pid int, usename name, name text, cell_id bigint, since timestamptz)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    WITH holders AS (
        SELECT 'session' AS holder, a.pid, a.usename, nullif(a.application_name, '') AS name, a.xact_start AS since, age(a.backend_xid) AS transactions
          FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()
        UNION ALL
        SELECT 'prepared transaction', NULL, p.owner, p.gid, p.prepared, age(p.transaction) FROM pg_prepared_xacts p),
    oldest AS (SELECT h.* FROM holders h ORDER BY h.transactions DESC, h.since LIMIT 1)
    SELECT o.holder, o.pid, o.usename, o.name,
           (SELECT min(c.cell_id) FROM claims.cells c JOIN pg_roles r ON r.oid = c.role WHERE r.rolname = o.usename), o.since
      FROM oldest o
     WHERE o.since IS NOT NULL AND EXISTS (SELECT FROM claims.change_sets)
$$;
COMMENT ON FUNCTION claims.feed_holder() IS
    'Internal: the transaction that holds back the change feed, of any database: the oldest one that has an id, if the feed has changes. Readers '
    'get no change of a later one. Only a superuser or a member of pg_read_all_stats sees sessions of others. Locks nothing.';
