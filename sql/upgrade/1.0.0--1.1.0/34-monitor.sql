-- Monitoring roles, and the functions that revoke grants.

ALTER TABLE claims.audiences DROP CONSTRAINT audiences_audience_check;
ALTER TABLE claims.audiences ADD CONSTRAINT audiences_audience_check CHECK (audience IN ('all', 'reader', 'router', 'cell', 'worker', 'monitor'));
INSERT INTO claims.audiences (function_name, audience) VALUES ('version', 'all'), ('check', 'monitor');

CREATE VIEW claims.leases AS
    SELECT l.uuid AS lease_uuid, l.creator_id AS cell_id, cell.name AS cell_name, l.created_at, clock_timestamp() - l.created_at AS age,
           CASE jsonb_typeof(l.payload -> 'create_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'create_records') ELSE 0 END::bigint AS creates,
           CASE jsonb_typeof(l.payload -> 'destroy_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'destroy_records') ELSE 0 END::bigint AS destroys,
           l.cell_xid
      FROM claims.claim_leases l LEFT JOIN claims.cells cell ON cell.cell_id = l.creator_id;

CREATE FUNCTION claims."grant_monitor"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_monitor_wrapper';
CREATE FUNCTION claims."revoke_read"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_read_wrapper';
CREATE FUNCTION claims."revoke_worker"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_worker_wrapper';
CREATE FUNCTION claims."revoke_monitor"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_monitor_wrapper';
CREATE FUNCTION claims."version"() RETURNS TABLE ("library" TEXT, "extension" TEXT, "protocol" INT, "unicode" TEXT, "distributed" bool)
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'version_wrapper';
CREATE FUNCTION claims."caller_is_admin"() RETURNS bool
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'caller_is_admin_wrapper';
