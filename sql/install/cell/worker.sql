-- The cells that the background worker attends to.

CREATE TABLE claims.attended_cells (
    cell_id     bigint  NOT NULL,
    service     text    NOT NULL,
    attended_in text,
    by_type     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (cell_id, service)
);
CREATE UNIQUE INDEX attended_cells_others ON claims.attended_cells (cell_id) WHERE NOT by_type;
COMMENT ON INDEX claims.attended_cells_others IS 'A cell has one service for all types that are not named.';
COMMENT ON TABLE claims.attended_cells IS
    'In a cell: the cells that the background worker attends to, and their services. Written by claims.attend() and claims.automatic(), and by the '
    'worker when a foreign server was dropped and nothing needs it any more.';
COMMENT ON COLUMN claims.attended_cells.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.attended_cells.service IS 'Name of the foreign server that leads to the shared database.';
COMMENT ON COLUMN claims.attended_cells.attended_in IS
    'Where it was attended: the identifier of the database system and the oid of the database. Elsewhere, as in a dump that is being restored, the '
    'worker begins when claims.own_epochs has a row of the cell.';
COMMENT ON COLUMN claims.attended_cells.by_type IS 'Whether the service is only named for bucket types, by claims.automatic().';

INSERT INTO claims.audiences (function_name, audience) VALUES ('attend', 'cell');

COMMENT ON FUNCTION claims.attend(bigint, text) IS
    'In a cell: from now on the background workers of this database settle, recover and verify for the cell at a service, a foreign server, and at '
    'those that claims.automatic() names for bucket types; NULL ends that. For roles that may act for the cell. 42704 if there is no such server. Has an effect only if the library is preloaded and '
    'claims.databases names this database. Locks the cell''s row.';

SELECT pg_catalog.pg_extension_config_dump('claims.attended_cells', '');
