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
