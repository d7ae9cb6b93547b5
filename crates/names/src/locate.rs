//! Where in the name as it was given a character of its canonical form comes from. Only for names that are refused.

use std::borrow::Cow;

use crate::problem::{NameFault, NameProblem};
use crate::tables::Tables;

/// The problem of the `index`-th character of `mapped`, with its position in `given`, which `map` made it from.
pub fn problem_at(
    given: &str,
    mapped: &str,
    index: usize,
    reason: NameFault,
    map: impl for<'x> Fn(&'x str) -> Cow<'x, str>,
) -> NameProblem {
    let Some(wanted) = mapped.chars().nth(index) else { return NameProblem::of_name(reason) };
    let before = mapped.chars().take(index).filter(|c| *c == wanted).count();
    match origin(given, wanted, before, map) {
        // As given, so that the caller finds it there: U+FF20, not the U+0040 that it was taken for.
        Some((code_point, position)) => NameProblem::at(code_point, position, reason),
        None => NameProblem::at(wanted, index + 1, reason),
    }
}

/// The character of `given` that became the one with `before` others like it in front.
fn origin(
    given: &str,
    wanted: char,
    before: usize,
    map: impl for<'x> Fn(&'x str) -> Cow<'x, str>,
) -> Option<(char, usize)> {
    let count = |text: &str| map(text).chars().filter(|c| *c == wanted).count();
    // Character by character, which is nearly always the answer; then what several of them made together.
    let mut seen = 0;
    for (index, c) in given.chars().enumerate() {
        seen += count(c.encode_utf8(&mut [0; 4]));
        if seen > before {
            return Some((c, index + 1));
        }
    }
    for (index, (start, c)) in given.char_indices().enumerate() {
        if count(&given[..start + c.len_utf8()]) > before {
            return Some((c, index + 1));
        }
    }
    None
}

/// Refuses the first code point that this version of Unicode does not know.
pub fn refuse_unassigned<T: Tables>(given: &str) -> Result<(), NameProblem> {
    match given.chars().enumerate().find(|(_, c)| !T::is_assigned(*c)) {
        Some((index, c)) => Err(NameProblem::at(c, index + 1, NameFault::Unassigned)),
        None => Ok(()),
    }
}
