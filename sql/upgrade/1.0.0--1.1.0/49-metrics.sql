-- Metrics.

CREATE FUNCTION claims."counters"() RETURNS TABLE ("name" TEXT, "labels" jsonb, "value" double precision)
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'read_counters_wrapper';
CREATE FUNCTION claims."note_check"("problems" bigint, "future" bigint) RETURNS VOID
STRICT STABLE
LANGUAGE c
AS 'MODULE_PATHNAME', 'note_check_wrapper';
-- include sql/install/service/metrics_distributed.sql
-- include sql/install/metrics.sql
