-- Columns are claimed in Rust. Claimed columns keep types by names that never change.
CREATE OR REPLACE FUNCTION claims."declare_attribute"("table_name" regclass, "attribute" name, "bucket_type" TEXT, "subject_type" TEXT, "subject_key" name, "source_type" TEXT, "source_key" name, "condition" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'declare_attribute_wrapper';
CREATE OR REPLACE FUNCTION claims."unclaim_attribute"("table_name" regclass, "attribute" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'unclaim_attribute_wrapper';
DROP FUNCTION claims.require_owner(text, oid);
