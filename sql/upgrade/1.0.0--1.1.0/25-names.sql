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
      LEFT JOIN claims.cells cell ON cell.cell_id = c.creator_id;
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
INSERT INTO claims.audiences (function_name, audience) VALUES ('canonical', 'reader'), ('require_naming', 'cell');

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
