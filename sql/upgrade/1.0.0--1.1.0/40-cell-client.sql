-- The way from a cell to the service.

CREATE FUNCTION claims.service_validator("options" TEXT[], "catalog" oid) RETURNS VOID
    LANGUAGE c SET search_path TO pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'service_validator_wrapper';
COMMENT ON FUNCTION claims.service_validator(text[], oid) IS 'Internal: validator of the foreign-data wrapper claims_service.';
CREATE FOREIGN DATA WRAPPER claims_service NO HANDLER VALIDATOR claims.service_validator;
COMMENT ON FOREIGN DATA WRAPPER claims_service IS 'In a cell: its servers lead to the shared database. Options are those of libpq; the user and the password stand in the user mapping of the extension''s owner, or of PUBLIC.';

CREATE FUNCTION claims.service_states() RETURNS TABLE (
    "service" TEXT, "breaker" TEXT, "failures" INT, "last_error" TEXT, "since" timestamp with time zone, "next_try" timestamp with time zone)
    LANGUAGE c STRICT SECURITY DEFINER SET search_path TO pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'service_states_wrapper';
CREATE VIEW claims.service_state AS
    SELECT s.service, s.breaker, s.failures, s.last_error, s.since, s.next_try FROM claims.service_states() s;
COMMENT ON VIEW claims.service_state IS 'In a cell: the services that were called, and whether calls are made or fail at once. What this session knows of them, or, where the library is preloaded, all sessions.';
COMMENT ON COLUMN claims.service_state.service IS 'The foreign server.';
COMMENT ON COLUMN claims.service_state.breaker IS 'closed: calls are made; open: they fail at once; trying: one call is finding out, the others fail at once.';
COMMENT ON COLUMN claims.service_state.failures IS 'Failures in a row to reach the service or to have its answer.';
COMMENT ON COLUMN claims.service_state.last_error IS 'The last of them.';
COMMENT ON COLUMN claims.service_state.since IS 'Since when the breaker is what it is (clock time).';
COMMENT ON COLUMN claims.service_state.next_try IS 'When a call tries to reach the service again (clock time); NULL: closed.';
COMMENT ON FUNCTION claims.service_states() IS 'In a cell: what claims.service_state shows. Locks nothing.';
INSERT INTO claims.audiences (function_name, audience) VALUES ('service_states', 'cell');

-- Cells may read it.
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
         WHERE p.pronamespace = 'claims'::regnamespace AND a.audience = ANY (change_grants.audiences) ORDER BY p.oid::regprocedure::text
    LOOP
        EXECUTE format('%s EXECUTE ON FUNCTION %s %s %I', verb, target, word, role_name);
    END LOOP;
    IF 'cell' = ANY (change_grants.audiences) THEN
        -- What tells a cell about itself: the columns it claims, how far its verification is and in whose hands, and the service.
        EXECUTE format('%s SELECT ON claims.claimed_columns, claims.verification_progress, claims.verification_workers, claims.service_state %s %I', verb, word, role_name);
    END IF;
    -- A role that keeps the functions of another audience keeps the schema.
    IF granting OR NOT EXISTS (SELECT FROM pg_proc p, aclexplode(p.proacl) a
                                WHERE p.pronamespace = 'claims'::regnamespace
                                  AND a.grantee = (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name)) THEN
        EXECUTE format('%s USAGE ON SCHEMA claims %s %I', verb, word, role_name);
    END IF;
END $$;

