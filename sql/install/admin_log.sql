-- The log of admin actions.

CREATE TABLE claims.admin_log (
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    session_role name        NOT NULL,
    role         name        NOT NULL,
    action       text        COLLATE "C" NOT NULL,
    arguments    jsonb       NOT NULL,
    reason       text,
    counts       jsonb,
    id           uuid        NOT NULL PRIMARY KEY
);
COMMENT ON TABLE claims.admin_log IS
    'Every admin action that was committed. Actions that were rolled back are only in the server''s log. The background '
    'worker deletes rows older than claims.admin_log_retention, claims.purge_admin_log() those of any age.';
COMMENT ON COLUMN claims.admin_log.at IS 'When it was done (clock time).';
COMMENT ON COLUMN claims.admin_log.session_role IS 'Role that had logged in, by its name at that time.';
COMMENT ON COLUMN claims.admin_log.role IS 'Role that called, after SET ROLE, by its name at that time.';
COMMENT ON COLUMN claims.admin_log.action IS 'Name of the function.';
COMMENT ON COLUMN claims.admin_log.arguments IS 'Its arguments, by name.';
COMMENT ON COLUMN claims.admin_log.reason IS 'The reason that was given; NULL: the function takes none.';
COMMENT ON COLUMN claims.admin_log.counts IS 'Numbers of what it has changed; NULL: the function counts nothing.';
COMMENT ON COLUMN claims.admin_log.id IS 'A UUIDv7.';

SELECT pg_catalog.pg_extension_config_dump('claims.admin_log', '');
