//! PostgreSQL's hash function of bytes.

use std::ffi::c_int;

unsafe extern "C-unwind" {
    /// Declared in `common/hashfn.h`, which pgrx does not bind.
    fn hash_bytes(bytes: *const u8, length: c_int) -> u32;
}

/// Returns the hash by which PostgreSQL distributes values of text, under collation "C", and of uuid.
pub fn bytes(bytes: &[u8]) -> u32 {
    let length = c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
    // SAFETY: reads at most as many bytes as there are.
    unsafe { hash_bytes(bytes.as_ptr(), length) }
}
