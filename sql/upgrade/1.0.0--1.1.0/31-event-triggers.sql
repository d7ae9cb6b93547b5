-- The event triggers exist only if a table is claimed or captured, or a service named. They are not members of the extension, and they belong to the
-- cluster's first superuser: so pg_dump includes them with the tables' triggers, and pg_upgrade can recreate them.
DO $$
DECLARE
    is_needed boolean := EXISTS (SELECT FROM pg_catalog.pg_trigger t
                                  WHERE t.tgfoid IN ('claims.capture_row()'::regprocedure, 'claims.capture_change()'::regprocedure))
                      OR EXISTS (SELECT FROM claims.automatic_service);
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['claims_complete_triggers', 'claims_forget_dropped_tables'] LOOP
        IF is_needed THEN
            EXECUTE format('ALTER EXTENSION claims DROP EVENT TRIGGER %I', name);
            EXECUTE format('ALTER EVENT TRIGGER %I OWNER TO %I', name, pg_catalog.pg_get_userbyid(10));
        ELSE
            EXECUTE format('DROP EVENT TRIGGER %I', name);
        END IF;
    END LOOP;
END $$;
