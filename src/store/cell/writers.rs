//! Finds the open transactions that have written tables.

use pgrx::pg_sys::Oid;

use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Returns the transactions of others, prepared ones too, that hold a lock with which rows of tables $1 are written, in them or their partitions.
    WRITERS(OIDARRAYOID) =
        "SELECT DISTINCT l.virtualtransaction FROM pg_locks l
          WHERE l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND l.relation IN (SELECT t FROM unnest($1) t UNION SELECT p.relid FROM unnest($1) t, pg_partition_tree(t) p)
            AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
            AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()";
}

/// Returns the open transactions of others that have written one of the tables, or may.
pub fn writers(connection: &Connection, tables: &[Oid]) -> Vec<String> {
    connection.run(&WRITERS, View::Latest, [tables.to_vec().into()]).map(|row| row.must(1))
}
