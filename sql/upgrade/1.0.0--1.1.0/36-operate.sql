-- Operating it: the log of acts, modes, and what administrators do about leases and cells.

-- What administrators did, why, and as whom.

CREATE TABLE claims.admin_log (
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    session_role name        NOT NULL,
    role         name        NOT NULL,
    action       text        COLLATE "C" NOT NULL,
    arguments    jsonb       NOT NULL,
    reason       text,
    id           uuid        NOT NULL PRIMARY KEY
);

SELECT pg_catalog.pg_extension_config_dump('claims.admin_log', '');

-- What the service does for cells at the moment.

CREATE TABLE claims.mode_settings (
    cell_id bigint      NOT NULL PRIMARY KEY,
    mode    text        COLLATE "C" NOT NULL CHECK (mode IN ('open', 'settle_only', 'read_only')),
    reason  text        NOT NULL,
    since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    role    name        NOT NULL
);

CREATE VIEW claims.modes AS
    SELECT s.cell_id, s.cell_name, coalesce(m.mode, 'open') AS mode,
           CASE WHEN 'read_only' IN (m.mode, e.mode) THEN 'read_only' WHEN 'settle_only' IN (m.mode, e.mode) THEN 'settle_only' ELSE 'open' END AS in_effect,
           m.reason, m.since, m.role,
           -- Of sessions, and of prepared transactions: those have a lock and no process.
           (SELECT count(DISTINCT l.virtualtransaction) FROM pg_catalog.pg_locks l
             WHERE l.locktype = 'relation' AND l.relation = 'claims.claim_leases'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
               AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
               AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()) AS open_writers
      FROM (SELECT NULL::bigint AS cell_id, NULL::text AS cell_name UNION ALL SELECT c.cell_id, c.name FROM claims.cells c) s
      LEFT JOIN claims.mode_settings m ON m.cell_id = coalesce(s.cell_id, -1)
      LEFT JOIN claims.mode_settings e ON e.cell_id = -1;

SELECT pg_catalog.pg_extension_config_dump('claims.mode_settings', '');
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.mode_settings
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
ALTER TABLE claims.mode_settings ENABLE ALWAYS TRIGGER announce_change;

CREATE FUNCTION claims."set_mode"("mode" TEXT, "reason" TEXT, "cell_id" bigint DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_mode_wrapper';
CREATE FUNCTION claims."lease_details"("lease_uuid" uuid DEFAULT NULL, "bucket_type" TEXT DEFAULT NULL, "bucket_value" TEXT DEFAULT NULL) RETURNS TABLE ("lease_uuid" uuid, "cell_id" bigint, "cell_name" TEXT, "role_name" name, "created_at" timestamp with time zone, "age" interval, "cell_xid" xid8, "creates" jsonb, "destroys" jsonb)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'lease_details_wrapper';
CREATE FUNCTION claims."force_rollback"("cell_id" bigint, "lease_uuid" uuid, "reason" TEXT) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'force_rollback_wrapper';
CREATE FUNCTION claims."release_records"("cell_id" bigint, "reason" TEXT, "max_results" INT DEFAULT 10000, "dry_run" bool DEFAULT false) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'release_records_wrapper';
CREATE FUNCTION claims."remove_cell"("cell_id" bigint, "reason" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'remove_cell_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('lease_details', 'cell');

-- Limits, epochs, and what a cell is told of its leases.
-- What cells may at most.

CREATE TABLE claims.limit_settings (
    cell_id           bigint      NOT NULL PRIMARY KEY,
    max_outstanding   int         CHECK (max_outstanding >= 0),
    max_batch_size    int         CHECK (max_batch_size >= 1),
    begins_per_second int         CHECK (begins_per_second >= 1),
    reason            text        NOT NULL,
    since             timestamptz NOT NULL DEFAULT clock_timestamp(),
    role              name        NOT NULL
);

CREATE VIEW claims.cell_limits AS
    SELECT c.cell_id, c.name AS cell_name, l.max_outstanding, l.max_batch_size, l.begins_per_second, l.reason, l.since, l.role
      FROM claims.cells c JOIN claims.limit_settings l ON l.cell_id = c.cell_id
     WHERE num_nonnulls(l.max_outstanding, l.max_batch_size, l.begins_per_second) > 0;

SELECT pg_catalog.pg_extension_config_dump('claims.limit_settings', '');

-- Which database acts as a cell: the epoch that it has presented last.

CREATE TABLE claims.cell_epochs (
    cell_id      bigint      NOT NULL PRIMARY KEY,
    epoch        bigint      NOT NULL,
    presented_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO claims.audiences (function_name, audience) VALUES ('present_epoch', 'cell');
SELECT pg_catalog.pg_extension_config_dump('claims.cell_epochs', '');

-- In a cell: the epochs by which the service knows this database.

CREATE TABLE claims.own_epochs (
    cell_id     bigint      NOT NULL PRIMARY KEY,
    epoch       bigint      NOT NULL,
    predecessor bigint,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
SELECT pg_catalog.pg_extension_config_dump('claims.own_epochs', '');

-- In a cell: what recovery found to be saved without claims.

CREATE TABLE claims.seen_orphans (
    lease_uuid uuid        NOT NULL PRIMARY KEY,
    cell_id    bigint      NOT NULL,
    outcome    text        COLLATE "C",
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION claims.orphans(cell_id bigint) RETURNS TABLE (lease_uuid uuid, tracked_at timestamptz, outcome text, seen_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM claims.require_cell(orphans.cell_id);
    RETURN QUERY SELECT o.lease_uuid, t.created_at, o.outcome, o.seen_at
                   FROM claims.seen_orphans o JOIN claims.cells_outstanding_leases t ON t.uuid = o.lease_uuid
                  WHERE o.cell_id = orphans.cell_id ORDER BY t.created_at, o.lease_uuid;
END $$;

INSERT INTO claims.audiences (function_name, audience) VALUES ('orphans', 'cell'), ('explain_lease', 'cell');
SELECT pg_catalog.pg_extension_config_dump('claims.seen_orphans', 'WHERE false');

CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.limit_settings
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
ALTER TABLE claims.limit_settings ENABLE ALWAYS TRIGGER announce_change;

CREATE FUNCTION claims."set_cell_limits"("cell_id" bigint, "reason" TEXT, "max_outstanding" INT DEFAULT NULL, "max_batch_size" INT DEFAULT NULL, "begins_per_second" INT DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_cell_limits_wrapper';
CREATE FUNCTION claims."present_epoch"("cell_id" bigint, "epoch" bigint, "predecessor" bigint DEFAULT NULL, "adopt_because" TEXT DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'present_epoch_wrapper';
CREATE FUNCTION claims."adopt_cell"("cell_id" bigint, "service" TEXT, "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'adopt_cell_wrapper';
CREATE FUNCTION claims."skip_capture"("reason" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'skip_capture_wrapper';
CREATE FUNCTION claims."explain_lease"("cell_id" bigint, "service" TEXT, "lease_uuid" uuid) RETURNS TABLE ("lease_uuid" uuid, "at_service" TEXT, "tracked_at" timestamp with time zone, "fenced_at" timestamp with time zone, "xact_status" TEXT, "pid" INT, "usename" name, "application_name" TEXT, "open_for" interval, "prepared_gid" TEXT, "verdict" TEXT, "advice" TEXT)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'explain_lease_wrapper';
