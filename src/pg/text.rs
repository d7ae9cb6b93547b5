//! Texts on their way to C.

use std::ffi::CString;

/// A text as C has it. None of ours has a zero byte; one with it would be cut there by Postgres.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| panic!("a statement has a zero byte"))
}
