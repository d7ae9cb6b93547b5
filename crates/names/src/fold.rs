//! `casefold`: NFC, full case folding, NFC. Names with equal letters, in any case and any composition, are one name.

use std::borrow::Cow;

use crate::locate::refuse_unassigned;
use crate::problem::NameProblem;
use crate::tables::{UnicodeTables, then};

pub fn casefold<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    if input.is_ascii() {
        return Ok(ascii_lower(input));
    }
    refuse_unassigned::<T>(input)?;
    Ok(fold::<T>(input))
}

/// Applies NFC, full case folding and NFC, without checks.
pub fn fold<T: UnicodeTables>(input: &str) -> Cow<'_, str> {
    then(then(T::nfc(input), T::fold_case), T::nfc)
}

/// Lower-cases ASCII, which for ASCII is both case folding and lower case. A test compares it with each of them.
pub fn ascii_lower(input: &str) -> Cow<'_, str> {
    if input.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(input.to_ascii_lowercase())
    } else {
        Cow::Borrowed(input)
    }
}
