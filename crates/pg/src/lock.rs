//! Locks on tables.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::table;

/// The strength of a table lock, by the sessions that it blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// Blocks what renames, rewrites or drops the table, as a SELECT does.
    AsReader,
    /// Blocks ALTER, and other sessions that take this lock, but no reader, no writer and no nextval().
    AgainstAlter,
    AgainstWriters,
    AgainstAll,
}

/// Locks a table or sequence until the transaction ends, if it still exists. Does not check privileges.
pub fn table(table: pg_sys::Oid, strength: Strength) {
    let mode = match strength {
        Strength::AsReader => pg_sys::AccessShareLock,
        Strength::AgainstAlter => pg_sys::ShareUpdateExclusiveLock,
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

/// Locks tables of schema `claims` ROW EXCLUSIVE until the (sub)transaction ends, without waiting. Returns false if
/// another transaction has a conflicting lock on one of them.
pub fn for_writing(tables: &[&'static CStr]) -> bool {
    tables.iter().all(|table| lock_at_once(table, pg_sys::RowExclusiveLock))
}

/// Locks a table of schema `claims` ROW SHARE until the (sub)transaction ends, without waiting. Returns false if
/// another transaction has a conflicting lock.
pub fn conditionally_shared(table: &'static CStr) -> bool {
    lock_at_once(table, pg_sys::RowShareLock)
}

/// Locks a table of schema `claims` ROW SHARE until the (sub)transaction ends. Waits at most for `lock_timeout`.
pub fn shared(table: &CStr) {
    if let Some(table) = table::number(table) {
        // SAFETY: locks a number. If the table was dropped, nobody else uses that lock, and the statement on the table
        // fails.
        unsafe { pg_sys::LockRelationOid(table, pg_sys::RowShareLock as _) };
    }
}

/// Locks a table of schema `claims` EXCLUSIVE until the (sub)transaction ends, which blocks all sessions that write it
/// or lock it ROW SHARE. Waits at most for `lock_timeout`.
pub fn exclusively(table: &CStr) {
    if let Some(table) = table::number(table) {
        // SAFETY: locks a number, which need not be a table any more.
        unsafe { pg_sys::LockRelationOid(table, pg_sys::ExclusiveLock as _) };
    }
}

/// Locks a table of schema `claims` without waiting. Returns true if there is no such table: the statement that uses it
/// will raise the error.
fn lock_at_once(table: &'static CStr, mode: u32) -> bool {
    // SAFETY: locks a number, which need not be a table any more.
    table::known_number(table).is_none_or(|table| unsafe { pg_sys::ConditionalLockRelationOid(table, mode as _) })
}
