//! The contextual rules: characters that a user name can have only beside certain others (RFC 5892, appendix A).

use icu_properties::props::{JoiningType, Script};

use crate::tables::UnicodeTables;

/// Returns the index of the first character that breaks its contextual rule, and the rule. The text must be composed
/// and in lower case.
pub fn first_offender<T: UnicodeTables>(text: &str) -> Option<(usize, &'static str)> {
    text.char_indices()
        .enumerate()
        .find_map(|(index, (start, c))| broken_rule::<T>(text, start, c).map(|rule| (index, rule)))
}

/// Returns the rule that the character at byte `start` breaks.
fn broken_rule<T: UnicodeTables>(text: &str, start: usize, c: char) -> Option<&'static str> {
    if c < '\u{00B7}' {
        return None;
    }
    let before = text[..start].chars().next_back();
    let after = text[start + c.len_utf8()..].chars().next();
    let has = |low: char, high: char| text.chars().any(|other| (low..=high).contains(&other));
    let is_of = |neighbour: Option<char>, script: Script| neighbour.is_some_and(|c| T::script(c) == script);
    let (is_kept, rule) = match c {
        '\u{200C}' => (
            before.is_some_and(T::is_virama) || joins_over::<T>(text, start, c),
            "behind a virama, or between letters that join",
        ),
        '\u{200D}' => (before.is_some_and(T::is_virama), "behind a virama"),
        '\u{00B7}' => (before == Some('l') && after == Some('l'), "between two letters l"),
        '\u{0375}' => (is_of(after, Script::Greek), "in front of a Greek character"),
        '\u{05F3}' | '\u{05F4}' => (is_of(before, Script::Hebrew), "behind a Hebrew character"),
        '\u{30FB}' => (text.chars().any(is_japanese::<T>), "in a name with Hiragana, Katakana or Han"),
        '\u{0660}'..='\u{0669}' => (!has('\u{06F0}', '\u{06F9}'), "in a name without extended Arabic-Indic digits"),
        '\u{06F0}'..='\u{06F9}' => (!has('\u{0660}', '\u{0669}'), "in a name without Arabic-Indic digits"),
        _ => return None,
    };
    (!is_kept).then_some(rule)
}

fn is_japanese<T: UnicodeTables>(c: char) -> bool {
    matches!(T::script(c), Script::Hiragana | Script::Katakana | Script::Han)
}

/// Applies RFC 5892, A.1. A letter that joins to the left must stand before the character at `start`, and a letter that
/// joins to the right behind it. Only transparent characters may stand between.
fn joins_over<T: UnicodeTables>(text: &str, start: usize, c: char) -> bool {
    let opaque = |c: &char| T::joining_type(*c) != JoiningType::Transparent;
    let before = text[..start].chars().rev().find(opaque).map(T::joining_type);
    let after = text[start + c.len_utf8()..].chars().find(opaque).map(T::joining_type);
    matches!(before, Some(JoiningType::LeftJoining | JoiningType::DualJoining))
        && matches!(after, Some(JoiningType::RightJoining | JoiningType::DualJoining))
}
