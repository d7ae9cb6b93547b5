-- Transfers: the claims of some subjects, or all of a cell, move from one cell to another, for readers all at once.

CREATE TABLE claims.cell_transfers (
    transfer_uuid   uuid        PRIMARY KEY,
    from_cell       bigint      NOT NULL,
    to_cell         bigint      NOT NULL,
    cell_id         bigint      NOT NULL,
    state           text        COLLATE "C" NOT NULL CHECK (state IN ('preparing', 'prepared', 'switched', 'finishing', 'finished', 'cancelled')),
    held            bigint      NOT NULL DEFAULT 0,
    skipped         bigint      NOT NULL DEFAULT 0,
    moved           bigint      NOT NULL DEFAULT 0,
    subjects        bigint,
    request_digest  bytea       NOT NULL,
    marking_after   text        COLLATE "C",
    releasing_after text        COLLATE "C",
    reason          text        NOT NULL,
    role            name        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    prepared_at     timestamptz,
    switched_at     timestamptz,
    reversed_at     timestamptz,
    ended_at        timestamptz,
    sealed_by       text        COLLATE "C"
);
-- Reads for a cell use it to find the few transfers that have brought it claims which are still stored under another cell.
CREATE INDEX cell_transfers_arrived ON claims.cell_transfers (cell_id) WHERE cell_id <> from_cell AND ended_at IS NULL;
COMMENT ON TABLE claims.cell_transfers IS
    'Every transfer. While a claim is TRANSFERRING (status 4), cell_id of its transfer is the owner: a switch changes this one row. Written by '
    'claims.prepare_transfer() and the functions after it; claims.transfers shows them.';
COMMENT ON INDEX claims.cell_transfers_arrived IS 'Finds the transfers whose claims belong to another cell than their creator_id.';
COMMENT ON COLUMN claims.cell_transfers.transfer_uuid IS 'The transfer; the lease_uuid of the claims that it holds.';
COMMENT ON COLUMN claims.cell_transfers.from_cell IS 'The cell that the claims come from: their creator_id while the transfer holds them.';
COMMENT ON COLUMN claims.cell_transfers.to_cell IS 'The cell that they go to.';
COMMENT ON COLUMN claims.cell_transfers.cell_id IS 'The cell that every read returns for them.';
COMMENT ON COLUMN claims.cell_transfers.state IS 'preparing, prepared, switched, finishing, finished or cancelled.';
COMMENT ON COLUMN claims.cell_transfers.held IS 'How many claims it holds at the moment.';
COMMENT ON COLUMN claims.cell_transfers.skipped IS
    'How many claims the last pass of prepare_transfer() skipped, because a lease or another transaction held them.';
COMMENT ON COLUMN claims.cell_transfers.moved IS 'How many claims finish_transfer() has made ACTIVE.';
COMMENT ON COLUMN claims.cell_transfers.subjects IS 'How many subjects it names; NULL: it moves all claims of the cell.';
COMMENT ON COLUMN claims.cell_transfers.request_digest IS 'SHA-256 of cells and subjects: tells a repeat from another request.';
COMMENT ON COLUMN claims.cell_transfers.marking_after IS 'Position at which the pass of prepare_transfer() continues; NULL: at the start.';
COMMENT ON COLUMN claims.cell_transfers.releasing_after IS 'Position at which finish_transfer() or cancel_transfer() continues; NULL: at the start.';
COMMENT ON COLUMN claims.cell_transfers.reason IS 'The reason that was given when it was first prepared.';
COMMENT ON COLUMN claims.cell_transfers.role IS 'Role that prepared it first, by its name at that time.';
COMMENT ON COLUMN claims.cell_transfers.created_at IS 'When it was first prepared (clock time).';
COMMENT ON COLUMN claims.cell_transfers.updated_at IS 'When a call last changed it (clock time).';
COMMENT ON COLUMN claims.cell_transfers.prepared_at IS 'When it was last prepared completely (clock time).';
COMMENT ON COLUMN claims.cell_transfers.switched_at IS 'When it was last switched (clock time).';
COMMENT ON COLUMN claims.cell_transfers.reversed_at IS 'When it was last reversed (clock time).';
COMMENT ON COLUMN claims.cell_transfers.ended_at IS 'When it was finished or cancelled (clock time).';
COMMENT ON COLUMN claims.cell_transfers.sealed_by IS
    'Where it moves all claims of a cell: the modes under which the pass of prepare_transfer() began, if it can miss no claim; NULL: it can.';

CREATE TABLE claims.transfer_subjects (
    transfer_uuid uuid NOT NULL,
    subject_type  int  NOT NULL,
    subject_id    text COLLATE "C" NOT NULL,
    PRIMARY KEY (transfer_uuid, subject_type, subject_id)
);
COMMENT ON TABLE claims.transfer_subjects IS 'The subjects whose claims a transfer moves. Written by claims.prepare_transfer().';
COMMENT ON COLUMN claims.transfer_subjects.transfer_uuid IS 'The transfer.';
COMMENT ON COLUMN claims.transfer_subjects.subject_type IS 'Type of the subject: claims.subject_types.id.';
COMMENT ON COLUMN claims.transfer_subjects.subject_id IS 'Id of the subject, kept as text.';

CREATE VIEW claims.transfers AS
    SELECT t.transfer_uuid, t.state, t.from_cell, f.name AS from_name, t.to_cell, o.name AS to_name, t.cell_id,
           t.subjects, t.held, t.skipped, t.moved, t.reason, t.role, t.created_at, t.updated_at, t.prepared_at, t.switched_at, t.reversed_at,
           t.ended_at
      FROM claims.cell_transfers t
      LEFT JOIN claims.cells f ON f.cell_id = t.from_cell
      LEFT JOIN claims.cells o ON o.cell_id = t.to_cell;
COMMENT ON VIEW claims.transfers IS 'The progress of each transfer of a customer''s claims from one cell to another, in numbers; no names.';
COMMENT ON COLUMN claims.transfers.transfer_uuid IS 'The transfer.';
COMMENT ON COLUMN claims.transfers.state IS
    'preparing: claims are being marked; prepared: all are; switched: every read returns the new cell; finishing: claims become ACTIVE; finished; '
    'cancelled.';
COMMENT ON COLUMN claims.transfers.from_cell IS 'The cell that the claims come from.';
COMMENT ON COLUMN claims.transfers.from_name IS 'Its name, if any.';
COMMENT ON COLUMN claims.transfers.to_cell IS 'The cell that they go to.';
COMMENT ON COLUMN claims.transfers.to_name IS 'Its name, if any.';
COMMENT ON COLUMN claims.transfers.cell_id IS 'The cell that every read returns for them at the moment.';
COMMENT ON COLUMN claims.transfers.subjects IS 'How many subjects it names; NULL: it moves all claims of the cell.';
COMMENT ON COLUMN claims.transfers.held IS 'How many claims it holds at the moment.';
COMMENT ON COLUMN claims.transfers.skipped IS 'How many claims its last pass skipped.';
COMMENT ON COLUMN claims.transfers.moved IS 'How many claims are ACTIVE again, in the cell that has them now.';

SELECT pg_catalog.pg_extension_config_dump('claims.cell_transfers', '');
SELECT pg_catalog.pg_extension_config_dump('claims.transfer_subjects', '');
