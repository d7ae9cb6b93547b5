-- A transaction's changes in several leases.

CREATE  FUNCTION claims."batch_limit"(
	"cell_id" bigint /* Option < i64 > */
) RETURNS INT /* Result < i32, ErrorReport > */
STABLE SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'batch_limit_wrapper';

-- include sql/install/service/batch_limit.sql
