-- Services of other wrappers: their servers exist for other purposes, too, so an administrator names a server before the extension calls it.

CREATE TABLE claims.named_services (
    server_name name        NOT NULL PRIMARY KEY,
    reason      text,
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    role        name        NOT NULL
);
COMMENT ON TABLE claims.named_services IS
    'In a cell: the foreign servers of postgres_fdw and dblink_fdw that may be called as a service. Written by claims.add_service() and '
    'claims.remove_service(), by administrators'' calls of claims.automatic() and claims.attend(), and when a server is dropped.';
COMMENT ON COLUMN claims.named_services.server_name IS 'The foreign server.';
COMMENT ON COLUMN claims.named_services.reason IS 'The reason that was given; NULL: automatic(), attend() or an upgrade named it.';
COMMENT ON COLUMN claims.named_services.since IS 'When it was named (clock time).';
COMMENT ON COLUMN claims.named_services.role IS 'Role that named it, by its name at that time.';

COMMENT ON FUNCTION claims.add_service(name, text) IS
    'In a cell: from now on a foreign server of postgres_fdw or dblink_fdw may be called as a service. Servers of the wrapper claims_service need '
    'no call. For administrators who have the privileges of the server''s owner. 42704 if there is no such server. May be repeated. Locks '
    'claims.audiences against other administrators, and the server''s row in claims.named_services.';
COMMENT ON FUNCTION claims.remove_service(name, text) IS
    'In a cell: from now on a foreign server of postgres_fdw or dblink_fdw is not called as a service any more; sessions close their connections '
    'to it. For administrators. 55000 while claims.automatic() or claims.attend() names it; 42704 if it is not named. Locks as '
    'claims.add_service() does.';

SELECT pg_catalog.pg_extension_config_dump('claims.named_services', '');
