-- Calls wait for names that other leases hold; limits of cells have a highest priority.

ALTER TABLE claims.limit_settings ADD COLUMN max_priority int CHECK (max_priority BETWEEN 0 AND 10),
    ADD COLUMN refusals_per_second int CHECK (refusals_per_second >= 1);
CREATE OR REPLACE VIEW claims.cell_limits AS
    SELECT c.cell_id, c.name AS cell_name, l.max_outstanding, l.max_batch_size, l.begins_per_second, l.reason, l.since, l.role, l.max_priority,
           l.refusals_per_second
      FROM claims.cells c JOIN claims.limit_settings l ON l.cell_id = c.cell_id
     WHERE num_nonnulls(l.max_outstanding, l.max_batch_size, l.begins_per_second, l.max_priority, l.refusals_per_second) > 0;

DROP FUNCTION claims.set_cell_limits(bigint, text, int, int, int);
CREATE FUNCTION claims."set_cell_limits"(
	"cell_id" bigint,
	"reason" TEXT,
	"max_outstanding" INT DEFAULT NULL,
	"max_batch_size" INT DEFAULT NULL,
	"begins_per_second" INT DEFAULT NULL,
	"max_priority" INT DEFAULT NULL,
	"refusals_per_second" INT DEFAULT NULL
) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_cell_limits_2_wrapper';

CREATE FUNCTION claims."list_lease_waiters"() RETURNS TABLE (
	"pid" INT,
	"cell_id" bigint,
	"since" timestamp with time zone,
	"priority" INT,
	"names" INT,
	"position" INT
)
STRICT SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_lease_waiters_wrapper';

-- include sql/install/service/waiters.sql
-- include sql/install/service/change_grants.sql
