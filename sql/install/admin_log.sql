-- What administrators did, why, and as whom.

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
COMMENT ON TABLE claims.admin_log IS 'Every administrative act that was committed. What was rolled back stands in the server''s log only. Nothing drops rows by itself.';
COMMENT ON COLUMN claims.admin_log.at IS 'When it was done (clock time).';
COMMENT ON COLUMN claims.admin_log.session_role IS 'Role that had logged in, by its name then.';
COMMENT ON COLUMN claims.admin_log.role IS 'Role that called, after SET ROLE, by its name then.';
COMMENT ON COLUMN claims.admin_log.action IS 'Name of the function.';
COMMENT ON COLUMN claims.admin_log.arguments IS 'What it was given, by name.';
COMMENT ON COLUMN claims.admin_log.reason IS 'Why, in the words of whoever did it; NULL: the function asks for no reason.';
COMMENT ON COLUMN claims.admin_log.counts IS 'How much it has changed, in numbers; NULL: the function counts nothing.';
COMMENT ON COLUMN claims.admin_log.id IS 'A UUIDv7.';

SELECT pg_catalog.pg_extension_config_dump('claims.admin_log', '');
