-- The audit log.

CREATE FUNCTION claims."purge_audit"(
	"older_than" interval
) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'purge_audit_wrapper';

-- include sql/install/service/audit.sql
