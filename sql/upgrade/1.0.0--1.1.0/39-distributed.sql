-- Distributed tables.

ALTER TABLE claims.cells ADD COLUMN role_name name;
-- include sql/install/service/check_distributed.sql

-- The change feed on distributed tables: functions of the node that keeps it.

CREATE FUNCTION claims."take_change_places"("row_count" INT) RETURNS bigint[]
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'take_change_places_wrapper';
CREATE FUNCTION claims."change_node"() RETURNS INT
STRICT STABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'change_node_wrapper';
-- The counter of begins of cells that have a limit of begins per second.
CREATE FUNCTION claims."keep_pace"("cell_id" bigint, "per_second" INT) RETURNS bigint
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'keep_pace_wrapper';

-- The lock of a change of profile against writers of names.

-- include sql/install/service/hold_naming.sql

-- Functions that statements on distributed tables call on a node.

CREATE FUNCTION claims."create_on_node"(
	"anchor" TEXT,
	"anchors" TEXT[],
	"parts" INT[],
	"shards" bigint[],
	"lease_uuid" uuid,
	"cell_id" bigint,
	"made_at" timestamp with time zone,
	"uuids" uuid[],
	"bucket_types" INT[],
	"bucket_values" TEXT[],
	"subject_types" INT[],
	"subject_ids" TEXT[],
	"source_types" INT[],
	"source_ids" TEXT[],
	"display_values" TEXT[]
) RETURNS INT
IMMUTABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'create_on_node_wrapper';
CREATE FUNCTION claims."settle_on_node"(
	"anchor_type" INT,
	"anchor_value" TEXT,
	"anchor_types" INT[],
	"anchor_values" TEXT[],
	"parts" INT[],
	"shards" bigint[],
	"leases" uuid[],
	"bucket_types" INT[],
	"bucket_values" TEXT[],
	"status" smallint,
	"settled_at" timestamp with time zone
) RETURNS INT
IMMUTABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'settle_on_node_wrapper';
CREATE FUNCTION claims."put_outcome_on_node"(
	"lease_uuid" uuid,
	"cell_id" bigint,
	"request_digest" bytea,
	"shard" bigint,
	"outcome" TEXT,
	"settled_at" timestamp with time zone
) RETURNS bool
IMMUTABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'put_outcome_on_node_wrapper';
