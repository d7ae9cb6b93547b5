-- The cell's half: what a cell's own database keeps of leases. Unused where the database is only the shared one.

CREATE TABLE claims.cells_outstanding_leases (
    uuid       uuid        PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    cell_id    bigint
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
-- vacuum_truncate: truncating takes an ACCESS EXCLUSIVE lock, for which no save should wait.
COMMENT ON TABLE claims.cells_outstanding_leases IS 'The leases whose local transaction committed, until the service has confirmed that they are committed there, too. Written by claims.track_lease() and claims.forget_leases().';
COMMENT ON COLUMN claims.cells_outstanding_leases.uuid IS 'The lease. Tracking and fencing a lease both pass through this key, so that one always meets the other.';
COMMENT ON COLUMN claims.cells_outstanding_leases.created_at IS 'When it was tracked (clock time).';
COMMENT ON COLUMN claims.cells_outstanding_leases.updated_at IS 'When the row last changed (clock time).';
COMMENT ON COLUMN claims.cells_outstanding_leases.cell_id IS 'The cell that tracked it, as far as the call or the caller''s role said which one; only that cell and administrators can forget the lease. NULL: any can.';

CREATE TABLE claims.lease_fences (
    lease_uuid uuid        PRIMARY KEY,
    fenced_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (vacuum_truncate = off);
CREATE INDEX lease_fences_fenced_at ON claims.lease_fences (fenced_at);
COMMENT ON TABLE claims.lease_fences IS 'The leases that recovery has given up: no local transaction can track them any more. Kept for claims.outcome_retention, and longer while a transaction is open that is older than the fence.';
COMMENT ON INDEX claims.lease_fences_fenced_at IS 'Finds what claims.purge_fences() drops, oldest first.';
COMMENT ON COLUMN claims.lease_fences.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.lease_fences.fenced_at IS 'When it was fenced (clock time).';

SELECT pg_catalog.pg_extension_config_dump('claims.cells_outstanding_leases', '');
SELECT pg_catalog.pg_extension_config_dump('claims.lease_fences', '');

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('track_lease', 'cell'), ('forget_leases', 'cell'), ('judge_leases', 'cell'), ('reconcile', 'cell');

COMMENT ON FUNCTION claims.track_lease(uuid) IS
    'In a cell: says, as part of the local transaction, that the lease is to be committed when that transaction commits. To be called after begin_update at the service and before the local COMMIT. 55000 where recovery has given the lease up; 55P03 where another open transaction is tracking or fencing it. Tracking a lease twice is tracking it once. The commit waits for the disk whatever synchronous_commit says. Locks the lease''s key; waits claims.wait_timeout, 5 ms at least.';
COMMENT ON FUNCTION claims.forget_leases(uuid[]) IS
    'In a cell: drops tracked leases, after the service has confirmed how they ended, and returns how many. Leaves alone those that another cell of this database has tracked. Locks their rows, passing over those that another session is forgetting.';
COMMENT ON FUNCTION claims.judge_leases(jsonb, interval) IS
    'In a cell: what is to become of leases that are outstanding at the service, an array of {"lease_uuid", "created_at", "cell_xid"} as list_leases returns them: commit (tracked here), rollback (it can never be tracked any more) or wait. A lease older than stale_after is fenced, and rolled back by a later call that finds the fence committed; where cell_xid is known, the end of that transaction decides and not the age. Locks the keys of the leases that it fences, in uuid order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.purge_fences() IS
    'In a cell: drops fences that are older than claims.outcome_retention and than every open transaction of this database, at most 10,000, and returns how many; administrators only. reconcile() does it by itself. Locks the rows it drops, passing over locked ones.';
COMMENT ON FUNCTION claims.reconcile(bigint, text, interval, int) IS
    'In a cell: one pass of recovery, to be run every minute. service is a foreign server that leads to the shared database. Settles there what claims.judge_leases() can decide, and forgets it here. Returns how many outstanding leases it saw, committed, rolled back and left pending, and how many tracked leases are orphaned: saved here, but rolled back or unknown there (also a WARNING). 08001 where the service cannot be reached, and then nothing is changed here. Locks what judge_leases and forget_leases lock.';
