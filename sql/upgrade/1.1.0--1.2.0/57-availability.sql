-- Questions about names.

CREATE  FUNCTION claims."is_available"(
	"table_name" regclass, /* Option < Relation > */
	"attribute" name, /* Option < Name > */
	"value" TEXT, /* Option < String > */
	"source_id" TEXT DEFAULT NULL /* Option < String > */
) RETURNS bool /* Result < Option < bool > , ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'is_available_wrapper';

CREATE  FUNCTION claims."look_up"(
	"cell_id" bigint, /* Option < i64 > */
	"service" TEXT, /* Option < String > */
	"buckets" jsonb /* Option < Jsonb > */
) RETURNS TABLE (
	"uuid" uuid,  /* PgUuid */
	"bucket_type" TEXT,  /* Option < String > */
	"bucket_value" TEXT,  /* String */
	"subject_type" TEXT,  /* Option < String > */
	"subject_id" TEXT,  /* String */
	"source_type" TEXT,  /* Option < String > */
	"source_id" TEXT,  /* String */
	"cell_id" bigint,  /* i64 */
	"status" TEXT,  /* String */
	"lease_uuid" uuid,  /* Option < PgUuid > */
	"created_at" timestamp with time zone,  /* TimestampWithTimeZone */
	"updated_at" timestamp with time zone,  /* TimestampWithTimeZone */
	"cell_name" TEXT,  /* Option < String > */
	"cell_address" TEXT,  /* Option < String > */
	"display_value" TEXT,  /* Option < String > */
	"ordinal" INT  /* i32 */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'look_up_wrapper';

CREATE  FUNCTION claims."name_holders"(
	"bucket_type" TEXT, /* Option < String > */
	"bucket_values" TEXT[], /* Option < Vec < Option < String > > > */
	"cell_id" bigint DEFAULT NULL, /* Option < i64 > */
	"subject_type" TEXT DEFAULT NULL, /* Option < String > */
	"subject_id" TEXT DEFAULT NULL /* Option < String > */
) RETURNS TABLE (
	"ordinal" INT,  /* i32 */
	"reason" TEXT,  /* & '_ str */
	"holder_cell_id" bigint,  /* Option < i64 > */
	"source_type" TEXT,  /* Option < String > */
	"source_id" TEXT  /* Option < String > */
)
STABLE SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'name_holders_wrapper';

CREATE  FUNCTION claims."first_available"(
	"table_name" regclass, /* Option < Relation > */
	"attribute" name, /* Option < Name > */
	"candidates" TEXT[], /* Option < Vec < Option < String > > > */
	"source_id" TEXT DEFAULT NULL /* Option < String > */
) RETURNS TEXT /* Result < Option < String > , ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'first_available_wrapper';

-- include sql/install/cell/look_up.sql
