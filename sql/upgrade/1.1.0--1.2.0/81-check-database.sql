-- check() also looks at triggers, settings and sequences of the database.

-- include sql/install/check_database.sql

-- The event trigger of databases with captured tables fires for more commands. It is no member of the extension.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger v JOIN pg_catalog.pg_proc p ON p.oid = v.evtfoid
                WHERE v.evtname = 'claims_complete_triggers' AND p.pronamespace = 'claims'::regnamespace AND p.proowner = 10) THEN
        DROP EVENT TRIGGER claims_complete_triggers;
        CREATE EVENT TRIGGER claims_complete_triggers ON ddl_command_end
            WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'CREATE SCHEMA', 'ALTER TABLE', 'CREATE FOREIGN TABLE',
                         'ALTER FOREIGN TABLE', 'ALTER SEQUENCE')
            EXECUTE FUNCTION claims.complete_triggers();
        COMMENT ON EVENT TRIGGER claims_complete_triggers IS
            'Has new partitions of claimed and captured tables refuse TRUNCATE, and refuses what would leave names without claims.';
        ALTER EXTENSION claims DROP EVENT TRIGGER claims_complete_triggers;
        EXECUTE format('ALTER EVENT TRIGGER claims_complete_triggers OWNER TO %I', pg_catalog.pg_get_userbyid(10));
    END IF;
END $$;
