-- The progress of verifications, for roles that may read the rows: source ids are those of rows.

-- The progress of running calls of claims.verify() and claims.verify_share(). Like autovacuum they report it in their entries of
-- pg_stat_activity, so it needs neither shared memory nor a commit, and vanishes with the process.
CREATE OR REPLACE FUNCTION claims.running_verifications()
    RETURNS TABLE (cell_id bigint, source_type text, pid int, started_at timestamptz, checked bigint, estimated bigint,
                   discrepancies bigint, source_id text)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT part[1]::bigint, part[2], a.pid, a.query_start, part[3]::bigint, part[4]::bigint, part[5]::bigint, nullif(part[6], '')
      FROM pg_stat_activity a
     CROSS JOIN regexp_match(a.query, '^claims\.verify: cell (-?\d{1,18}), (.{1,63}), checked (\d{1,18}) of about (\d{1,18}), (\d{1,18}) discrepancies, up to source id (.*)$') AS part
     WHERE a.state = 'active' AND a.datname = current_database() AND part IS NOT NULL
       AND claims.may_read_sources(part[1]::bigint, part[2])
$$;

CREATE OR REPLACE VIEW claims.verification_progress WITH (security_barrier) AS
    SELECT coalesce(r.cell_id, p.cell_id) AS cell_id, coalesce(r.source_type, p.source_type) AS source_type,
           r.pid IS NOT NULL AS running, r.pid, r.started_at, r.checked, r.estimated, r.discrepancies,
           coalesce(r.source_id, p.source_id) AS source_id, p.stopped_at
      FROM claims.running_verifications() r
      FULL JOIN (SELECT * FROM claims.verification_positions p WHERE claims.may_read_sources(p.cell_id, p.source_type)) p
             ON p.cell_id = r.cell_id AND p.source_type = r.source_type;
COMMENT ON VIEW claims.verification_progress IS
    'In a cell: the progress of each running claims.verify() and claims.verify_share(), and where those that stopped at max_runtime will '
    'continue. Other sessions see the progress before the call commits, if track_activities is on. '
    'For roles that may act for the cell, or read the tables of the source type.';
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


CREATE OR REPLACE VIEW claims.verification_workers WITH (security_barrier) AS
    SELECT p.pass, p.cell_id, p.source_type, p.correct, r.number, r.source_id_gt, r.source_id_lte,
           e.claimant AS worker, coalesce(e.expires_at > clock_timestamp(), false) AS held, e.expires_at
      FROM claims.verification_passes p
      JOIN claims.verification_ranges r ON r.pass = p.pass
      LEFT JOIN claims.expiring_claims e ON e.kind = 'claims.verify ' || p.pass AND e.key = r.number::text
     WHERE claims.may_read_sources(p.cell_id, p.source_type);
COMMENT ON VIEW claims.verification_workers IS 'In a cell: which worker has which range of a shared verification. For roles that may act for the cell, or read the tables of the '
    'source type.';
COMMENT ON COLUMN claims.verification_workers.pass IS 'The pass.';
COMMENT ON COLUMN claims.verification_workers.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_workers.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.verification_workers.correct IS 'Whether discrepancies are corrected.';
COMMENT ON COLUMN claims.verification_workers.number IS 'Number of the range.';
COMMENT ON COLUMN claims.verification_workers.source_id_gt IS 'The unverified part begins after this source id.';
COMMENT ON COLUMN claims.verification_workers.source_id_lte IS 'It ends with this source id; NULL: it has no end.';
COMMENT ON COLUMN claims.verification_workers.worker IS 'The worker that holds it, or held it last.';
COMMENT ON COLUMN claims.verification_workers.held IS 'Whether the hold is valid; if not, the next worker that needs a range takes this one.';
COMMENT ON COLUMN claims.verification_workers.expires_at IS 'When the hold expires (clock time).';

INSERT INTO claims.audiences (function_name, audience) VALUES ('running_verifications', 'cell'), ('may_read_sources', 'all') ON CONFLICT DO NOTHING;
COMMENT ON FUNCTION claims.running_verifications() IS
    'Internal: the progress of running verifications, for claims.verification_progress. Locks nothing.';
COMMENT ON FUNCTION claims.may_read_sources(bigint, text) IS
    'Internal: whether the caller may act for a cell, or read all claimed tables of a source type, for views with source ids of a verification. '
    'Locks nothing.';
