-- Grants (or revokes) the schema and the functions for some audiences, and for cells and monitors the views that they may read.
CREATE OR REPLACE FUNCTION claims.change_grants(role_name name, audiences text[], granting boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    target regprocedure;
    verb text := CASE WHEN granting THEN 'GRANT' ELSE 'REVOKE' END;
    word text := CASE WHEN granting THEN 'TO' ELSE 'FROM' END;
BEGIN
    FOR target IN
        SELECT p.oid FROM pg_proc p JOIN claims.audiences a ON a.function_name = p.proname
         WHERE p.pronamespace = 'claims'::regnamespace AND (a.audience = ANY (change_grants.audiences) OR granting AND a.audience = 'all')
           -- The owner of a function keeps its right.
           AND (granting OR p.proowner <> (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name))
         ORDER BY p.oid::regprocedure::text
    LOOP
        EXECUTE format('%s EXECUTE ON ROUTINE %s %s %I', verb, target, word, role_name);
    END LOOP;
    IF 'cell' = ANY (change_grants.audiences) THEN
        -- Views about the cell itself: its claimed columns, the progress and the workers of its verification, the service, the passes,
        -- the imports.
        EXECUTE format('%s SELECT ON claims.claimed_columns, claims.verification_progress, claims.verification_workers, '
                       'claims.service_state, claims.passes, claims.imports %s %I', verb, word, role_name);
    END IF;
    -- The owner of a view keeps its right.
    IF 'monitor' = ANY (change_grants.audiences) AND (granting OR role_name <> (
        SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'claims.lease_waiters'::regclass)) THEN
        EXECUTE format('%s SELECT ON claims.lease_waiters, claims.imports %s %I', verb, word, role_name);
    END IF;
    IF granting THEN
        EXECUTE format('GRANT USAGE ON SCHEMA claims TO %I', role_name);
    -- A role that keeps the functions of another audience keeps the functions of audience all.
    ELSIF NOT EXISTS (SELECT FROM pg_proc p LEFT JOIN claims.audiences f ON f.function_name = p.proname, aclexplode(p.proacl) a
                       WHERE p.pronamespace = 'claims'::regnamespace AND f.audience IS DISTINCT FROM 'all'
                         AND a.grantee = (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name)) THEN
        FOR target IN
            SELECT p.oid FROM pg_proc p JOIN claims.audiences a ON a.function_name = p.proname
             WHERE p.pronamespace = 'claims'::regnamespace AND a.audience = 'all' ORDER BY p.oid::regprocedure::text
        LOOP
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %I', target, role_name);
        END LOOP;
        EXECUTE format('REVOKE USAGE ON SCHEMA claims FROM %I', role_name);
    END IF;
END $$;
