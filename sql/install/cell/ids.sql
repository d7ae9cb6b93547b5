-- In a cell: the sequences that draw from the cell's ranges of ids.

CREATE TABLE claims.id_sequences (
    sequence_name regclass    NOT NULL PRIMARY KEY,
    id_space      text        NOT NULL,
    low_water     bigint      NOT NULL,
    since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    cell_id       bigint,
    id_range      int8range,
    next_range    int8range,
    confirmed_at  timestamptz
);
COMMENT ON TABLE claims.id_sequences IS
    'In a cell: the sequences that draw from ranges of ids. Written by claims.use_id_space(), claims.refill_ids(), claims.adopt_cell() and the '
    'background worker.';
COMMENT ON COLUMN claims.id_sequences.sequence_name IS 'The sequence.';
COMMENT ON COLUMN claims.id_sequences.id_space IS 'Name of the id space at the service.';
COMMENT ON COLUMN claims.id_sequences.low_water IS 'With fewer ids left than this the sequence gets the next range.';
COMMENT ON COLUMN claims.id_sequences.since IS 'When it was declared (clock time).';
COMMENT ON COLUMN claims.id_sequences.cell_id IS 'The cell for which ranges are leased; NULL: none was leased yet.';
COMMENT ON COLUMN claims.id_sequences.id_range IS
    'The ids between the limits of the sequence: ranges without a gap between them. NULL: it has none, and nextval() is 2200H.';
COMMENT ON COLUMN claims.id_sequences.next_range IS 'A range that was leased, and with which the sequence continues in a moment.';
COMMENT ON COLUMN claims.id_sequences.confirmed_at IS
    'When the service confirmed that this database may use the ranges (clock time); NULL: it is asked before the next range.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('use_id_space', 'cell'), ('refill_ids', 'cell');

COMMENT ON FUNCTION claims.use_id_space(regclass, text, bigint) IS
    'In a cell: from now on a sequence draws only from ranges of an id space that the cell leases at the service. It has no ids (2200H) until '
    'claims.refill_ids() or the background worker has leased the first range. With fewer than low_water ids left it gets the next one. id_space '
    'NULL: the sequence keeps its limits and gets no more ranges. For the sequence''s owner. Locks the sequence against nextval() until the '
    'transaction ends.';
COMMENT ON FUNCTION claims.refill_ids(bigint, text) IS
    'In a cell: leases the next range for each sequence that needs one, at a service, a foreign server, and returns how many ids were leased. '
    '55000 if another database acts as the cell, or if a sequence was altered. Skips rows of claims.id_sequences that another session has locked. '
    'Locks a sequence against nextval() only where the next range does not follow the last one, and waits for at most 50 ms then.';

SELECT pg_catalog.pg_extension_config_dump('claims.id_sequences', '');
