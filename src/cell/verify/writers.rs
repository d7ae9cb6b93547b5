//! Finds the open transactions that have written tables.

use pgrx::pg_sys::Oid;

use pg::query::query;

query! {
    /// Returns the transactions of others, prepared ones too, that hold a lock with which rows of the tables are written, in them or their
    /// partitions.
    pub fn writers(tables: &[Oid]) -> Vec<String> = [Latest]
        "SELECT DISTINCT l.virtualtransaction FROM pg_locks l
          WHERE l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND l.relation IN (SELECT t FROM unnest(:tables) t UNION SELECT p.relid FROM unnest(:tables) t, pg_partition_tree(t) p)
            AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
            AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()";
}
