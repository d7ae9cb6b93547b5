-- Modes of the service.

CREATE TABLE claims.mode_settings (
    cell_id bigint      NOT NULL PRIMARY KEY,
    mode    text        COLLATE "C" NOT NULL CHECK (mode IN ('open', 'settle_only', 'read_only')),
    reason  text        NOT NULL,
    since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    role    name        NOT NULL
);
COMMENT ON TABLE claims.mode_settings IS 'The modes that were set; claims.modes shows them. Written by claims.set_mode().';
COMMENT ON COLUMN claims.mode_settings.cell_id IS 'The cell; -1: all cells.';
COMMENT ON COLUMN claims.mode_settings.mode IS 'open, settle_only (no begins) or read_only.';
COMMENT ON COLUMN claims.mode_settings.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.mode_settings.since IS 'When it was set (clock time).';
COMMENT ON COLUMN claims.mode_settings.role IS 'Role that set it, by its name at that time.';

CREATE VIEW claims.modes AS
    SELECT s.cell_id, s.cell_name, coalesce(m.mode, 'open') AS mode,
           CASE WHEN 'read_only' IN (m.mode, e.mode) THEN 'read_only'
               WHEN 'settle_only' IN (m.mode, e.mode) THEN 'settle_only' ELSE 'open' END AS in_effect,
           m.reason, m.since, m.role,
           -- Counts sessions and prepared transactions: those have a lock and no process.
           (SELECT count(DISTINCT l.virtualtransaction) FROM pg_catalog.pg_locks l
             WHERE l.locktype = 'relation' AND l.relation = 'claims.claim_leases'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
               AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
               AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()) AS open_writers
      FROM (SELECT NULL::bigint AS cell_id, NULL::text AS cell_name UNION ALL SELECT c.cell_id, c.name FROM claims.cells c) s
      LEFT JOIN claims.mode_settings m ON m.cell_id = coalesce(s.cell_id, -1)
      LEFT JOIN claims.mode_settings e ON e.cell_id = -1;
COMMENT ON VIEW claims.modes IS 'The modes in effect: one row for all cells (cell_id NULL), one for each cell.';
COMMENT ON COLUMN claims.modes.cell_id IS 'The cell; NULL: all cells.';
COMMENT ON COLUMN claims.modes.cell_name IS 'Name of the cell, if any.';
COMMENT ON COLUMN claims.modes.mode IS 'The mode that was set for it: open, settle_only (no begins) or read_only.';
COMMENT ON COLUMN claims.modes.in_effect IS 'The stricter of the cell''s mode and that of all cells.';
COMMENT ON COLUMN claims.modes.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.modes.since IS 'When it was set (clock time).';
COMMENT ON COLUMN claims.modes.role IS 'Role that set it, by its name at that time.';
COMMENT ON COLUMN claims.modes.open_writers IS
    'Open transactions, of all cells, that have begun or settled leases. They may still commit what they began before a mode was set: once this '
    'has been 0 after that, none remains.';

SELECT pg_catalog.pg_extension_config_dump('claims.mode_settings', '');
