//! Locks on tables.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::table;

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

/// Takes the lock that writing to tables of schema `claims` takes, until the (sub)transaction ends, and waits for nobody.
/// `false`: another transaction has locked one of them as a whole.
pub fn for_writing(tables: &[&CStr]) -> bool {
    tables.iter().all(|table| lock_at_once(table, pg_sys::RowExclusiveLock))
}

/// Locks a table of schema `claims` ROW SHARE, until the (sub)transaction ends, if that can be had at once.
pub fn conditionally_shared(table: &CStr) -> bool {
    lock_at_once(table, pg_sys::RowShareLock)
}

/// The same, waiting as long as `lock_timeout` lets it.
pub fn shared(table: &CStr) {
    if let Some(table) = table::number(table) {
        // SAFETY: a table that is gone by then has no lock that anybody else takes; whoever uses it gets an error.
        unsafe { pg_sys::LockRelationOid(table, pg_sys::RowShareLock as _) };
    }
}

/// Locks a table of schema `claims` EXCLUSIVE, until the (sub)transaction ends: keeps out all who write, or lock it ROW SHARE. Waits as
/// long as `lock_timeout` lets it.
pub fn exclusively(table: &CStr) {
    if let Some(table) = table::number(table) {
        // SAFETY: as above.
        unsafe { pg_sys::LockRelationOid(table, pg_sys::ExclusiveLock as _) };
    }
}

/// Locks a table of schema `claims` if that can be had at once. A table that is not there is in nobody's way: whoever uses it gets an error.
fn lock_at_once(table: &CStr, mode: u32) -> bool {
    // SAFETY: as above.
    table::number(table).is_none_or(|table| unsafe { pg_sys::ConditionalLockRelationOid(table, mode as _) })
}
