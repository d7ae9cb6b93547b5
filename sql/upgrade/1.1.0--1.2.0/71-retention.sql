-- The log of admin actions and the subjects of transfers can be purged.

CREATE FUNCTION claims."purge_admin_log"(
	"older_than" interval
) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'purge_admin_log_wrapper';

CREATE FUNCTION claims."purge_transfer_subjects"(
	"older_than" interval
) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'purge_transfer_subjects_wrapper';
