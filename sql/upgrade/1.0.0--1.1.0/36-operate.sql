-- Operation: the log of admin actions, modes, and admin actions on leases and cells.

-- include sql/install/admin_log.sql
-- include sql/install/service/modes.sql
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

-- Limits, epochs, and details of leases.
-- include sql/install/service/limits.sql
-- include sql/install/service/epochs.sql
-- include sql/install/cell/epochs.sql
-- include sql/install/cell/orphans.sql
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
