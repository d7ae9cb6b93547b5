-- Services are named: the extension calls servers of postgres_fdw and dblink_fdw only if an administrator has named them.

-- include sql/install/cell/services.sql
CREATE FUNCTION claims.add_service(server_name name, reason text) RETURNS void
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'add_service_wrapper';
CREATE FUNCTION claims.remove_service(server_name name, reason text) RETURNS void
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'remove_service_wrapper';
DROP FUNCTION claims.require_service(text);

-- The server of automatic mode stays a service.
INSERT INTO claims.named_services (server_name, role)
SELECT s.srvname, current_user
  FROM pg_catalog.pg_foreign_server s JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
 WHERE w.fdwname IN ('postgres_fdw', 'dblink_fdw') AND s.srvname::text IN (SELECT a.service FROM claims.automatic_service a);
