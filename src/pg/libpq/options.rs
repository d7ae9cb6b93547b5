//! The options that connections may have.

use std::ffi::CStr;

use super::bindings::{PQconndefaults, PQconninfoFree};

/// An option of connections that this libpq knows.
pub struct KnownOption {
    pub name: String,
    /// It is a secret.
    pub is_secret: bool,
    /// It is for libpq's own developers.
    pub is_debug: bool,
}

/// The options that this libpq knows.
pub fn known_options() -> Vec<KnownOption> {
    let mut known = Vec::new();
    // SAFETY: an array that ends with an option without keyword, freed below; its texts are C strings.
    unsafe {
        let all = PQconndefaults();
        let mut option = all;
        while !option.is_null() && !(*option).keyword.is_null() {
            let shown = CStr::from_ptr((*option).dispchar).to_bytes();
            known.push(KnownOption {
                name: CStr::from_ptr((*option).keyword).to_string_lossy().into_owned(),
                is_secret: shown == b"*",
                is_debug: shown == b"D",
            });
            option = option.add(1);
        }
        PQconninfoFree(all);
    }
    known
}
