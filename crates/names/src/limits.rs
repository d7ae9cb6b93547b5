//! Limits on the length of a name and of its canonical form.

use crate::problem::{NameFault, NameProblem};

/// The largest number of characters of a name, and of its canonical form.
pub const NAME_CHARS: usize = 1024;
/// The largest number of bytes of a canonical form. An entry of a PostgreSQL btree holds it together with the other
/// columns of the key.
pub const CANONICAL_BYTES: usize = 2600;

/// Refuses a name that is empty or too long, before any profile reads it.
pub fn check_input(input: &str) -> Result<(), NameProblem> {
    if input.is_empty() {
        return Err(NameProblem::of_name(NameFault::Empty));
    }
    match chars_beyond(input, NAME_CHARS) {
        Some(got) => Err(NameProblem::of_name(NameFault::TooManyChars { got, limit: NAME_CHARS })),
        None => Ok(()),
    }
}

/// Refuses a canonical form that is too long. Folding can make a name longer.
pub fn check_canonical(canonical: &str) -> Result<(), NameProblem> {
    if let Some(got) = chars_beyond(canonical, NAME_CHARS) {
        return Err(NameProblem::of_name(NameFault::CanonicalTooManyChars { got, limit: NAME_CHARS }));
    }
    if canonical.len() > CANONICAL_BYTES {
        return Err(NameProblem::of_name(NameFault::CanonicalTooManyBytes {
            got: canonical.len(),
            limit: CANONICAL_BYTES,
        }));
    }
    Ok(())
}

/// Returns the number of characters if it is above the limit. The byte length decides for most texts.
fn chars_beyond(text: &str, limit: usize) -> Option<usize> {
    if text.len() <= limit {
        return None;
    }
    Some(text.chars().count()).filter(|chars| *chars > limit)
}
