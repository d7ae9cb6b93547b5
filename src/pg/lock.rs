//! Locks on tables.

use pgrx::pg_sys;

/// Whom a lock keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    AgainstWriters,
    AgainstAll,
}

/// Locks a table until the transaction ends, if it is still there. Asks nobody for rights.
pub fn table(table: pg_sys::Oid, strength: Strength) {
    let mode = match strength {
        Strength::AgainstWriters => pg_sys::ShareRowExclusiveLock,
        Strength::AgainstAll => pg_sys::AccessExclusiveLock,
    };
    // SAFETY: the relation is closed again, or was not opened; its lock is kept.
    unsafe {
        let relation = pg_sys::try_relation_open(table, mode as pg_sys::LOCKMODE);
        if !relation.is_null() {
            pg_sys::relation_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        }
    }
}
