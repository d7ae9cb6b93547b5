-- Import of the names of existing rows.

CREATE  FUNCTION claims."begin_import"(
	"cell_id" bigint, /* Option < i64 > */
	"service" TEXT, /* Option < String > */
	"source_type" TEXT, /* Option < String > */
	"rows_per_second" INT, /* Option < i32 > */
	"batch_size" INT, /* Option < i32 > */
	"max_runtime" interval /* Option < Interval > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'begin_import_wrapper';

CREATE  FUNCTION claims."import_step"(
	"cell_id" bigint, /* Option < i64 > */
	"source_type" TEXT /* Option < String > */
) RETURNS TABLE (
	"is_over" bool,  /* bool */
	"pause" double precision  /* f64 */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'import_step_wrapper';

CREATE  FUNCTION claims."wait_for_import"(
	"seconds" double precision /* Option < f64 > */
) RETURNS VOID /* Result < (), ErrorReport > */

LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'wait_for_import_wrapper';

CREATE  FUNCTION claims."import_cursor"(
	"cell_id" bigint, /* Option < i64 > */
	"after" TEXT, /* Option < String > */
	"max_results" INT /* Option < i32 > */
) RETURNS bigint /* Result < i64, ErrorReport > */
STABLE SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'import_cursor_wrapper';

CREATE  FUNCTION claims."preview_import"(
	"cell_id" bigint, /* Option < i64 > */
	"service" TEXT, /* Option < String > */
	"source_type" TEXT, /* Option < String > */
	"after" TEXT DEFAULT NULL, /* Option < String > */
	"max_results" INT DEFAULT 100, /* Option < i32 > */
	"outcome" TEXT DEFAULT NULL /* Option < String > */
) RETURNS TABLE (
	"bucket_type" TEXT,  /* String */
	"bucket_value" TEXT,  /* String */
	"source_id" TEXT,  /* String */
	"reason" TEXT,  /* String */
	"holder_cell_id" bigint,  /* Option < i64 > */
	"cursor" TEXT  /* String */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'preview_import_wrapper';

CREATE  FUNCTION claims."import_records"(
	"cell_id" bigint, /* Option < i64 > */
	"records" TEXT, /* Option < & str > */
	"preview" bool DEFAULT false /* Option < bool > */
) RETURNS TABLE (
	"place" INT,  /* i32 */
	"outcome" TEXT,  /* & '_ str */
	"holder_cell_id" bigint  /* Option < i64 > */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'import_records_wrapper';

CREATE  FUNCTION claims."unclaimed_rows"(
	"source_type" TEXT, /* Option < String > */
	"cell_id" bigint DEFAULT NULL, /* Option < i64 > */
	"service" TEXT DEFAULT NULL, /* Option < String > */
	"after" TEXT DEFAULT NULL, /* Option < String > */
	"max_runtime" interval DEFAULT NULL, /* Option < Interval > */
	"max_names" INT DEFAULT 10 /* Option < i32 > */
) RETURNS TABLE (
	"service" TEXT,  /* String */
	"unclaimed" bigint,  /* i64 */
	"in_progress" bigint,  /* i64 */
	"first_names" TEXT[],  /* Vec < String > */
	"checked" bigint,  /* i64 */
	"finished" bool,  /* bool */
	"cursor" TEXT  /* Option < String > */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'unclaimed_rows_wrapper';

-- include sql/install/cell/import.sql
