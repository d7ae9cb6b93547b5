//! Conversion of texts for C, and of its `char`.

use std::ffi::{CString, c_char};

/// Converts a text into a C string. No text of this extension has a NUL byte; PostgreSQL would truncate it there.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| panic!("a statement has a zero byte"))
}

/// Returns the byte of a `char`, which is signed on x86-64 and unsigned on ARM. x86-64 needs a cast to u8, which clippy refuses for ARM.
pub(super) const fn char_byte(value: c_char) -> u8 {
    let [byte] = value.to_ne_bytes();
    byte
}
