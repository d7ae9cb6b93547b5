//! Acting as the owner of a table, as Postgres does for index expressions and materialized views.

use pgrx::pg_sys;

/// Runs `body` as `owner`, in a restricted operation: code of the table's owner gets that role's rights, and nothing by
/// which it could act beyond the end of `body`.
pub fn restricted_as<T>(owner: pg_sys::Oid, body: impl FnOnce() -> T) -> T {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    let restricted = (pg_sys::SECURITY_RESTRICTED_OPERATION | pg_sys::SECURITY_LOCAL_USERID_CHANGE) as i32;
    // SAFETY: both are put back below; after an error the end of the (sub)transaction puts them back.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        pg_sys::SetUserIdAndSecContext(owner, context | restricted);
        let result = body();
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}
