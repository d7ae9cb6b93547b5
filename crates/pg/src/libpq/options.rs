//! The options of connections.

use std::ffi::CStr;

use super::bindings::{PQconndefaults, PQconninfoFree};

/// An option of connections in this libpq.
pub struct KnownOption {
    pub name: String,
    pub is_secret: bool,
    /// Whether it is for libpq's own developers.
    pub is_debug: bool,
}

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
