//! Prints values of type numeric.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::image::{HEADER, header};

/// The base of the digits of a numeric.
const BASE: u64 = 10_000;
/// The number of digits whose value a u64 can have.
const MOST_DIGITS: usize = 4;

/// Prints a numeric as PostgreSQL does. The bytes are its varlena, at an address that is aligned for it.
pub(super) fn print(varlena: &[u8]) -> String {
    match small_integer(varlena) {
        Some(integer) => integer.to_string(),
        // SAFETY: the bytes are those of a numeric.
        None => unsafe { print_datum(pg_sys::Datum::from(varlena.as_ptr())) },
    }
}

/// Returns the value of an integer from 0 to 10^16 - 1, which nearly all ids are.
///
/// The short form of a numeric begins with 16 bits: 1 0, one for a negative sign, six for the number of decimals to show, one for
/// a negative weight of the first digit, and six for that weight. The digits follow, without zeros at the end.
fn small_integer(varlena: &[u8]) -> Option<u64> {
    const SHORT_POSITIVE: u16 = 0b100;
    let (start, rest) = varlena.split_at_checked(HEADER)?;
    let (form, digits) = rest.split_first_chunk()?;
    let is_plain = start == header(varlena.len());
    let bits = u16::from_ne_bytes(*form);
    let (form, decimals, weight) = (bits >> 13, (bits >> 7) & 0x3F, usize::from(bits & 0x3F));
    let is_negative_weight = bits & 0x40 != 0;
    let count = digits.len() / 2;
    if !is_plain
        || form != SHORT_POSITIVE
        || decimals != 0
        || is_negative_weight
        || weight >= MOST_DIGITS
        || count > weight + 1
    {
        return None;
    }
    let digit = |at: usize| digits.get(2 * at..2 * at + 2).map_or(0, |digit| u16::from_ne_bytes([digit[0], digit[1]]));
    Some((0..=weight).fold(0, |value, at| value * BASE + u64::from(digit(at))))
}

/// # Safety
/// The datum is a numeric.
pub(super) unsafe fn print_datum(numeric: pg_sys::Datum) -> String {
    // SAFETY: numeric_out returns a palloc'ed cstring, which is copied and freed.
    unsafe {
        let Some(printed) = pgrx::direct_function_call_as_datum(pg_sys::numeric_out, &[Some(numeric)]) else {
            return String::new();
        };
        let printed: *mut std::ffi::c_char = printed.cast_mut_ptr();
        let copy = CStr::from_ptr(printed).to_string_lossy().into_owned();
        pg_sys::pfree(printed.cast());
        copy
    }
}
