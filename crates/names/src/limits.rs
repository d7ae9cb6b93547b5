//! How long a name may be, before and after.

use crate::problem::{NameFault, NameProblem};

/// Most characters of a name, as given and in its canonical form.
pub const NAME_CHARS: usize = 1024;
/// Most bytes of a canonical form: what an entry of Postgres' btree holds, with room for what else is in it.
pub const CANONICAL_BYTES: usize = 2600;

/// Refuses what no profile has to look at.
pub fn check_given(given: &str) -> Result<(), NameProblem> {
    if given.is_empty() {
        return Err(NameProblem::of_name(NameFault::Empty));
    }
    match chars_beyond(given, NAME_CHARS) {
        Some(got) => Err(NameProblem::of_name(NameFault::TooManyChars { got, limit: NAME_CHARS })),
        None => Ok(()),
    }
}

/// Folding makes names longer: what was within the limits need not be afterwards.
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

/// The number of characters where it is beyond the limit. Most texts are decided by their bytes.
fn chars_beyond(text: &str, limit: usize) -> Option<usize> {
    if text.len() <= limit {
        return None;
    }
    Some(text.chars().count()).filter(|chars| *chars > limit)
}
