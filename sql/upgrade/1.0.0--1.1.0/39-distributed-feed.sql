-- The change feed where the tables are spread: what the node that keeps it tells others.

CREATE FUNCTION claims."take_change_places"("row_count" INT) RETURNS bigint[]
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'take_change_places_wrapper';
CREATE FUNCTION claims."change_node"() RETURNS INT
STRICT STABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'change_node_wrapper';
-- Where the begins of cells that have a rate are counted.
CREATE FUNCTION claims."keep_pace"("cell_id" bigint, "per_second" INT) RETURNS bigint
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'keep_pace_wrapper';
