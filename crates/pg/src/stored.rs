//! Texts as they are stored: their size is known without reading them.

use pgrx::{FromDatum, pg_sys};

/// A text that is read only where it is not too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundedText {
    Text(String),
    TooLong { bytes: usize },
}

/// Returns the bytes of a variable-length value, uncompressed and without its header. Reads no TOAST table.
///
/// # Safety
/// A datum of a type of variable length, not NULL.
pub(super) unsafe fn bytes_of(datum: pg_sys::Datum) -> usize {
    let start: *const pg_sys::varlena = datum.cast_mut_ptr();
    // SAFETY: by the caller. Mostly the value is in the row uncompressed, and its header holds the length.
    unsafe {
        let is_plain = !pgrx::varatt_is_1b_e(start) && !pgrx::varatt_is_4b_c(start);
        if is_plain {
            pgrx::varsize_any_exhdr(start)
        } else {
            pg_sys::toast_raw_datum_size(datum).saturating_sub(super::image::HEADER)
        }
    }
}

/// Returns a text, unless it has more than `most_bytes`.
///
/// # Safety
/// A datum of type `text` or `varchar`, not NULL.
pub(super) unsafe fn bounded(datum: pg_sys::Datum, most_bytes: usize) -> Option<BoundedText> {
    // SAFETY: by the caller.
    unsafe {
        match bytes_of(datum) {
            bytes if bytes > most_bytes => Some(BoundedText::TooLong { bytes }),
            _ => String::from_datum(datum, false).map(BoundedText::Text),
        }
    }
}

/// Returns whether two values of one type of variable length have the same bytes, uncompressed. Reads them only if they are
/// equally long.
///
/// # Safety
/// Datums of types of variable length, not NULL.
pub(super) unsafe fn are_same(one: pg_sys::Datum, two: pg_sys::Datum) -> bool {
    // SAFETY: by the caller; what reading has copied is freed.
    unsafe {
        if bytes_of(one) != bytes_of(two) {
            return false;
        }
        let read = |datum: pg_sys::Datum| pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        let (first, second) = (read(one), read(two));
        let bytes = |value: *const pg_sys::varlena| {
            std::slice::from_raw_parts(pgrx::vardata_any(value).cast::<u8>(), pgrx::varsize_any_exhdr(value))
        };
        let are_same = bytes(first) == bytes(second);
        for (value, datum) in [(first, one), (second, two)] {
            if value != datum.cast_mut_ptr() {
                pg_sys::pfree(value.cast());
            }
        }
        are_same
    }
}
