-- How names are compared. Existing types still compare bytes.

ALTER TABLE claims.bucket_types
    ADD COLUMN profile     text COLLATE "C" NOT NULL DEFAULT 'exact' CHECK (profile IN ('exact', 'casefold', 'username', 'domain', 'email', 'path')),
    ADD COLUMN confusables text COLLATE "C" NOT NULL DEFAULT 'allow' CHECK (confusables IN ('allow', 'reject'));
ALTER TABLE claims.claims ADD COLUMN display_value text COLLATE "C";

DROP FUNCTION claims.get_record(text, text);
CREATE FUNCTION claims."get_record"("bucket_type" TEXT, "bucket_value" TEXT) RETURNS TABLE ("uuid" uuid, "bucket_type" TEXT, "bucket_value" TEXT, "subject_type" TEXT, "subject_id" TEXT, "source_type" TEXT, "source_id" TEXT, "cell_id" bigint, "status" TEXT, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone, "cell_name" TEXT, "cell_address" TEXT, "display_value" TEXT)
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'get_record_2_wrapper';
DROP FUNCTION claims.get_records(jsonb);
CREATE FUNCTION claims."get_records"("buckets" jsonb) RETURNS TABLE ("uuid" uuid, "bucket_type" TEXT, "bucket_value" TEXT, "subject_type" TEXT, "subject_id" TEXT, "source_type" TEXT, "source_id" TEXT, "cell_id" bigint, "status" TEXT, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone, "cell_name" TEXT, "cell_address" TEXT, "display_value" TEXT)
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'get_records_2_wrapper';
CREATE FUNCTION claims."canonical"("bucket_type" TEXT, "bucket_value" TEXT) RETURNS TEXT
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'canonical_wrapper';
CREATE FUNCTION claims."require_naming"("unicode" TEXT, "bucket_types" TEXT[], "profiles" TEXT[]) RETURNS VOID
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'require_naming_wrapper';
CREATE FUNCTION claims."canonical_form"("profile" TEXT, "name" TEXT) RETURNS TEXT
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
COST 20
AS 'MODULE_PATHNAME', 'canonical_form_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('canonical', 'reader'), ('canonical_form', 'reader'), ('require_naming', 'cell');

-- include sql/install/service/names.sql
CREATE FUNCTION claims."begin_first"("cell_id" bigint, "alternatives" jsonb, "lease_uuid" uuid DEFAULT NULL, "cell_xid" xid8 DEFAULT NULL) RETURNS TABLE ("lease_uuid" uuid, "chosen" INT, "conflicts" jsonb)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'begin_first_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('begin_first', 'cell');

CREATE FUNCTION claims."reserve_names"("bucket_type" TEXT, "bucket_values" TEXT[], "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'reserve_names_wrapper';
CREATE FUNCTION claims."unreserve_names"("bucket_type" TEXT, "bucket_values" TEXT[], "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'unreserve_names_wrapper';
CREATE FUNCTION claims."set_profile"("bucket_type" TEXT, "profile" TEXT, "reason" TEXT, "confusables" TEXT DEFAULT NULL, "dry_run" bool DEFAULT true) RETURNS TABLE ("canonical" TEXT, "bucket_values" TEXT[], "cell_ids" bigint[])
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_profile_wrapper';
