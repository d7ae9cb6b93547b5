//! Locks on tables.

use std::ffi::CStr;

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

/// Takes the lock that writing to tables of schema `claims` takes, until the (sub)transaction ends, and waits for nobody.
/// `false`: another transaction has locked one of them as a whole.
pub fn for_writing(tables: &[&CStr]) -> bool {
    // SAFETY: looks names up; a table that is gone has no lock to wait for, and whoever writes to it gets an error.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"claims".as_ptr(), true);
        tables.iter().all(|table| {
            let table = pg_sys::get_relname_relid(table.as_ptr(), schema);
            let lock = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
            table == pg_sys::Oid::INVALID || pg_sys::ConditionalLockRelationOid(table, lock)
        })
    }
}

/// Locks a table of schema `claims` ROW SHARE, until the (sub)transaction ends, if that can be had at once.
pub fn conditionally_shared(table: &CStr) -> bool {
    // SAFETY: looks a name up; a table that is gone has no lock.
    unsafe {
        let table = relation(table);
        table == pg_sys::Oid::INVALID || pg_sys::ConditionalLockRelationOid(table, pg_sys::RowShareLock as _)
    }
}

/// The same, waiting as long as `lock_timeout` lets it.
pub fn shared(table: &CStr) {
    // SAFETY: as above.
    unsafe {
        let table = relation(table);
        if table != pg_sys::Oid::INVALID {
            pg_sys::LockRelationOid(table, pg_sys::RowShareLock as _);
        }
    }
}

/// The number of a table of schema `claims`; 0: there is none. To be called by a query.
pub fn table_number(table: &CStr) -> u32 {
    // SAFETY: a query is running, and so a transaction.
    unsafe { relation(table) }.to_u32()
}

/// The number of a table of schema `claims`.
///
/// # Safety
/// To be called in a transaction.
unsafe fn relation(table: &CStr) -> pg_sys::Oid {
    // SAFETY: by the caller.
    unsafe { pg_sys::get_relname_relid(table.as_ptr(), pg_sys::get_namespace_oid(c"claims".as_ptr(), true)) }
}
