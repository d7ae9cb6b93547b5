//! Acting as another role: as the owner of a table, as Postgres does for index expressions and materialized views, and as
//! the cluster's first superuser.

use pgrx::pg_sys;

/// Runs `body` as `owner`, in a restricted operation: code of the table's owner gets that role's rights, and nothing by
/// which it could act beyond the end of `body`. Settings that it changes, the search_path above all, are put back: what
/// comes after it runs with other rights.
pub fn restricted_as<T>(owner: pg_sys::Oid, body: impl FnOnce() -> T) -> T {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    let restricted = (pg_sys::SECURITY_RESTRICTED_OPERATION | pg_sys::SECURITY_LOCAL_USERID_CHANGE) as i32;
    // SAFETY: all three are put back below; after an error the end of the (sub)transaction puts them back.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        let level = pg_sys::NewGUCNestLevel();
        pg_sys::SetUserIdAndSecContext(owner, context | restricted);
        let result = body();
        pg_sys::AtEOXact_GUC(false, level);
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}

/// Runs `body` as the bootstrap superuser. Only for statements of this extension whose every word is known, and which run
/// nobody else's code: the extension's owner need not be a superuser, and a trigger on somebody's table takes the rights
/// of the table's owner and of the trigger function's.
pub fn as_superuser<T>(body: impl FnOnce() -> T) -> T {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: as above.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        let superuser = pg_sys::Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID);
        pg_sys::SetUserIdAndSecContext(superuser, context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
        let result = body();
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}
