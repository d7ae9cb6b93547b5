-- Reading: answers of bounded size, lists by bucket types and in whole sources.

DROP FUNCTION claims.list_records(bigint, text, text, int, text, text);
CREATE FUNCTION claims."list_records"("cell_id" bigint, "source_type" TEXT DEFAULT NULL, "after" TEXT DEFAULT NULL, "max_results" INT DEFAULT 1000, "source_id_gt" TEXT DEFAULT NULL, "source_id_lte" TEXT DEFAULT NULL, "bucket_types" TEXT[] DEFAULT NULL, "whole_sources" bool DEFAULT false) RETURNS TABLE ("uuid" uuid, "bucket_type" TEXT, "bucket_value" TEXT, "subject_type" TEXT, "subject_id" TEXT, "source_type" TEXT, "source_id" TEXT, "cell_id" bigint, "status" TEXT, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone, "cursor" TEXT, "display_value" TEXT)
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_records_2_wrapper';
