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
