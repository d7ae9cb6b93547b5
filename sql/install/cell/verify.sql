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

-- The progress of running calls of claims.verify() and claims.verify_share(). Like autovacuum they report it in their entries of
-- pg_stat_activity, so it needs neither shared memory nor a commit, and vanishes with the process.
CREATE FUNCTION claims.running_verifications()
    RETURNS TABLE (cell_id bigint, source_type text, pid int, started_at timestamptz, checked bigint, estimated bigint,
                   discrepancies bigint, source_id text)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT part[1]::bigint, part[2], a.pid, a.query_start, part[3]::bigint, part[4]::bigint, part[5]::bigint, nullif(part[6], '')
      FROM pg_stat_activity a
     CROSS JOIN regexp_match(a.query, '^claims\.verify: cell (-?\d{1,18}), (.{1,63}), checked (\d{1,18}) of about (\d{1,18}), (\d{1,18}) discrepancies, up to source id (.*)$') AS part
     WHERE a.state = 'active' AND a.datname = current_database() AND part IS NOT NULL
$$;

CREATE VIEW claims.verification_progress AS
    SELECT coalesce(r.cell_id, p.cell_id) AS cell_id, coalesce(r.source_type, p.source_type) AS source_type,
           r.pid IS NOT NULL AS running, r.pid, r.started_at, r.checked, r.estimated, r.discrepancies,
           coalesce(r.source_id, p.source_id) AS source_id, p.stopped_at
      FROM claims.running_verifications() r
      FULL JOIN claims.verification_positions p ON p.cell_id = r.cell_id AND p.source_type = r.source_type;
COMMENT ON VIEW claims.verification_progress IS
    'In a cell: the progress of each running claims.verify() and claims.verify_share(), and where those that stopped at max_runtime will '
    'continue. Other sessions see the progress before the call commits, if track_activities is on.';
COMMENT ON COLUMN claims.verification_progress.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_progress.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.verification_progress.running IS 'Whether a call is running.';
COMMENT ON COLUMN claims.verification_progress.pid IS 'Process that runs it.';
COMMENT ON COLUMN claims.verification_progress.started_at IS 'When the calling statement started.';
COMMENT ON COLUMN claims.verification_progress.checked IS 'Claims that this call has checked so far.';
COMMENT ON COLUMN claims.verification_progress.estimated IS 'Estimated number of rows, from the last ANALYZE.';
COMMENT ON COLUMN claims.verification_progress.discrepancies IS 'Discrepancies that this call has found so far.';
COMMENT ON COLUMN claims.verification_progress.source_id IS
    'The source id up to which everything is verified; for a worker of a shared verification, everything of its range.';
COMMENT ON COLUMN claims.verification_progress.stopped_at IS 'When the last call stopped at max_runtime.';

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('digest_records', 'cell'), ('verify_records', 'cell'),
    ('digest_expected', 'cell'), ('expected_records', 'cell'), ('verify', 'cell'), ('running_verifications', 'cell');

COMMENT ON FUNCTION claims.running_verifications() IS
    'Internal: the progress of running verifications, for claims.verification_progress. Locks nothing.';
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
