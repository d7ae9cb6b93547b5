-- How names are compared. The types that are there go by bytes, as they did.

ALTER TABLE claims.bucket_types
    ADD COLUMN profile     text COLLATE "C" NOT NULL DEFAULT 'exact' CHECK (profile IN ('exact', 'casefold', 'username', 'domain', 'email', 'path')),
    ADD COLUMN confusables text COLLATE "C" NOT NULL DEFAULT 'allow' CHECK (confusables IN ('allow', 'reject'));
ALTER TABLE claims.claims ADD COLUMN display_value text COLLATE "C";
CREATE OR REPLACE VIEW claims.records AS
    SELECT c.uuid, bt.name AS bucket_type, c.bucket_value, st.name AS subject_type, c.subject_id,
           so.name AS source_type, c.source_id, c.creator_id AS cell_id,
           CASE c.status WHEN 1 THEN 'ACTIVE' WHEN 2 THEN 'LEASE_CREATING' WHEN 3 THEN 'LEASE_DESTROYING'
                         ELSE 'UNSPECIFIED' END AS status,
           c.lease_uuid, c.created_at, c.updated_at, cell.name AS cell_name, cell.address AS cell_address,
           c.display_value
      FROM claims.claims c
      LEFT JOIN claims.bucket_types bt ON bt.id = c.bucket_type
      LEFT JOIN claims.subject_types st ON st.id = c.subject_type
      LEFT JOIN claims.source_types so ON so.id = c.source_type
      LEFT JOIN claims.cells cell ON cell.cell_id = c.creator_id
     WHERE c.creator_id <> -1;
COMMENT ON COLUMN claims.records.bucket_value IS 'Value of the bucket in its canonical form, 1 to 1,024 characters of at most 2,600 bytes, compared byte by byte.';

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

-- Of the types that refuse names that look alike: which look has which claim. A table of its own, so that it costs the other types
-- nothing: not even the look at an index's condition.
CREATE TABLE claims.skeletons (
    skeleton     uuid NOT NULL,
    bucket_type  int  NOT NULL,
    bucket_value text COLLATE "C" NOT NULL,
    successor    text COLLATE "C",
    PRIMARY KEY (skeleton, bucket_type)
) WITH (vacuum_truncate = off);
SELECT pg_catalog.pg_extension_config_dump('claims.skeletons', '');
CREATE FUNCTION claims."begin_first"("cell_id" bigint, "alternatives" jsonb, "lease_uuid" uuid DEFAULT NULL, "cell_xid" xid8 DEFAULT NULL) RETURNS TABLE ("lease_uuid" uuid, "chosen" INT, "conflicts" jsonb)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'begin_first_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('begin_first', 'cell');

-- What nobody can have: beside each row stands a claim of nobody (creator_id -1), by which every begin finds it, at no cost.
CREATE TABLE claims.reservations (
    bucket_type   int         NOT NULL,
    bucket_value  text        COLLATE "C" NOT NULL,
    display_value text        COLLATE "C",
    reason        text        NOT NULL,
    reserved_by   text        NOT NULL,
    reserved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket_value, bucket_type)
);
COMMENT ON TABLE claims.reservations IS 'Names that nobody can have. Written by claims.reserve_names() and claims.unreserve_names().';
COMMENT ON COLUMN claims.reservations.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.reservations.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.reservations.display_value IS 'The name as it was given, where that is not its canonical form.';
COMMENT ON COLUMN claims.reservations.reason IS 'Why it is reserved.';
COMMENT ON COLUMN claims.reservations.reserved_by IS 'The role that reserved it.';
COMMENT ON COLUMN claims.reservations.reserved_at IS 'When it was reserved (clock time).';

CREATE VIEW claims.reserved_names AS
    SELECT coalesce(t.name, r.bucket_type::text) AS bucket_type, r.bucket_value, r.display_value, r.reason, r.reserved_by, r.reserved_at
      FROM claims.reservations r LEFT JOIN claims.bucket_types t ON t.id = r.bucket_type;
COMMENT ON VIEW claims.reserved_names IS 'Names that nobody can have, why, by whom and since when.';
COMMENT ON COLUMN claims.reserved_names.bucket_type IS 'The type by the name that is shown.';
COMMENT ON COLUMN claims.reserved_names.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.reserved_names.display_value IS 'The name as it was given, where that is not its canonical form.';
SELECT pg_catalog.pg_extension_config_dump('claims.reservations', '');
CREATE FUNCTION claims."reserve_names"("bucket_type" TEXT, "bucket_values" TEXT[], "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'reserve_names_wrapper';
COMMENT ON FUNCTION claims.reserve_names(text, text[], text) IS
    'Reserves names of a bucket type: nobody can have them. Returns how many were not reserved before. Administrators only, with a reason. 23505 where one is claimed, 55P03 where a lease or an open transaction is at one, with all of them as JSON in DETAIL; then nothing is reserved. Locks the names'' keys, in order; waits claims.wait_timeout at most.';
CREATE FUNCTION claims."unreserve_names"("bucket_type" TEXT, "bucket_values" TEXT[], "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'unreserve_names_wrapper';
COMMENT ON FUNCTION claims.unreserve_names(text, text[], text) IS
    'Gives names free that were reserved, and returns how many. Administrators only, with a reason. Locks their rows, in order.';
CREATE FUNCTION claims."set_profile"("bucket_type" TEXT, "profile" TEXT, "reason" TEXT, "confusables" TEXT DEFAULT NULL, "dry_run" bool DEFAULT true) RETURNS TABLE ("canonical" TEXT, "bucket_values" TEXT[], "cell_ids" bigint[])
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_profile_wrapper';
