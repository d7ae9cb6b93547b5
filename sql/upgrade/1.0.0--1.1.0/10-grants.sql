CREATE FUNCTION claims."refresh_grants"() RETURNS VOID
    STRICT SECURITY DEFINER SET search_path TO 'pg_catalog', 'pg_temp'
    LANGUAGE c AS 'MODULE_PATHNAME', 'refresh_grants_wrapper';
