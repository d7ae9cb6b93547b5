-- What clients say about who acts and why.

ALTER TABLE claims.claim_leases ADD COLUMN context text COLLATE "C", ADD COLUMN cell_role text COLLATE "C";

DROP FUNCTION claims.list_leases(bigint, text, int, timestamptz);
CREATE FUNCTION claims."list_leases"(
	"cell_id" bigint,
	"after" TEXT DEFAULT NULL,
	"max_results" INT DEFAULT 100,
	"created_after" timestamp with time zone DEFAULT NULL
) RETURNS TABLE (
	"lease_uuid" uuid,
	"cell_id" bigint,
	"created_at" timestamp with time zone,
	"updated_at" timestamp with time zone,
	"payload" jsonb,
	"cursor" TEXT,
	"cell_xid" xid8,
	"context" TEXT,
	"cell_role" TEXT
)
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_leases_2_wrapper';

DROP FUNCTION claims.lease_details(uuid, text, text);
CREATE FUNCTION claims."lease_details"(
	"lease_uuid" uuid DEFAULT NULL,
	"bucket_type" TEXT DEFAULT NULL,
	"bucket_value" TEXT DEFAULT NULL
) RETURNS TABLE (
	"lease_uuid" uuid,
	"cell_id" bigint,
	"cell_name" TEXT,
	"role_name" name,
	"created_at" timestamp with time zone,
	"age" interval,
	"cell_xid" xid8,
	"creates" jsonb,
	"destroys" jsonb,
	"context" TEXT,
	"cell_role" TEXT
)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'lease_details_2_wrapper';

ALTER TABLE claims.change_sets ADD COLUMN context text COLLATE "C", ADD COLUMN cell_role text COLLATE "C";
CREATE OR REPLACE VIEW claims.changes AS
    SELECT s.id + n.nth - 1 AS id, s.xid, s.at, s.op, n.bucket_type, n.bucket_value, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor,
           s.context, s.cell_role
      FROM claims.change_sets s
     CROSS JOIN LATERAL unnest(s.bucket_types, s.bucket_values) WITH ORDINALITY AS n (bucket_type, bucket_value, nth);

DROP FUNCTION claims.changes_of(int, text);
CREATE FUNCTION claims.changes_of(bucket_type int, bucket_value text)
    RETURNS TABLE (at timestamptz, op text, old_cell_id bigint, new_cell_id bigint, lease_uuid uuid, actor name, context text, cell_role text)
    LANGUAGE sql STABLE ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_seqscan = on SET enable_bitmapscan = on SET jit = off
AS $$
    SELECT s.at, s.op, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor, s.context, s.cell_role
      FROM claims.change_sets s
     CROSS JOIN LATERAL unnest(s.bucket_types, s.bucket_values) WITH ORDINALITY AS n (bucket_type, bucket_value, nth)
     WHERE s.bucket_values @> ARRAY[$2 COLLATE "C"] AND n.bucket_type = $1 AND n.bucket_value = $2
     ORDER BY s.id + n.nth
$$;

DROP FUNCTION claims.list_changes(text, int, text);
CREATE FUNCTION claims."list_changes"(
	"after" TEXT DEFAULT NULL,
	"max_results" INT DEFAULT 1000,
	"bucket_type" TEXT DEFAULT NULL
) RETURNS TABLE (
	"id" bigint,
	"xid" xid8,
	"at" timestamp with time zone,
	"op" TEXT,
	"bucket_type" TEXT,
	"bucket_value" TEXT,
	"old_cell_id" bigint,
	"new_cell_id" bigint,
	"lease_uuid" uuid,
	"actor" name,
	"cursor" TEXT,
	"old_cell_name" TEXT,
	"new_cell_name" TEXT,
	"context" TEXT,
	"cell_role" TEXT
)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_changes_2_wrapper';

DROP FUNCTION claims.bucket_history(text, text);
CREATE FUNCTION claims."bucket_history"(
	"bucket_type" TEXT,
	"bucket_value" TEXT
) RETURNS TABLE (
	"cell_id" bigint,
	"cell_name" TEXT,
	"since" timestamp with time zone,
	"until" timestamp with time zone,
	"op" TEXT,
	"lease_uuid" uuid,
	"actor" name,
	"context" TEXT,
	"cell_role" TEXT
)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'bucket_history_2_wrapper';
