-- The checks of SQL functions whether the tables are in this database.

CREATE FUNCTION claims."require_own_tables"() RETURNS VOID
STRICT STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'require_own_tables_wrapper';

CREATE FUNCTION claims."require_tables_here"() RETURNS VOID
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'require_tables_here_wrapper';

CREATE FUNCTION claims."distribute"("shards" INT DEFAULT NULL, "reason" TEXT DEFAULT NULL) RETURNS INT
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'distribute_wrapper';
CREATE FUNCTION claims."buckets_in_flight"("shard_name" TEXT, "bucket_values" TEXT[], "bucket_types" INT[]) RETURNS INT[]
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'buckets_in_flight_wrapper';
CREATE FUNCTION claims."is_lease_in_flight"("shard_name" TEXT, "lease_uuid" uuid) RETURNS bool
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'is_lease_in_flight_wrapper';
CREATE FUNCTION claims."is_look_in_flight"("shard_name" TEXT, "skeleton" uuid, "bucket_type" INT) RETURNS bool
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'is_look_in_flight_wrapper';
CREATE FUNCTION claims."is_look_reserved"("shard_name" TEXT, "skeleton" uuid, "bucket_type" INT, "waits" bool) RETURNS bool
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'is_look_reserved_wrapper';
