-- Where the tables are: what SQL functions ask before they read them.

CREATE FUNCTION claims."require_own_tables"() RETURNS VOID
STRICT STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'require_own_tables_wrapper';
