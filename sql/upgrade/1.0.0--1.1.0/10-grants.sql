CREATE FUNCTION claims."refresh_grants"() RETURNS VOID
    STRICT SECURITY DEFINER SET search_path TO 'pg_catalog', 'pg_temp'
    LANGUAGE c AS 'MODULE_PATHNAME', 'refresh_grants_wrapper';
COMMENT ON FUNCTION claims.refresh_grants() IS
    'Gives every role that register_cell(), grant_read(), grant_worker() or grant_monitor() named what its kind has today; administrators only. ALTER EXTENSION claims UPDATE does it by itself. Administrators follow each other until COMMIT.';
