-- The way from a cell to the service: servers of this wrapper lead to the shared database.

CREATE FOREIGN DATA WRAPPER claims_service NO HANDLER VALIDATOR claims.service_validator;
COMMENT ON FOREIGN DATA WRAPPER claims_service IS
    'In a cell: its servers lead to the shared database. Options are those of libpq; user and password are in the user mapping of the '
    'extension''s owner, or of PUBLIC.';
COMMENT ON FUNCTION claims.service_validator(text[], oid) IS 'Internal: validator of the foreign-data wrapper claims_service.';
-- A foreign-data wrapper needs a superuser as its owner, and the validator runs with the rights of the role that creates a server:
-- only a superuser may replace it.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION claims.service_validator(text[], oid) OWNER TO %I', pg_catalog.pg_get_userbyid(10));
    EXECUTE format('ALTER FOREIGN DATA WRAPPER claims_service OWNER TO %I', pg_catalog.pg_get_userbyid(10));
END $$;

CREATE VIEW claims.service_state AS
    SELECT s.service, s.breaker, s.failures, s.last_error, s.since, s.next_try FROM claims.service_states() s;
COMMENT ON VIEW claims.service_state IS
    'In a cell: the services that were called, and whether calls of this session are made or fail at once. If the library is preloaded, all '
    'sessions of the server share one breaker for each service; otherwise each session has its own.';
COMMENT ON COLUMN claims.service_state.service IS 'The foreign server.';
COMMENT ON COLUMN claims.service_state.breaker IS
    'closed: calls of this session are made; open: they fail at once; trying: one call is let through, the others fail at once. If the library is '
    'not preloaded, each session has a state of its own. If it is preloaded, all sessions of the server share the state, with one exception: '
    'while all failures are of one session, the breaker is open for that session and closed for all others.';
COMMENT ON COLUMN claims.service_state.failures IS
    'Consecutive failures to reach the service or to get its answer: of all sessions of the server if the library is preloaded, otherwise of this '
    'session.';
COMMENT ON COLUMN claims.service_state.last_error IS 'Message of the last failure.';
COMMENT ON COLUMN claims.service_state.since IS 'When the breaker changed to this state (clock time).';
COMMENT ON COLUMN claims.service_state.next_try IS 'When the next call is let through (clock time); NULL if closed.';
COMMENT ON FUNCTION claims.service_states() IS 'Internal: the rows of claims.service_state. Locks nothing.';
INSERT INTO claims.audiences (function_name, audience) VALUES ('service_states', 'cell');
