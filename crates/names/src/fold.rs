//! `casefold`: NFC, full case folding, NFC. The same letters in any case and any composition are one name.

use std::borrow::Cow;

use crate::locate::refuse_unassigned;
use crate::problem::NameProblem;
use crate::tables::{Tables, then};

pub fn casefold<T: Tables>(given: &str) -> Result<Cow<'_, str>, NameProblem> {
    if given.is_ascii() {
        return Ok(ascii_lower(given));
    }
    refuse_unassigned::<T>(given)?;
    Ok(fold::<T>(given))
}

/// The steps alone.
pub fn fold<T: Tables>(given: &str) -> Cow<'_, str> {
    then(then(T::nfc(given), T::fold_case), T::nfc)
}

/// What folding and lower case both are for ASCII: a test asks for each of the two.
pub fn ascii_lower(given: &str) -> Cow<'_, str> {
    if given.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(given.to_ascii_lowercase())
    } else {
        Cow::Borrowed(given)
    }
}
