//! `username`: PRECIS UsernameCaseMapped (RFC 8265, 3.3).
//!
//! In two things it takes more spellings than the RFC's order of steps, and gives each the same canonical form: a name is
//! composed (NFC) before its code points are looked at, so that `가` in two code points is as good as in one; and context
//! is looked at in lower case, so that `L·L` is as good as `l·l`.

use std::borrow::Cow;

use crate::fold::ascii_lower;
use crate::locate::{problem_at, refuse_unassigned};
use crate::problem::{NameFault, NameProblem};
use crate::tables::{Tables, then};
use crate::{bidi, context, precis};

pub fn username<T: Tables>(given: &str) -> Result<Cow<'_, str>, NameProblem> {
    if is_plain(given) {
        return Ok(ascii_lower(given));
    }
    enforce::<T>(given)
}

/// Printable ASCII: always allowed, without context or direction.
fn is_plain(given: &str) -> bool {
    given.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The steps for all of Unicode.
pub fn enforce<T: Tables>(given: &str) -> Result<Cow<'_, str>, NameProblem> {
    refuse_unassigned::<T>(given)?;
    let prepared = prepare::<T>(given);
    if let Some((index, kind)) = precis::first_forbidden::<T>(&prepared) {
        return Err(problem_at(given, &prepared, index, NameFault::Forbidden(kind), prepare::<T>));
    }
    let mapped = map_case::<T>(prepared);
    if let Some((index, rule)) = bidi::first_offender::<T>(&mapped) {
        return Err(problem_at(given, &mapped, index, NameFault::Direction(rule), map_all::<T>));
    }
    if let Some((index, rule)) = context::first_offender::<T>(&mapped) {
        return Err(problem_at(given, &mapped, index, NameFault::Context(rule), map_all::<T>));
    }
    Ok(mapped)
}

fn prepare<T: Tables>(given: &str) -> Cow<'_, str> {
    then(map_width(given), T::nfc)
}

fn map_case<T: Tables>(prepared: Cow<'_, str>) -> Cow<'_, str> {
    then(then(prepared, T::lower_case), T::nfc)
}

fn map_all<T: Tables>(given: &str) -> Cow<'_, str> {
    map_case::<T>(prepare::<T>(given))
}

/// Halfwidth Katakana from U+FF65 on, as their decomposition says. Unicode never changes it.
const KATAKANA: [char; 59] = [
    '・', 'ヲ', 'ァ', 'ィ', 'ゥ', 'ェ', 'ォ', 'ャ', 'ュ', 'ョ', 'ッ', 'ー', 'ア', 'イ', 'ウ', 'エ', 'オ', 'カ', 'キ',
    'ク', 'ケ', 'コ', 'サ', 'シ', 'ス', 'セ', 'ソ', 'タ', 'チ', 'ツ', 'テ', 'ト', 'ナ', 'ニ', 'ヌ', 'ネ', 'ノ', 'ハ',
    'ヒ', 'フ', 'ヘ', 'ホ', 'マ', 'ミ', 'ム', 'メ', 'モ', 'ヤ', 'ユ', 'ヨ', 'ラ', 'リ', 'ル', 'レ', 'ロ', 'ワ', 'ン',
    '\u{3099}', '\u{309A}',
];

/// The width-mapping rule. Of the fullwidth and halfwidth characters those whose counterpart a user name can have; the rest
/// are refused with and without mapping.
fn wide_or_narrow(c: char) -> Option<char> {
    let code = u32::from(c);
    match code {
        0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0),
        0xFF65..=0xFF9F => KATAKANA.get((code - 0xFF65) as usize).copied(),
        _ => None,
    }
}

pub fn map_width(given: &str) -> Cow<'_, str> {
    if given.chars().any(|c| wide_or_narrow(c).is_some()) {
        Cow::Owned(given.chars().map(|c| wide_or_narrow(c).unwrap_or(c)).collect())
    } else {
        Cow::Borrowed(given)
    }
}

#[cfg(test)]
#[path = "username_test.rs"]
mod tests;
