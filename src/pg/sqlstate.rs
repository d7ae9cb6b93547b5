//! SQLSTATEs as text.

use std::ffi::CStr;

use pgrx::{PgSqlErrorCode, pg_sys};

/// The five characters of a code.
pub fn text(code: PgSqlErrorCode) -> String {
    // SAFETY: the result is a buffer of Postgres' own, which is good until the next call.
    unsafe { CStr::from_ptr(pg_sys::unpack_sql_state(code as i32)) }.to_string_lossy().into_owned()
}
