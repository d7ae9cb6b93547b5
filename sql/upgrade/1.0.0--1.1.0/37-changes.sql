-- The change feed.

-- include sql/install/service/changes.sql

CREATE FUNCTION claims."list_changes"("after" TEXT DEFAULT NULL, "max_results" INT DEFAULT 1000, "bucket_type" TEXT DEFAULT NULL) RETURNS TABLE ("id" bigint, "xid" xid8, "at" timestamp with time zone, "op" TEXT, "bucket_type" TEXT, "bucket_value" TEXT, "old_cell_id" bigint, "new_cell_id" bigint, "lease_uuid" uuid, "actor" name, "cursor" TEXT, "old_cell_name" TEXT, "new_cell_name" TEXT)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_changes_wrapper';
CREATE FUNCTION claims."change_cursor"() RETURNS TEXT
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'change_cursor_wrapper';
CREATE FUNCTION claims."bucket_history"("bucket_type" TEXT, "bucket_value" TEXT) RETURNS TABLE ("cell_id" bigint, "cell_name" TEXT, "since" timestamp with time zone, "until" timestamp with time zone, "op" TEXT, "lease_uuid" uuid, "actor" name)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'bucket_history_wrapper';
CREATE FUNCTION claims."purge_changes"("older_than" interval) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'purge_changes_wrapper';
