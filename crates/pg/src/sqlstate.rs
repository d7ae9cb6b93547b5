//! SQLSTATEs as text.

use std::ffi::CStr;

use pgrx::{PgSqlErrorCode, pg_sys};

/// Returns the five characters of a code.
pub fn text(code: PgSqlErrorCode) -> String {
    // SAFETY: the result is a buffer of PostgreSQL, which is valid until the next call.
    unsafe { CStr::from_ptr(pg_sys::unpack_sql_state(code as i32)) }.to_string_lossy().into_owned()
}
