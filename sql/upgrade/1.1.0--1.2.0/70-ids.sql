-- Ranges of ids.

CREATE FUNCTION claims."add_id_space"(
	"name" TEXT,
	"reason" TEXT,
	"first_id" bigint DEFAULT 1,
	"last_id" bigint DEFAULT 9223372036854775806,
	"block_size" bigint DEFAULT NULL,
	"max_range" bigint DEFAULT 1000000,
	"ranges_per_day" INT DEFAULT 100
) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_id_space_wrapper';

CREATE FUNCTION claims."lease_id_range"(
	"cell_id" bigint,
	"id_space" TEXT,
	"size" bigint DEFAULT 1000000,
	"continue_after" bigint DEFAULT NULL,
	"at_most" bigint DEFAULT NULL,
	"or_less" bool DEFAULT false
) RETURNS int8range
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'lease_id_range_wrapper';

CREATE FUNCTION claims."confirm_id_range"(
	"cell_id" bigint,
	"id_space" TEXT,
	"first_id" bigint,
	"last_id" bigint
) RETURNS TEXT
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'confirm_id_range_wrapper';

CREATE FUNCTION claims."restore_id_range"(
	"cell_id" bigint,
	"id_space" TEXT,
	"first_id" bigint,
	"last_id" bigint,
	"reason" TEXT
) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'restore_id_range_wrapper';

CREATE FUNCTION claims."use_id_space"(
	"sequence" regclass,
	"id_space" TEXT,
	"low_water" bigint DEFAULT 100000
) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'use_id_space_wrapper';

CREATE FUNCTION claims."refill_ids"(
	"cell_id" bigint,
	"service" TEXT
) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'refill_ids_wrapper';

-- include sql/install/service/ids.sql
-- include sql/install/cell/ids.sql
