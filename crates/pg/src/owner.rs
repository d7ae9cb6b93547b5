//! Runs code as another role: as the owner of a table, as PostgreSQL does for index expressions and materialized views,
//! as the owner of the extension, and as the bootstrap superuser.

use pgrx::pg_sys;

use super::settings::{save, with_search_path};
use super::{nesting, roles};

/// Runs `body` as `owner`, in a security-restricted operation. Code of the table's owner has only that role's rights,
/// and cannot leave anything behind that acts after `body`. Settings that it changes, such as search_path, are reset,
/// because the following code has other rights.
pub fn restricted_as<T>(owner: pg_sys::Oid, body: impl FnOnce() -> T) -> T {
    under_user(owner, pg_sys::SECURITY_RESTRICTED_OPERATION | pg_sys::SECURITY_LOCAL_USERID_CHANGE, || {
        // SAFETY: the level ends here or, after an error, with the (sub)transaction.
        unsafe {
            let level = pg_sys::NewGUCNestLevel();
            let result = body();
            pg_sys::AtEOXact_GUC(false, level);
            result
        }
    })
}

/// Runs `body` with the rights of a role that need not be allowed to log in. `body` cannot change to another role.
pub fn as_role<T>(role: pg_sys::Oid, body: impl FnOnce() -> T) -> T {
    under_user(role, pg_sys::SECURITY_LOCAL_USERID_CHANGE, body)
}

/// Runs `body` as the bootstrap superuser. It is only for fixed statements of this extension that run no other code.
/// The extension's owner need not be a superuser, and creating a trigger needs the rights of the table's owner and of
/// the trigger function's owner.
pub fn as_superuser<T>(body: impl FnOnce() -> T) -> T {
    as_role(pg_sys::Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID), body)
}

/// Runs `body` as PostgreSQL runs a SECURITY DEFINER function with a pinned search_path: with the rights of the
/// function's owner. It is for functions that seldom need these rights, and are called too often to set them up in each
/// call. Returns `None` if the function does not exist any more.
pub fn as_owner_of<T>(function: pg_sys::Oid, body: impl FnOnce() -> T) -> Option<T> {
    let owner = roles::owner_of_function(function)?;
    Some(as_role(owner, || with_search_path(c"pg_catalog, pg_temp", body)))
}

/// The user and the level of settings from before [`take_rights`].
#[derive(Clone, Copy)]
pub(super) struct Rights {
    user: pg_sys::Oid,
    context: std::ffi::c_int,
    settings: std::ffi::c_int,
}

/// Gives the code from here on the rights of the owner of the tables and a fixed search_path, until [`give_rights_back`] or, after
/// an error, the end of the (sub)transaction.
pub(super) fn take_rights() -> Rights {
    let mut before = Rights { user: pg_sys::InvalidOid, context: 0, settings: 0 };
    // SAFETY: reads and sets backend variables.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut before.user, &mut before.context);
        let local = pg_sys::SECURITY_LOCAL_USERID_CHANGE as std::ffi::c_int;
        pg_sys::SetUserIdAndSecContext(roles::owner_of_tables(), before.context | local);
        before.settings = pg_sys::NewGUCNestLevel();
    }
    save(c"search_path", c"pg_catalog, pg_temp");
    before
}

/// Ends what [`take_rights`] began. Called in the same subtransaction, after everything that began since has ended.
pub(super) fn give_rights_back(before: Rights) {
    // SAFETY: sets what was in force.
    unsafe {
        pg_sys::AtEOXact_GUC(true, before.settings);
        pg_sys::SetUserIdAndSecContext(before.user, before.context);
    }
}

fn under_user<T>(user: pg_sys::Oid, restrictions: u32, body: impl FnOnce() -> T) -> T {
    nesting::begin();
    let (mut before, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: both are restored below, or at the end of the (sub)transaction after an error.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut before, &mut context);
        pg_sys::SetUserIdAndSecContext(user, context | restrictions as i32);
        let result = body();
        pg_sys::SetUserIdAndSecContext(before, context);
        result
    }
}
