-- How declarations are enforced, and what was observed.

CREATE FUNCTION claims."set_enforcement"(
	"table_name" regclass, /* Option < Relation > */
	"attribute" name, /* Option < Name > */
	"mode" TEXT, /* Option < String > */
	"reason" TEXT, /* Option < String > */
	"share" NUMERIC DEFAULT 100, /* Option < AnyNumeric > */
	"declaration" name DEFAULT NULL /* Option < Name > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'set_enforcement_wrapper';

-- include sql/install/cell/enforcement.sql
