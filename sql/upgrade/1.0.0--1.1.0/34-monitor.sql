-- Monitoring roles, and what takes grants away again.

ALTER TABLE claims.audiences DROP CONSTRAINT audiences_audience_check;
ALTER TABLE claims.audiences ADD CONSTRAINT audiences_audience_check CHECK (audience IN ('all', 'reader', 'cell', 'worker', 'monitor'));
COMMENT ON TABLE claims.audiences IS 'Which functions claims.register_cell(), grant_read(), grant_worker() and grant_monitor() grant. Readers'' functions are for cells, too.';
COMMENT ON COLUMN claims.audiences.audience IS 'reader, cell, worker or monitor; all: for everybody who is one of these.';
INSERT INTO claims.audiences (function_name, audience) VALUES ('version', 'all'), ('check', 'monitor');

CREATE VIEW claims.leases AS
    SELECT l.uuid AS lease_uuid, l.creator_id AS cell_id, cell.name AS cell_name, l.created_at, clock_timestamp() - l.created_at AS age,
           CASE jsonb_typeof(l.payload -> 'create_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'create_records') ELSE 0 END::bigint AS creates,
           CASE jsonb_typeof(l.payload -> 'destroy_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'destroy_records') ELSE 0 END::bigint AS destroys,
           l.cell_xid
      FROM claims.claim_leases l LEFT JOIN claims.cells cell ON cell.cell_id = l.creator_id;
COMMENT ON VIEW claims.leases IS 'The outstanding leases in numbers, for monitoring: no names, no payloads.';
COMMENT ON COLUMN claims.leases.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.leases.cell_id IS 'The cell that took it.';
COMMENT ON COLUMN claims.leases.cell_name IS 'Name of the cell, if any.';
COMMENT ON COLUMN claims.leases.age IS 'How long ago it was made.';
COMMENT ON COLUMN claims.leases.creates IS 'How many claims it is to create.';
COMMENT ON COLUMN claims.leases.destroys IS 'How many claims it is to destroy.';

CREATE FUNCTION claims."grant_monitor"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_monitor_wrapper';
COMMENT ON FUNCTION claims.grant_monitor(name) IS
    'Grants a role what monitoring needs: check(), which then tells no bucket values and no payloads, and the views leases and passes; administrators only. Administrators follow each other until COMMIT.';
CREATE FUNCTION claims."revoke_read"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_read_wrapper';
COMMENT ON FUNCTION claims.revoke_read(name) IS
    'Takes away what grant_read() gave; a cell''s role keeps what cells have. Administrators only, who follow each other until COMMIT.';
CREATE FUNCTION claims."revoke_worker"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_worker_wrapper';
COMMENT ON FUNCTION claims.revoke_worker(name) IS
    'Takes away what grant_worker() gave; administrators only, who follow each other until COMMIT.';
CREATE FUNCTION claims."revoke_monitor"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_monitor_wrapper';
COMMENT ON FUNCTION claims.revoke_monitor(name) IS
    'Takes away what grant_monitor() gave; administrators only, who follow each other until COMMIT.';
CREATE FUNCTION claims."version"() RETURNS TABLE ("library" TEXT, "extension" TEXT, "protocol" INT, "unicode" TEXT)
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'version_wrapper';
COMMENT ON FUNCTION claims.version() IS
    'The version of the library, the version of the extension in this database, the number of the protocol between cells and service, and the version of Unicode that names are compared by. For everybody who was granted anything. Locks nothing.';
CREATE FUNCTION claims."caller_is_admin"() RETURNS bool
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'caller_is_admin_wrapper';
COMMENT ON FUNCTION claims.caller_is_admin() IS 'Internal: whether the caller is an administrator.';
