//! Finds the character of the input that became a character of the canonical form. Only refused names need it.

use std::borrow::Cow;

use crate::problem::{NameFault, NameProblem};
use crate::tables::UnicodeTables;

/// Returns the problem of the `index`-th character of `mapped`, with its position in `input`. `map` turned `input` into
/// `mapped`.
pub fn problem_at(
    input: &str,
    mapped: &str,
    index: usize,
    reason: NameFault,
    map: impl for<'x> Fn(&'x str) -> Cow<'x, str>,
) -> NameProblem {
    let Some(wanted) = mapped.chars().nth(index) else { return NameProblem::of_name(reason) };
    let before = mapped.chars().take(index).filter(|c| *c == wanted).count();
    match origin(input, wanted, before, map) {
        // Report the character of the input, so that the caller finds it there: U+FF20, and not the U+0040 that it was
        // mapped to.
        Some((code_point, position)) => NameProblem::at(code_point, position, reason),
        None => NameProblem::at(wanted, index + 1, reason),
    }
}

/// Returns the character of `input` that became the occurrence of `wanted` with `before` others in front of it.
fn origin(
    input: &str,
    wanted: char,
    before: usize,
    map: impl for<'x> Fn(&'x str) -> Cow<'x, str>,
) -> Option<(char, usize)> {
    let count = |text: &str| map(text).chars().filter(|c| *c == wanted).count();
    // Map character by character, which nearly always finds it. Otherwise several characters together made it.
    let mut seen = 0;
    for (index, c) in input.chars().enumerate() {
        seen += count(c.encode_utf8(&mut [0; 4]));
        if seen > before {
            return Some((c, index + 1));
        }
    }
    for (index, (start, c)) in input.char_indices().enumerate() {
        if count(&input[..start + c.len_utf8()]) > before {
            return Some((c, index + 1));
        }
    }
    None
}

/// Refuses the first code point that this version of Unicode has not assigned.
pub fn refuse_unassigned<T: UnicodeTables>(input: &str) -> Result<(), NameProblem> {
    match input.chars().enumerate().find(|(_, c)| !T::is_assigned(*c)) {
        Some((index, c)) => Err(NameProblem::at(c, index + 1, NameFault::Unassigned)),
        None => Ok(()),
    }
}
