-- Checks the encoding, and creates the schema.

DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'extension "claims" needs a UTF8 database',
            DETAIL = format('This database''s encoding is %s.', current_setting('server_encoding')),
            HINT = 'Create a database with ENCODING ''UTF8'' TEMPLATE template0.';
    END IF;
END $$;

-- CREATE SCHEMA without IF NOT EXISTS: a schema that exists already belongs to another user, and is refused.
CREATE SCHEMA claims;
COMMENT ON SCHEMA claims IS 'Globally unique names: leases, claims and their verification.';
