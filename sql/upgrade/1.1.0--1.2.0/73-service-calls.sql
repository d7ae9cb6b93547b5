-- Calls and connections of a cell's sessions, for metrics.

CREATE  FUNCTION claims."service_calls"() RETURNS TABLE (
	"service" TEXT,  /* String */
	"calling" bigint,  /* i64 */
	"waiting" bigint,  /* i64 */
	"waiting_for_place" bigint,  /* i64 */
	"connections" bigint,  /* i64 */
	"refused_connections" bigint,  /* i64 */
	"failed_calls" bigint  /* i64 */
)
STRICT SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'service_calls_wrapper';

-- include sql/install/service/feed_holder.sql
-- include sql/install/metrics.sql
