-- Verification: the claims of a cell compared with what its own tables call for.

CREATE TABLE claims.verification_positions (
    cell_id     bigint      NOT NULL,
    source_type text        COLLATE "C" NOT NULL,
    source_id   text        COLLATE "C" NOT NULL,
    stopped_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    service     text        COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (cell_id, service, source_type)
);
COMMENT ON TABLE claims.verification_positions IS 'In a cell: the positions of verifications that stopped at max_runtime. Not dumped.';
COMMENT ON COLUMN claims.verification_positions.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_positions.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.verification_positions.source_id IS 'The source id up to which everything is verified; the next call continues after it.';
COMMENT ON COLUMN claims.verification_positions.stopped_at IS 'When the call ended (clock time).';
COMMENT ON COLUMN claims.verification_positions.service IS 'The foreign server of the service; empty: that of an earlier version.';

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('digest_records', 'cell'), ('verify_records', 'cell'),
    ('digest_expected', 'cell'), ('expected_records', 'cell'), ('verify', 'cell');

COMMENT ON FUNCTION claims.digest_records(bigint, text, text, text) IS
    'At the service: the number of a cell''s claims of a source type, with source ids above source_id_gt and up to source_id_lte (NULL: no '
    'bound), and their digest: the sum, modulo 2^256, of the SHA-256 of each. Equal to claims.digest_expected() in the cell exactly when the '
    'range is in order. Claims held by a lease count like any other. Locks nothing.';
COMMENT ON FUNCTION claims.digest_expected(text, text, text) IS
    'In a cell: like claims.digest_records() at the service, for the claims that the cell''s own tables call for. Locks nothing.';
COMMENT ON FUNCTION claims.expected_records(text, text, text) IS
    'In a cell: the claims that its own tables call for, with source ids above source_id_gt and up to source_id_lte (NULL: no bound), at most '
    '100,000, as records that begin_update takes. Locks nothing.';
COMMENT ON FUNCTION claims.verify_records(bigint, text, text, text, jsonb, interval, boolean, uuid[]) IS
    'At the service: compares a range of a cell''s claims with the records expected there. One row per discrepancy (missing, different, extra), '
    'in bucket order. outcome: leased and recent (changed less than recent ago) are skipped, held_by_other is another cell''s, busy is being '
    'changed by another transaction; with correct also corrected, each in one statement and all in this transaction; otherwise NULL. extra_uuids: '
    'consider only these of the claims that are not expected. Locks only what it corrects, in bucket order, and does not wait.';
COMMENT ON FUNCTION claims.verify(bigint, text, text, int, interval, boolean, interval) IS
    'In a cell: verifies all its claims of one source type at the service (a foreign server): by digests first, halving ranges that differ down '
    'to batch_size rows, which are compared one by one, and corrected if correct is true. Discrepancies count once by kind (missing, different, '
    'extra), and once more if corrected, held_by_other or skipped (leased, recent, being changed). Stops after max_runtime with finished false; '
    'the next call continues there. While it corrects, it locks the rows concerned FOR SHARE, skipping locked ones; otherwise it locks nothing. '
    'Needs READ COMMITTED.';

-- Dumps leave out its rows: in a restored database verification begins at the beginning.
SELECT pg_catalog.pg_extension_config_dump('claims.verification_positions', 'WHERE false');
