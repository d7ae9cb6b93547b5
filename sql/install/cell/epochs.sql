-- In a cell: the epochs by which the service knows this database.

CREATE TABLE claims.own_epochs (
    cell_id     bigint      NOT NULL,
    epoch       bigint      NOT NULL,
    predecessor bigint,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    service     text        COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (cell_id, service)
);
COMMENT ON TABLE claims.own_epochs IS
    'In a cell: the tokens by which the service knows this database from its clones and from restored backups. Written by claims.reconcile(), '
    'claims.verify() and claims.adopt_cell(), in transactions of their own.';
COMMENT ON COLUMN claims.own_epochs.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.own_epochs.epoch IS 'The newest token, which the service may have.';
COMMENT ON COLUMN claims.own_epochs.predecessor IS
    'The token before it, which the service has unless it has the newest; NULL: the newest is the first.';
COMMENT ON COLUMN claims.own_epochs.made_at IS 'When it was made (clock time).';
COMMENT ON COLUMN claims.own_epochs.service IS
    'The foreign server of the service that has it; empty: that of an earlier version, which did not record it.';
SELECT pg_catalog.pg_extension_config_dump('claims.own_epochs', '');
