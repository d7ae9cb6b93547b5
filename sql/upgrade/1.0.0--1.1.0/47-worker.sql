-- The log of passes, and the cells that the background worker attends to.

-- include sql/install/passes.sql
-- include sql/install/cell/worker.sql
CREATE FUNCTION claims.attend(cell_id bigint, service text) RETURNS void
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'attend_wrapper';
-- include sql/install/cell/automatic.sql
