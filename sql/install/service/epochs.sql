-- The epoch that the database of each cell has presented last; it decides which database acts as the cell.

CREATE TABLE claims.cell_epochs (
    cell_id      bigint      NOT NULL PRIMARY KEY,
    epoch        bigint      NOT NULL,
    presented_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    place        bigint,
    lineage      bigint,
    timeline     int,
    address      text,
    acted_at     timestamptz
);
COMMENT ON TABLE claims.cell_epochs IS
    'At the service: the epochs that distinguish the database of a cell from its clones and restored backups. Written by claims.present_epoch().';
COMMENT ON COLUMN claims.cell_epochs.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.cell_epochs.epoch IS 'The token that its database presented last.';
COMMENT ON COLUMN claims.cell_epochs.presented_at IS 'When it did (clock time).';
COMMENT ON COLUMN claims.cell_epochs.place IS
    'A hash of the server, database, machine and directory from which the cell acts; NULL: not known. A copy with the same epoch has another one.';
COMMENT ON COLUMN claims.cell_epochs.lineage IS 'A hash of the server''s system identifier and the database, which copies and standbys have in common.';
COMMENT ON COLUMN claims.cell_epochs.timeline IS 'The timeline on which it writes: a standby that was promoted has a later one.';
COMMENT ON COLUMN claims.cell_epochs.address IS 'The machine and the directory in words, as the cell has told them.';
COMMENT ON COLUMN claims.cell_epochs.acted_at IS
    'When the cell''s database has acted last, noted every ten seconds (clock time). Another place may take over when that is 30 seconds ago.';
INSERT INTO claims.audiences (function_name, audience) VALUES ('present_epoch', 'cell');
SELECT pg_catalog.pg_extension_config_dump('claims.cell_epochs', '');
