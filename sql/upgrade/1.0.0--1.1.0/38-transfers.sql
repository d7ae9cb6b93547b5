-- Transfers between cells, and the view that reads them.

-- include sql/install/service/transfers.sql
-- include sql/install/service/records.sql

CREATE FUNCTION claims."prepare_transfer"("transfer_uuid" uuid, "from_cell" bigint, "to_cell" bigint, "subjects" jsonb, "reason" TEXT, "max_runtime" interval DEFAULT NULL) RETURNS TABLE ("marked" bigint, "skipped" bigint, "finished" bool)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'prepare_transfer_wrapper';
CREATE FUNCTION claims."switch_transfer"("transfer_uuid" uuid, "reason" TEXT) RETURNS bool
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'switch_transfer_wrapper';
CREATE FUNCTION claims."reverse_transfer"("transfer_uuid" uuid, "reason" TEXT) RETURNS bool
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'reverse_transfer_wrapper';
CREATE FUNCTION claims."finish_transfer"("transfer_uuid" uuid, "max_runtime" interval DEFAULT NULL) RETURNS TABLE ("moved" bigint, "finished" bool)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'finish_transfer_wrapper';
CREATE FUNCTION claims."cancel_transfer"("transfer_uuid" uuid, "reason" TEXT, "max_runtime" interval DEFAULT NULL) RETURNS TABLE ("released" bigint, "finished" bool)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'cancel_transfer_wrapper';
