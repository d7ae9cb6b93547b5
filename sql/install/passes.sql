-- The log of passes: recovery, verification and purging.

CREATE TABLE claims.pass_log (
    id          uuid        NOT NULL PRIMARY KEY,
    kind        text        COLLATE "C" NOT NULL,
    cell_id     bigint,
    source_type text        COLLATE "C",
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    counts      jsonb,
    sqlstate    text,
    message     text,
    service     text
);
CREATE INDEX pass_log_kind ON claims.pass_log (kind, id);
COMMENT ON TABLE claims.pass_log IS 'The last 1,000 passes of each kind, and the last finished verification of each cell, source type and service; claims.passes shows them. Not dumped.';
COMMENT ON INDEX claims.pass_log_kind IS 'Finds passes older than the last 1,000 of a kind.';
COMMENT ON COLUMN claims.pass_log.id IS 'A UUIDv7, in the order in which the passes ended.';
COMMENT ON COLUMN claims.pass_log.kind IS 'reconcile, verify, purge, refill (of ids; only where it leased some, failed, or succeeded after a failure), settle (failures of the worker, and the first success after one), or update (of the extension, by the worker).';
COMMENT ON COLUMN claims.pass_log.cell_id IS 'The cell, if any.';
COMMENT ON COLUMN claims.pass_log.source_type IS 'Name of the source type, for a verification.';
COMMENT ON COLUMN claims.pass_log.started_at IS 'When it began (clock time).';
COMMENT ON COLUMN claims.pass_log.ended_at IS 'When it ended (clock time).';
COMMENT ON COLUMN claims.pass_log.counts IS 'Its counts, by column.';
COMMENT ON COLUMN claims.pass_log.sqlstate IS 'SQLSTATE of the error that ended it; NULL if it succeeded.';
COMMENT ON COLUMN claims.pass_log.message IS 'Message of that error.';
COMMENT ON COLUMN claims.pass_log.service IS 'The foreign server of the service that it called, if any.';

CREATE VIEW claims.passes AS
    SELECT p.kind, p.cell_id, p.source_type, p.started_at, p.ended_at, p.counts, p.sqlstate,
           -- The error of a verification may be that of an expression of the table's owner, and have a value of a row. Monitoring roles
           -- may read claims.leases.
           CASE WHEN p.kind <> 'verify' OR has_table_privilege('claims.leases', 'SELECT') OR claims.may_read_sources(p.cell_id, p.source_type) THEN p.message END AS message,
           p.service
      FROM claims.pass_log p;
COMMENT ON VIEW claims.passes IS
    'One row for each pass of recovery, verification, purging, leasing ids and updating: the last 1,000 of each kind, and the last finished verification of each cell, source type and service. A failed pass is shown only if the worker ran it: '
    'otherwise its transaction was rolled back, and its caller got the error.';
COMMENT ON COLUMN claims.passes.kind IS 'reconcile, verify, purge, refill (of ids; only where it leased some, failed, or succeeded after a failure), settle (failures of the worker, and the first success after one), or update (of the extension, by the worker).';
COMMENT ON COLUMN claims.passes.cell_id IS 'The cell, if any.';
COMMENT ON COLUMN claims.passes.source_type IS 'Name of the source type, for a verification.';
COMMENT ON COLUMN claims.passes.started_at IS 'When it began (clock time).';
COMMENT ON COLUMN claims.passes.ended_at IS 'When it ended (clock time).';
COMMENT ON COLUMN claims.passes.counts IS 'Its counts, by column.';
COMMENT ON COLUMN claims.passes.sqlstate IS 'SQLSTATE of the error that ended it; NULL if it succeeded.';
COMMENT ON COLUMN claims.passes.message IS 'Message of that error. Of a verification only for monitoring roles and those that may act for the cell, or read the tables of the source type.';
COMMENT ON COLUMN claims.passes.service IS 'The foreign server of the service that it called, if any.';

SELECT pg_catalog.pg_extension_config_dump('claims.pass_log', 'WHERE false');
