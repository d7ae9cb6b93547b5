-- Unique across tables of one database.

CREATE FUNCTION claims."declare_unique"(
	"name" TEXT, /* Option < String > */
	"table_names" oid[], /* Option < Vec < Option < Oid > > > */
	"column_name" name, /* Option < Name > */
	"profile" TEXT, /* Option < String > */
	"condition" TEXT, /* Option < String > */
	"conditions" TEXT[], /* Option < Vec < Option < String > > > */
	"reason" TEXT, /* Option < String > */
	"import" bool /* Option < bool > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'declare_unique_wrapper';

CREATE FUNCTION claims."drop_unique"(
	"name" TEXT, /* Option < String > */
	"reason" TEXT /* Option < String > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'drop_unique_wrapper';

CREATE FUNCTION claims."begin_unique_import"(
	"name" TEXT /* Option < String > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'begin_unique_import_wrapper';

CREATE FUNCTION claims."import_unique_step"(
	"name" TEXT /* Option < String > */
) RETURNS TABLE (
	"is_over" bool,  /* bool */
	"pause" double precision  /* f64 */
)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'import_unique_step_wrapper';

CREATE FUNCTION claims."find_duplicates"(
	"table_names" oid[], /* Option < Vec < Option < Oid > > > */
	"column_name" name, /* Option < Name > */
	"profile" TEXT, /* Option < String > */
	"conditions" TEXT[] /* Option < Vec < Option < String > > > */
) RETURNS TABLE (
	"bucket_value" TEXT,  /* String */
	"rows" bigint,  /* i64 */
	"found_in" oid[]  /* Vec < Oid > */
)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
STABLE
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'find_duplicates_wrapper';

CREATE FUNCTION claims."renew_generations"(
	"table_name" oid /* Option < Oid > */
) RETURNS VOID /* Result < (), ErrorReport > */
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'renew_generations_wrapper';

-- include sql/install/cell/unique.sql
