//! Conversion of texts for C.

use std::ffi::CString;

/// Converts a text into a C string. No text of this extension has a NUL byte; PostgreSQL would truncate it there.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| panic!("a statement has a zero byte"))
}
