-- Automatic mode in the shared database itself.

CREATE FUNCTION claims.automatic_here(cell_id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    -- The cells of other databases have roles here, too. None of them may take over the names of the tables of this database.
    PERFORM claims.require_admin();
    PERFORM claims.require_tables_here();
    IF cell_id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'cell_id must not be null', HINT = 'automatic(NULL, NULL) turns automatic mode off.';
    END IF;
    IF NOT EXISTS (SELECT FROM claims.cells c WHERE c.cell_id = cell_id) THEN
        RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = format('cell %s is not registered', cell_id),
            HINT = 'Register it with claims.register_cell().';
    END IF;
    IF EXISTS (SELECT FROM claims.automatic_types t WHERE t.cell_id <> cell_id) THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('automatic mode is on for cell %s', (SELECT min(t.cell_id) FROM claims.automatic_types t)),
            DETAIL = 'All types of a database are claimed for one cell.', HINT = 'Turn it off first: automatic(NULL, NULL).';
    END IF;
    INSERT INTO claims.automatic_service AS a (cell_id, service) VALUES (cell_id, NULL)
        ON CONFLICT (single) DO UPDATE SET cell_id = excluded.cell_id, service = NULL;
END $$;
COMMENT ON FUNCTION claims.automatic_here(bigint) IS
    'In the shared database, where it has the application''s tables, too: from now on every transaction that changed claimed columns claims and gives '
    'up their names for the cell in itself, when it is about to commit, but those of types that automatic() has given to a service. The claims are ACTIVE at its COMMIT, and a ROLLBACK leaves none. '
    'automatic(NULL, NULL) turns that off. For administrators. Locks the row of claims.automatic_service.';
