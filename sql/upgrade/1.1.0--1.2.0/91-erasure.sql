-- Histories of subjects, and erased names.

CREATE FUNCTION claims."subject_history"(
	"subject_type" TEXT,
	"subject_id" TEXT,
	"after" TEXT DEFAULT NULL,
	"max_results" INT DEFAULT 1000
) RETURNS TABLE (
	"at" timestamp with time zone,
	"what" TEXT,
	"cell_id" bigint,
	"bucket_type" TEXT,
	"bucket_value" TEXT,
	"lease_uuid" uuid,
	"cell_role" TEXT,
	"context" TEXT,
	"cursor" TEXT
)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'subject_history_wrapper';

CREATE FUNCTION claims."erase_name"(
	"bucket_type" TEXT,
	"bucket_value" TEXT,
	"reason" TEXT
) RETURNS TABLE (
	"place" TEXT,
	"rows" bigint
)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'erase_name_wrapper';

CREATE FUNCTION claims."forget_erasure_key"(
	"reason" TEXT
) RETURNS bool
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'forget_erasure_key_wrapper';

-- include sql/install/service/erasure.sql
