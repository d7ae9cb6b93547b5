-- The cell's half: the rows about leases in a cell's own database. Unused in a database that is only the shared one.

CREATE TABLE claims.cells_outstanding_leases (
    uuid       uuid        PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    cell_id    bigint,
    service    text
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
-- vacuum_truncate: truncating takes an ACCESS EXCLUSIVE lock, for which no save should wait.
COMMENT ON TABLE claims.cells_outstanding_leases IS
    'The leases whose local transaction committed, until the service has confirmed their commit. Written by claims.track_lease() and '
    'claims.forget_leases().';
COMMENT ON COLUMN claims.cells_outstanding_leases.uuid IS
    'The lease. Tracking and fencing a lease both insert this key, so that one always meets the other.';
COMMENT ON COLUMN claims.cells_outstanding_leases.created_at IS 'When it was tracked (clock time).';
COMMENT ON COLUMN claims.cells_outstanding_leases.updated_at IS 'When the row last changed (clock time).';
COMMENT ON COLUMN claims.cells_outstanding_leases.cell_id IS
    'The cell that tracked it, if the call or the caller''s role determines it; only that cell and administrators can forget the lease. NULL: any '
    'cell can.';
COMMENT ON COLUMN claims.cells_outstanding_leases.service IS
    'The foreign server of the service at which it began, if the session began it; NULL: any. Passes at other services leave it alone.';

CREATE TABLE claims.lease_fences (
    lease_uuid uuid        PRIMARY KEY,
    fenced_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (vacuum_truncate = off);
CREATE INDEX lease_fences_fenced_at ON claims.lease_fences (fenced_at);
COMMENT ON TABLE claims.lease_fences IS
    'The leases that recovery has given up: no local transaction can track them any more. Kept for claims.outcome_retention, and longer while a '
    'transaction older than the fence is open.';
COMMENT ON INDEX claims.lease_fences_fenced_at IS 'Finds the fences that claims.purge_fences() deletes, oldest first.';
COMMENT ON COLUMN claims.lease_fences.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.lease_fences.fenced_at IS 'When it was fenced (clock time).';

SELECT pg_catalog.pg_extension_config_dump('claims.cells_outstanding_leases', '');
SELECT pg_catalog.pg_extension_config_dump('claims.lease_fences', '');

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('track_lease', 'cell'), ('forget_leases', 'cell'), ('judge_leases', 'cell'), ('reconcile', 'cell');

COMMENT ON FUNCTION claims.track_lease(uuid) IS
    'In a cell: records, in the local transaction, that the lease commits if that transaction commits. Call it after begin_update at the service '
    'and before the local COMMIT. 55000 if recovery has given the lease up; 55P03 if another open transaction is tracking or fencing it. May be '
    'repeated. The commit is flushed to disk whatever synchronous_commit is. Locks the lease''s key; waits for claims.wait_timeout, but at least '
    '5 ms.';
COMMENT ON FUNCTION claims.forget_leases(uuid[]) IS
    'In a cell: deletes tracked leases, after the service has confirmed how they ended, and returns how many. Keeps those that another cell of '
    'this database has tracked. Locks their rows, skipping those that another session is forgetting.';
COMMENT ON FUNCTION claims.judge_leases(jsonb, interval) IS
    'In a cell: the verdict on leases that are outstanding at the service, an array of {"lease_uuid", "created_at", "cell_xid"} as list_leases '
    'returns them: commit (tracked here), rollback (it can never be tracked any more) or wait. A lease older than stale_after is fenced, and '
    'rolled back by a later call that finds the fence committed; if cell_xid is known, the state of that transaction decides, not the age. Locks '
    'the keys of the leases that it fences, in uuid order; waits at most claims.wait_timeout.';
COMMENT ON FUNCTION claims.purge_fences() IS
    'In a cell: deletes fences that are older than claims.outcome_retention and than every open transaction of this database, at most 10,000, and '
    'returns how many; administrators only. reconcile() does it too. Locks the rows it deletes, skipping locked ones.';
COMMENT ON FUNCTION claims.reconcile(bigint, text, interval, int) IS
    'In a cell: one pass of recovery; call it every minute. service is a foreign server that leads to the shared database. Settles there the '
    'leases that claims.judge_leases() decides, and forgets them here. Returns how many outstanding leases it saw, committed, rolled back and '
    'left pending, and how many tracked leases are orphans: saved here, but rolled back or unknown there (also a WARNING). 08001 if the service '
    'cannot be reached; then nothing is changed here. Locks what judge_leases and forget_leases lock.';
