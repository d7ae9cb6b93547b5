-- The epoch that the database of each cell has presented last; it decides which database acts as the cell.

CREATE TABLE claims.cell_epochs (
    cell_id      bigint      NOT NULL PRIMARY KEY,
    epoch        bigint      NOT NULL,
    presented_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE claims.cell_epochs IS
    'At the service: the epochs that distinguish the database of a cell from its clones and restored backups. Written by claims.present_epoch().';
COMMENT ON COLUMN claims.cell_epochs.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.cell_epochs.epoch IS 'The token that its database presented last.';
COMMENT ON COLUMN claims.cell_epochs.presented_at IS 'When it did (clock time).';
INSERT INTO claims.audiences (function_name, audience) VALUES ('present_epoch', 'cell');
SELECT pg_catalog.pg_extension_config_dump('claims.cell_epochs', '');
