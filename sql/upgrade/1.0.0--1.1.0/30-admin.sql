-- Administration in Rust; other names of types, attributes of cells.

ALTER TABLE claims.cells ADD COLUMN attributes jsonb;

DROP FUNCTION claims.add_bucket_type(int, text);
CREATE FUNCTION claims."add_bucket_type"("id" INT, "name" TEXT, "profile" TEXT DEFAULT 'exact', "confusables" TEXT DEFAULT 'allow') RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_bucket_type_wrapper';
CREATE OR REPLACE FUNCTION claims."add_subject_type"("id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_subject_type_wrapper';
CREATE OR REPLACE FUNCTION claims."add_source_type"("id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_source_type_wrapper';
DROP FUNCTION claims.add_type(regclass, text, int, text);
CREATE FUNCTION claims."rename_type"("kind" TEXT, "id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'rename_type_wrapper';

DROP FUNCTION claims.register_cell(bigint, name, text, text);
CREATE FUNCTION claims."register_cell"("cell_id" bigint, "role_name" name, "name" TEXT DEFAULT NULL, "address" TEXT DEFAULT NULL, "attributes" jsonb DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'register_cell_wrapper';
CREATE OR REPLACE FUNCTION claims."grant_read"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_read_wrapper';
CREATE OR REPLACE FUNCTION claims."grant_worker"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_worker_wrapper';

INSERT INTO claims.audiences (function_name, audience) VALUES ('list_types', 'reader'), ('list_cells', 'reader');

-- include sql/install/service/lists.sql
-- include sql/install/service/change_grants.sql
