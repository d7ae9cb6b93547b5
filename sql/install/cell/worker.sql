-- The cells that the background worker attends to.

CREATE TABLE claims.attended_cells (
    cell_id     bigint NOT NULL PRIMARY KEY,
    service     text   NOT NULL,
    attended_in text
);
COMMENT ON TABLE claims.attended_cells IS
    'In a cell: the cells that the background worker attends to. Written by claims.attend() and claims.automatic().';
COMMENT ON COLUMN claims.attended_cells.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.attended_cells.service IS 'Name of the foreign server that leads to the shared database.';
COMMENT ON COLUMN claims.attended_cells.attended_in IS
    'Where it was attended: the identifier of the database system and the oid of the database. Elsewhere, as in a dump that is being restored, the '
    'worker begins when claims.own_epochs has a row of the cell.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('attend', 'cell');

COMMENT ON FUNCTION claims.attend(bigint, text) IS
    'In a cell: from now on the background workers of this database settle, recover and verify for the cell at a service, a foreign server; NULL '
    'ends that. For roles that may act for the cell. 42704 if there is no such server. Has an effect only if the library is preloaded and '
    'claims.databases names this database. Locks the cell''s row.';

SELECT pg_catalog.pg_extension_config_dump('claims.attended_cells', '');
