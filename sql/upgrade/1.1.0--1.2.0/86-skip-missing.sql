-- Begins that skip destroys, and which of the buckets a row answers.

DROP FUNCTION claims.begin_update(bigint, jsonb, jsonb, uuid, xid8);
CREATE  FUNCTION claims."begin_update"(
	"cell_id" bigint, /* Option < i64 > */
	"create_records" jsonb DEFAULT '[]', /* Option < Jsonb > */
	"destroy_records" jsonb DEFAULT '[]', /* Option < Jsonb > */
	"lease_uuid" uuid DEFAULT NULL, /* Option < PgUuid > */
	"cell_xid" xid8 DEFAULT NULL, /* Option < Xid8 > */
	"skip_missing" bool DEFAULT false /* Option < bool > */
) RETURNS uuid /* Result < PgUuid, ErrorReport > */
 
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'begin_update_2_wrapper';

DROP FUNCTION claims.begin_update_text(bigint, text, text, uuid, xid8);
CREATE  FUNCTION claims."begin_update_text"(
	"cell_id" bigint, /* Option < i64 > */
	"create_records" TEXT DEFAULT '[]', /* Option < & str > */
	"destroy_records" TEXT DEFAULT '[]', /* Option < & str > */
	"lease_uuid" uuid DEFAULT NULL, /* Option < PgUuid > */
	"cell_xid" xid8 DEFAULT NULL, /* Option < Xid8 > */
	"skip_missing" bool DEFAULT false, /* Option < bool > */
	"context" TEXT DEFAULT NULL, /* Option < & str > */
	"cell_role" TEXT DEFAULT NULL /* Option < & str > */
) RETURNS uuid /* Result < PgUuid, ErrorReport > */
 
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'begin_update_text_2_wrapper';

DROP FUNCTION claims.try_begin_update(bigint, jsonb, jsonb, uuid, xid8);
CREATE  FUNCTION claims."try_begin_update"(
	"cell_id" bigint, /* Option < i64 > */
	"create_records" jsonb DEFAULT '[]', /* Option < Jsonb > */
	"destroy_records" jsonb DEFAULT '[]', /* Option < Jsonb > */
	"lease_uuid" uuid DEFAULT NULL, /* Option < PgUuid > */
	"cell_xid" xid8 DEFAULT NULL, /* Option < Xid8 > */
	"skip_missing" bool DEFAULT false /* Option < bool > */
) RETURNS TABLE (
	"lease_uuid" uuid,  /* Option < PgUuid > */
	"conflicts" jsonb  /* Option < JsonText > */
)
 
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'try_begin_update_2_wrapper';

DROP FUNCTION claims.begin_first(bigint, jsonb, uuid, xid8);
CREATE  FUNCTION claims."begin_first"(
	"cell_id" bigint, /* Option < i64 > */
	"alternatives" jsonb, /* Option < Jsonb > */
	"lease_uuid" uuid DEFAULT NULL, /* Option < PgUuid > */
	"cell_xid" xid8 DEFAULT NULL, /* Option < Xid8 > */
	"skip_missing" bool DEFAULT false /* Option < bool > */
) RETURNS TABLE (
	"lease_uuid" uuid,  /* Option < PgUuid > */
	"chosen" INT,  /* Option < i32 > */
	"conflicts" jsonb  /* Option < JsonText > */
)
 
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'begin_first_2_wrapper';

DROP FUNCTION claims.get_records(jsonb);
CREATE FUNCTION claims."get_records"("buckets" jsonb) RETURNS TABLE (
    "uuid" uuid, "bucket_type" text, "bucket_value" text, "subject_type" text, "subject_id" text, "source_type" text, "source_id" text,
    "cell_id" bigint, "status" text, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone,
    "cell_name" text, "cell_address" text, "display_value" text, "ordinal" integer
)
STABLE SECURITY DEFINER PARALLEL SAFE SET search_path TO pg_catalog, pg_temp
LANGUAGE c AS 'MODULE_PATHNAME', 'get_records_3_wrapper';

-- include sql/install/service/check_distributed.sql
