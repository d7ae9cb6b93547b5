-- Discrepancies by name.

CREATE FUNCTION claims."list_discrepancies"("cell_id" bigint, "service" TEXT, "source_type" TEXT, "after" TEXT DEFAULT NULL, "max_results" INT DEFAULT 100, "recent" interval DEFAULT '1 hour') RETURNS TABLE ("discrepancy" TEXT, "bucket_type" TEXT, "bucket_value" TEXT, "source_id" TEXT, "holder_cell_id" bigint, "outcome" TEXT, "cursor" TEXT)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_discrepancies_wrapper';
-- include sql/install/cell/discrepancies.sql
