//! `username`: PRECIS UsernameCaseMapped (RFC 8265, 3.3).
//!
//! The profile accepts more spellings than the RFC's order of steps, in two cases, and gives them the RFC's canonical
//! form. It composes a name (NFC) before it checks the code points, so it accepts `가` as two code points, too. It
//! checks contexts in lower case, so it accepts `L·L` like `l·l`.

use std::borrow::Cow;

use crate::fold::ascii_lower;
use crate::locate::{problem_at, refuse_unassigned};
use crate::problem::{NameFault, NameProblem};
use crate::tables::{UnicodeTables, then};
use crate::{bidi, context, precis};

pub fn username<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    if is_plain(input) {
        return Ok(ascii_lower(input));
    }
    enforce::<T>(input)
}

/// Returns whether the text is printable ASCII, which is always allowed and needs no check of context or direction.
fn is_plain(input: &str) -> bool {
    input.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Applies all steps, for any text of Unicode.
pub fn enforce<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    refuse_unassigned::<T>(input)?;
    let prepared = prepare::<T>(input);
    if let Some((index, kind)) = precis::first_forbidden::<T>(&prepared) {
        return Err(problem_at(input, &prepared, index, NameFault::Forbidden(kind), prepare::<T>));
    }
    let mapped = map_case::<T>(prepared);
    if let Some((index, rule)) = bidi::first_offender::<T>(&mapped) {
        return Err(problem_at(input, &mapped, index, NameFault::Direction(rule), map_all::<T>));
    }
    if let Some((index, rule)) = context::first_offender::<T>(&mapped) {
        return Err(problem_at(input, &mapped, index, NameFault::Context(rule), map_all::<T>));
    }
    Ok(mapped)
}

fn prepare<T: UnicodeTables>(input: &str) -> Cow<'_, str> {
    then(map_width(input), T::nfc)
}

fn map_case<T: UnicodeTables>(prepared: Cow<'_, str>) -> Cow<'_, str> {
    then(then(prepared, T::lower_case), T::nfc)
}

fn map_all<T: UnicodeTables>(input: &str) -> Cow<'_, str> {
    map_case::<T>(prepare::<T>(input))
}

/// The decompositions of the halfwidth Katakana from U+FF65 on. Unicode never changes them.
const KATAKANA: [char; 59] = [
    '・', 'ヲ', 'ァ', 'ィ', 'ゥ', 'ェ', 'ォ', 'ャ', 'ュ', 'ョ', 'ッ', 'ー', 'ア', 'イ', 'ウ', 'エ', 'オ', 'カ', 'キ',
    'ク', 'ケ', 'コ', 'サ', 'シ', 'ス', 'セ', 'ソ', 'タ', 'チ', 'ツ', 'テ', 'ト', 'ナ', 'ニ', 'ヌ', 'ネ', 'ノ', 'ハ',
    'ヒ', 'フ', 'ヘ', 'ホ', 'マ', 'ミ', 'ム', 'メ', 'モ', 'ヤ', 'ユ', 'ヨ', 'ラ', 'リ', 'ル', 'レ', 'ロ', 'ワ', 'ン',
    '\u{3099}', '\u{309A}',
];

/// Applies the width-mapping rule to a character. It maps only characters whose counterpart a user name can have. All
/// others are refused with or without mapping.
fn wide_or_narrow(c: char) -> Option<char> {
    let code = u32::from(c);
    match code {
        0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0),
        0xFF65..=0xFF9F => KATAKANA.get((code - 0xFF65) as usize).copied(),
        _ => None,
    }
}

pub fn map_width(input: &str) -> Cow<'_, str> {
    if input.chars().any(|c| wide_or_narrow(c).is_some()) {
        Cow::Owned(input.chars().map(|c| wide_or_narrow(c).unwrap_or(c)).collect())
    } else {
        Cow::Borrowed(input)
    }
}

#[cfg(test)]
#[path = "username_test.rs"]
mod tests;
