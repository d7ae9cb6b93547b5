-- In a cell: the orphans that recovery found.

CREATE TABLE claims.seen_orphans (
    lease_uuid uuid        NOT NULL PRIMARY KEY,
    cell_id    bigint      NOT NULL,
    outcome    text        COLLATE "C",
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    service    text
);
COMMENT ON TABLE claims.seen_orphans IS
    'In a cell: the orphans that the last pass of recovery at each service has found; claims.orphans() shows them. Not in a dump: the next pass finds them again.';
COMMENT ON COLUMN claims.seen_orphans.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.seen_orphans.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.seen_orphans.outcome IS 'Outcome at the service: rolled_back, or NULL if the service does not know the lease.';
COMMENT ON COLUMN claims.seen_orphans.seen_at IS 'When the pass found it (clock time).';
COMMENT ON COLUMN claims.seen_orphans.service IS 'The foreign server of the service that the pass asked.';

CREATE FUNCTION claims.orphans(cell_id bigint) RETURNS TABLE (lease_uuid uuid, tracked_at timestamptz, outcome text, seen_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    -- A hash join is right for any number of rows in both tables, whatever the statistics say.
    SET enable_nestloop = off SET enable_hashjoin = on
AS $$
BEGIN
    PERFORM claims.require_cell(orphans.cell_id);
    RETURN QUERY SELECT o.lease_uuid, t.created_at, o.outcome, o.seen_at
                   FROM claims.seen_orphans o JOIN claims.cells_outstanding_leases t ON t.uuid = o.lease_uuid
                  WHERE o.cell_id = orphans.cell_id ORDER BY t.created_at, o.lease_uuid;
END $$;
COMMENT ON FUNCTION claims.orphans(bigint) IS
    'In a cell: the leases that committed here and have no claims at the service, as the last pass of claims.reconcile() found them, unless they '
    'were forgotten since. For roles that may act for the cell. Locks nothing.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('orphans', 'cell'), ('explain_lease', 'cell');
SELECT pg_catalog.pg_extension_config_dump('claims.seen_orphans', 'WHERE false');
