-- Calls that wait for names.

CREATE VIEW claims.lease_waiters AS
    SELECT w.pid, w.cell_id, w.since, w.priority, w.names, w.position FROM claims.list_lease_waiters() w;
COMMENT ON VIEW claims.lease_waiters IS
    'The calls that wait for names which leases hold (claims.lease_wait), in their order. Empty if the library is not preloaded.';
COMMENT ON COLUMN claims.lease_waiters.pid IS 'The process.';
COMMENT ON COLUMN claims.lease_waiters.cell_id IS 'The cell for which it begins a lease.';
COMMENT ON COLUMN claims.lease_waiters.since IS 'When it began to wait (clock time).';
COMMENT ON COLUMN claims.lease_waiters.priority IS 'Its claims.lease_priority.';
COMMENT ON COLUMN claims.lease_waiters.names IS 'The number of names for which it waits at the moment.';
COMMENT ON COLUMN claims.lease_waiters.position IS '1 for the next one; otherwise one more than the number of waiters for one of its names that go before it.';
COMMENT ON FUNCTION claims.list_lease_waiters() IS 'Internal: the rows of claims.lease_waiters. Locks nothing.';
INSERT INTO claims.audiences (function_name, audience) VALUES ('list_lease_waiters', 'monitor');
