//! Roles, and their privileges.

use pgrx::pg_sys;

use super::table;
use super::text::c_text;

/// Returns the role that is current outside of all SECURITY DEFINER functions, after SET ROLE.
pub fn caller() -> pg_sys::Oid {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetOuterUserId() }
}

/// Returns the role that logged in, or that SET SESSION AUTHORIZATION has set.
pub fn of_session() -> pg_sys::Oid {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetSessionUserId() }
}

/// Returns the current user. Within a SECURITY DEFINER function it is the function's owner, which is the extension's.
pub fn current() -> pg_sys::Oid {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetUserId() }
}

pub fn is_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: looks the role up in the catalog.
    unsafe { pg_sys::superuser_arg(role) }
}

/// Returns whether PostgreSQL is running code of a table's owner for another role: an index expression under ANALYZE or
/// REINDEX, or a materialized view's query. The outer role is then the one that caused it, often a superuser, and not
/// the author of the code.
pub fn is_restricted() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::InSecurityRestrictedOperation() }
}

/// Returns whether `member` has the privileges of `role`. Superusers have those of every role.
pub fn has_privileges_of(member: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: reads the catalogs; a dropped role has no members.
    unsafe { pg_sys::has_privs_of_role(member, role) }
}

/// Returns whether a role is an administrator: a superuser, or a role with the privileges of the owner of the extension's tables.
pub fn is_admin(role: pg_sys::Oid) -> bool {
    has_privileges_of(role, owner_of_tables())
}

/// Returns the owner of the tables of schema `claims`, who owns the extension's functions, too.
pub(super) fn owner_of_tables() -> pg_sys::Oid {
    let relations = pg_sys::SysCacheIdentifier::RELOID as std::ffi::c_int;
    // SAFETY: NULL, or a row of pg_class, which is given back.
    unsafe {
        let number = table::number(c"claims").unwrap_or(pg_sys::InvalidOid);
        let row = pg_sys::SearchSysCache1(relations, number.into());
        if row.is_null() {
            return pg_sys::InvalidOid;
        }
        let owner = (*pg_sys::heap_tuple_get_struct::<pg_sys::FormData_pg_class>(row)).relowner;
        pg_sys::ReleaseSysCache(row);
        owner
    }
}

pub fn caller_is_admin() -> bool {
    is_admin(caller())
}

pub fn owner_of_function(function: pg_sys::Oid) -> Option<pg_sys::Oid> {
    let functions = pg_sys::SysCacheIdentifier::PROCOID as std::ffi::c_int;
    // SAFETY: NULL, or a row of pg_proc, which is given back.
    unsafe {
        let row = pg_sys::SearchSysCache1(functions, function.into());
        if row.is_null() {
            return None;
        }
        let owner = (*pg_sys::heap_tuple_get_struct::<pg_sys::FormData_pg_proc>(row)).proowner;
        pg_sys::ReleaseSysCache(row);
        Some(owner)
    }
}

pub fn by_name(name: &str) -> Option<pg_sys::Oid> {
    let name = c_text(name);
    // SAFETY: looks the name up in the catalog.
    let role = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    (role != pg_sys::InvalidOid).then_some(role)
}

pub fn name(role: pg_sys::Oid) -> String {
    // SAFETY: with noerr the result is NULL or a palloc'ed cstring.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        if name.is_null() {
            return format!("role {}", role.to_u32());
        }
        std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}
