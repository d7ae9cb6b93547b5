-- Reading from standbys.

CREATE FUNCTION claims."read_after"("lease_uuid" uuid, "timeout" interval DEFAULT '1 s') RETURNS bool
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'read_after_wrapper';
-- include sql/install/service/replicas.sql
