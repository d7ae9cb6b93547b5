-- Services by bucket type.

-- include sql/install/cell/automatic_types.sql

DROP FUNCTION claims.automatic(bigint, text);
CREATE  FUNCTION claims."automatic"(
	"cell_id" bigint, /* Option < i64 > */
	"service" TEXT, /* Option < String > */
	"bucket_types" TEXT[] DEFAULT NULL /* Option < Vec < Option < String > > > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'automatic_wrapper';
