-- Limits of cells.

CREATE TABLE claims.limit_settings (
    cell_id           bigint      NOT NULL PRIMARY KEY,
    max_outstanding   int         CHECK (max_outstanding >= 0),
    max_batch_size    int         CHECK (max_batch_size >= 1),
    begins_per_second int         CHECK (begins_per_second >= 1),
    reason            text        NOT NULL,
    since             timestamptz NOT NULL DEFAULT clock_timestamp(),
    role              name        NOT NULL,
    max_priority      int         CHECK (max_priority BETWEEN 0 AND 10),
    refusals_per_second int       CHECK (refusals_per_second >= 1)
);
COMMENT ON TABLE claims.limit_settings IS 'The limits that were set; claims.cell_limits shows them. Written by claims.set_cell_limits().';
COMMENT ON COLUMN claims.limit_settings.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.limit_settings.max_outstanding IS 'The most leases that it may have outstanding; NULL: no limit.';
COMMENT ON COLUMN claims.limit_settings.max_batch_size IS 'The most records of a batch; NULL: only claims.max_batch_size limits it.';
COMMENT ON COLUMN claims.limit_settings.begins_per_second IS
    'The most begins and fences a second, and thousands of records that are imported or corrected; NULL: no limit. Holds only where the library '
    'is preloaded.';
COMMENT ON COLUMN claims.limit_settings.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.limit_settings.since IS 'When they were set (clock time).';
COMMENT ON COLUMN claims.limit_settings.role IS 'Role that set them, by its name at that time.';
COMMENT ON COLUMN claims.limit_settings.max_priority IS 'The highest claims.lease_priority of its sessions; NULL: 0.';
COMMENT ON COLUMN claims.limit_settings.refusals_per_second IS
    'The most fences and denied calls a second that have rows in claims.audit_log, and not only a count; NULL: 100.';

CREATE VIEW claims.cell_limits AS
    SELECT c.cell_id, c.name AS cell_name, l.max_outstanding, l.max_batch_size, l.begins_per_second, l.reason, l.since, l.role, l.max_priority,
           l.refusals_per_second
      FROM claims.cells c JOIN claims.limit_settings l ON l.cell_id = c.cell_id
     WHERE num_nonnulls(l.max_outstanding, l.max_batch_size, l.begins_per_second, l.max_priority, l.refusals_per_second) > 0;
COMMENT ON VIEW claims.cell_limits IS 'The limits of cells: one row for each cell that has one.';
COMMENT ON COLUMN claims.cell_limits.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.cell_limits.cell_name IS 'Name of the cell, if any.';
COMMENT ON COLUMN claims.cell_limits.max_outstanding IS 'The most leases that it may have outstanding; NULL: no limit.';
COMMENT ON COLUMN claims.cell_limits.max_batch_size IS 'The most records of a batch; NULL: only claims.max_batch_size limits it.';
COMMENT ON COLUMN claims.cell_limits.begins_per_second IS
    'The most begins and fences a second, and thousands of records that are imported or corrected; NULL: no limit.';
COMMENT ON COLUMN claims.cell_limits.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.cell_limits.since IS 'When they were set (clock time).';
COMMENT ON COLUMN claims.cell_limits.role IS 'Role that set them, by its name at that time.';
COMMENT ON COLUMN claims.cell_limits.max_priority IS 'The highest claims.lease_priority of its sessions; NULL: 0.';
COMMENT ON COLUMN claims.cell_limits.refusals_per_second IS
    'The most fences and denied calls a second that have rows in claims.audit_log, and not only a count; NULL: 100.';

SELECT pg_catalog.pg_extension_config_dump('claims.limit_settings', '');
