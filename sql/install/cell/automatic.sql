-- Turning automatic mode on and off.

CREATE OR REPLACE FUNCTION claims.automatic(cell_id bigint, service text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF (cell_id IS NULL) <> (service IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'cell_id and service must be given both, or be both null',
            HINT = 'automatic(NULL, NULL) turns automatic mode off.';
    END IF;
    -- The caller needs rights for the cell whose automatic mode is on, and for the one whose it will be.
    IF EXISTS (SELECT FROM claims.automatic_service a JOIN claims.cells c ON c.cell_id = a.cell_id) THEN
        PERFORM claims.require_cell(a.cell_id) FROM claims.automatic_service a;
    ELSIF EXISTS (SELECT FROM claims.automatic_service) THEN
        PERFORM claims.require_admin();
    END IF;
    IF cell_id IS NULL THEN
        DELETE FROM claims.automatic_service;
        RETURN;
    END IF;
    -- Raises unless the caller may act for the cell, and may have this server called.
    PERFORM claims.attend(cell_id, service);
    INSERT INTO claims.automatic_service AS a (cell_id, service) VALUES (cell_id, service)
        ON CONFLICT (single) DO UPDATE SET cell_id = excluded.cell_id, service = excluded.service;
END $$;
COMMENT ON FUNCTION claims.automatic(bigint, text) IS
    'In a cell: from now on every transaction that changed claimed columns calls begin_pending(cell_id, service) when it is about to commit; both '
    'NULL: turns that off. The background worker attends to the cell from now on, also when automatic mode is turned off again: '
    'claims.attend(cell_id, NULL) ends that. For roles that may act for the cell. Locks the row of claims.automatic_service.';
