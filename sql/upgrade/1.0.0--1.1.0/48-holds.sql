-- The shorter holds: the result of a take is bounded, and tables are captured in Rust.

CREATE OR REPLACE FUNCTION claims."capture_requests"("table_name" regclass, "queue" TEXT, "entity_column" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'capture_requests_wrapper';
CREATE OR REPLACE FUNCTION claims."uncapture_requests"("table_name" regclass, "queue" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'uncapture_requests_wrapper';
DROP FUNCTION claims.require_role(oid);
