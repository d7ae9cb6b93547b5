-- The way from a cell to the service.

CREATE FUNCTION claims.service_validator("options" TEXT[], "catalog" oid) RETURNS VOID
    LANGUAGE c SET search_path TO pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'service_validator_wrapper';
CREATE FOREIGN DATA WRAPPER claims_service NO HANDLER VALIDATOR claims.service_validator;

CREATE FUNCTION claims.service_states() RETURNS TABLE (
    "service" TEXT, "breaker" TEXT, "failures" INT, "last_error" TEXT, "since" timestamp with time zone, "next_try" timestamp with time zone)
    LANGUAGE c STRICT SECURITY DEFINER SET search_path TO pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'service_states_wrapper';
CREATE VIEW claims.service_state AS
    SELECT s.service, s.breaker, s.failures, s.last_error, s.since, s.next_try FROM claims.service_states() s;
INSERT INTO claims.audiences (function_name, audience) VALUES ('service_states', 'cell');
