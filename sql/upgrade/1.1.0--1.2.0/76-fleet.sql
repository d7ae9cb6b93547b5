-- Slots for verification, and settings as the defaults of arguments.

CREATE  FUNCTION claims."hold_verification_slot"(
	"cell_id" bigint, /* Option < i64 > */
	"seconds" INT /* Option < i32 > */
) RETURNS bool /* Result < bool, ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'hold_verification_slot_wrapper';

CREATE  FUNCTION claims."hold_slot_on_node"(
	"cell_id" bigint, /* Option < i64 > */
	"seconds" INT, /* Option < i32 > */
	"slots" bigint /* Option < i64 > */
) RETURNS bool /* Result < bool, ErrorReport > */
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'hold_slot_on_node_wrapper';

CREATE  FUNCTION claims."is_current_shard"(
	"shard_table" oid /* Option < Oid > */
) RETURNS bool /* Result < bool, ErrorReport > */
IMMUTABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'is_current_shard_wrapper';

-- include sql/install/service/verification_slots.sql

CREATE OR REPLACE FUNCTION claims."reconcile"(
	"cell_id" bigint, /* Option < i64 > */
	"service" TEXT, /* Option < String > */
	"stale_after" interval DEFAULT COALESCE(NULLIF(pg_catalog.current_setting('claims.stale_after', true), ''), '10 minutes')::pg_catalog.interval, /* Option < Interval > */
	"max_results" INT DEFAULT 100 /* Option < i32 > */
) RETURNS TABLE (
	"processed" bigint,  /* i64 */
	"committed" bigint,  /* i64 */
	"rolled_back" bigint,  /* i64 */
	"pending" bigint,  /* i64 */
	"orphaned" bigint  /* i64 */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'reconcile_wrapper';

CREATE OR REPLACE FUNCTION claims."judge_leases"(
	"leases" jsonb, /* Option < Jsonb > */
	"stale_after" interval DEFAULT COALESCE(NULLIF(pg_catalog.current_setting('claims.stale_after', true), ''), '10 minutes')::pg_catalog.interval /* Option < Interval > */
) RETURNS TABLE (
	"lease_uuid" uuid,  /* PgUuid */
	"verdict" TEXT  /* String */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'judge_leases_wrapper';

CREATE OR REPLACE FUNCTION claims."verify"(
	"cell_id" bigint, /* Option < i64 > */
	"service" TEXT, /* Option < String > */
	"source_type" TEXT, /* Option < String > */
	"batch_size" INT DEFAULT 1000, /* Option < i32 > */
	"recent" interval DEFAULT COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval, /* Option < Interval > */
	"correct" bool DEFAULT false, /* Option < bool > */
	"max_runtime" interval DEFAULT NULL /* Option < Interval > */
) RETURNS TABLE (
	"checked" bigint,  /* i64 */
	"missing" bigint,  /* i64 */
	"different" bigint,  /* i64 */
	"extra" bigint,  /* i64 */
	"corrected" bigint,  /* i64 */
	"held_by_other" bigint,  /* i64 */
	"skipped" bigint,  /* i64 */
	"finished" bool  /* bool */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'verify_wrapper';

CREATE OR REPLACE FUNCTION claims."verify_share"(
	"pass" uuid, /* Option < PgUuid > */
	"worker" TEXT, /* Option < String > */
	"service" TEXT, /* Option < String > */
	"batch_size" INT DEFAULT 1000, /* Option < i32 > */
	"recent" interval DEFAULT COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval, /* Option < Interval > */
	"hold_for" interval DEFAULT '1 minute' /* Option < Interval > */
) RETURNS TABLE (
	"checked" bigint,  /* i64 */
	"missing" bigint,  /* i64 */
	"different" bigint,  /* i64 */
	"extra" bigint,  /* i64 */
	"corrected" bigint,  /* i64 */
	"held_by_other" bigint,  /* i64 */
	"skipped" bigint,  /* i64 */
	"in_hand" bool,  /* bool */
	"finished" bool  /* bool */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'verify_share_wrapper';

DROP FUNCTION claims.list_discrepancies(bigint, text, text, text, int, interval);
CREATE  FUNCTION claims."list_discrepancies"(
	"cell_id" bigint, /* Option < i64 > */
	"service" TEXT, /* Option < String > */
	"source_type" TEXT, /* Option < String > */
	"after" TEXT DEFAULT NULL, /* Option < String > */
	"max_results" INT DEFAULT 100, /* Option < i32 > */
	"recent" interval DEFAULT COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval, /* Option < Interval > */
	"outcome" TEXT DEFAULT NULL /* Option < String > */
) RETURNS TABLE (
	"discrepancy" TEXT,  /* & '_ str */
	"bucket_type" TEXT,  /* String */
	"bucket_value" TEXT,  /* String */
	"source_id" TEXT,  /* Option < String > */
	"holder_cell_id" bigint,  /* Option < i64 > */
	"outcome" TEXT,  /* Option < & '_ str > */
	"cursor" TEXT  /* String */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'list_discrepancies_2_wrapper';

CREATE OR REPLACE FUNCTION claims."verify_records"(
	"cell_id" bigint, /* Option < i64 > */
	"source_type" TEXT, /* Option < String > */
	"source_id_gt" TEXT, /* Option < String > */
	"source_id_lte" TEXT, /* Option < String > */
	"expected" jsonb, /* Option < Jsonb > */
	"recent" interval DEFAULT COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval, /* Option < Interval > */
	"correct" bool DEFAULT false, /* Option < bool > */
	"extra_uuids" uuid[] DEFAULT NULL /* :: std :: option :: Option < Vec < Option < PgUuid > > > */
) RETURNS TABLE (
	"discrepancy" TEXT,  /* & '_ str */
	"bucket_type" TEXT,  /* Option < String > */
	"bucket_value" TEXT,  /* String */
	"expected" jsonb,  /* Option < JsonText > */
	"actual" jsonb,  /* Option < JsonText > */
	"outcome" TEXT  /* Option < & '_ str > */
)
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'verify_records_wrapper';
