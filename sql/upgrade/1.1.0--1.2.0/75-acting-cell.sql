-- Saves present the epoch and the place of their database.

CREATE FUNCTION claims.acting_cell(cell_id bigint, epoch bigint, predecessor bigint, place bigint DEFAULT NULL, settles boolean DEFAULT false)
RETURNS bigint
LANGUAGE c AS 'MODULE_PATHNAME', 'acting_cell_wrapper';
-- include sql/install/service/acting_cell.sql
