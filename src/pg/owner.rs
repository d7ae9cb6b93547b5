//! Running what the owner of a table wrote, with that owner's rights and no more.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::settings::under;

/// Settings under which the text of a value is the same in every session, and no row is left out silently: a policy that
/// would hide rows is an error. The search path is the calling function's, pinned.
const SETTINGS: [(&CStr, &CStr); 7] = [
    (c"row_security", c"off"),
    (c"DateStyle", c"ISO, YMD"),
    (c"IntervalStyle", c"postgres"),
    (c"TimeZone", c"UTC"),
    (c"bytea_output", c"hex"),
    (c"extra_float_digits", c"1"),
    (c"lc_monetary", c"C"),
];

/// Runs `body` as `owner`, as Postgres does with index expressions and materialized views: what is called in there can
/// neither change the role nor leave anything in the session.
pub fn as_owner<T>(owner: pg_sys::Oid, body: impl FnOnce() -> T) -> T {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    let restriction = (pg_sys::SECURITY_RESTRICTED_OPERATION | pg_sys::SECURITY_LOCAL_USERID_CHANGE) as i32;
    // SAFETY: writes to two locals and sets two backend variables, which an error puts back with the (sub)transaction.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&raw mut user, &raw mut context);
        pg_sys::SetUserIdAndSecContext(owner, context | restriction);
        let result = under(&SETTINGS, body);
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}
