//! Checks the Bidi rule for a name with text from right to left (RFC 5893, 2).

use icu_properties::props::BidiClass as Class;

use crate::tables::UnicodeTables;

const FIRST: &str = "it cannot be the first character";
const LAST: &str = "it cannot be the last character";
const MIXED: &str = "both directions in one name";
const DIGITS: &str = "both European and Arabic digits in one name";

/// Returns the index of the first character that breaks the rule, and how it breaks it. The rule applies only to text
/// that contains a character from right to left.
pub fn first_offender<T: UnicodeTables>(text: &str) -> Option<(usize, &'static str)> {
    // The lowest code point that is written from right to left is U+0590.
    if !text.chars().any(|c| c >= '\u{0590}' && is_right_to_left(T::bidi_class(c))) {
        return None;
    }
    match T::bidi_class(text.chars().next()?) {
        Class::RightToLeft | Class::ArabicLetter => right_to_left::<T>(text),
        Class::LeftToRight => left_to_right::<T>(text),
        _ => Some((0, FIRST)),
    }
}

fn is_right_to_left(class: Class) -> bool {
    matches!(class, Class::RightToLeft | Class::ArabicLetter | Class::ArabicNumber)
}

fn is_neutral(class: Class) -> bool {
    matches!(
        class,
        Class::EuropeanNumber
            | Class::EuropeanSeparator
            | Class::CommonSeparator
            | Class::EuropeanTerminator
            | Class::OtherNeutral
            | Class::BoundaryNeutral
            | Class::NonspacingMark
    )
}

/// Checks conditions 2 to 4.
fn right_to_left<T: UnicodeTables>(text: &str) -> Option<(usize, &'static str)> {
    let mut digits = None;
    for (index, c) in text.chars().enumerate() {
        let class = T::bidi_class(c);
        if !is_right_to_left(class) && !is_neutral(class) {
            return Some((index, MIXED));
        }
        if matches!(class, Class::EuropeanNumber | Class::ArabicNumber) && *digits.get_or_insert(class) != class {
            return Some((index, DIGITS));
        }
    }
    last::<T>(text, |class| is_right_to_left(class) || class == Class::EuropeanNumber)
}

/// Checks conditions 5 and 6.
fn left_to_right<T: UnicodeTables>(text: &str) -> Option<(usize, &'static str)> {
    for (index, c) in text.chars().enumerate() {
        let class = T::bidi_class(c);
        if class != Class::LeftToRight && !is_neutral(class) {
            return Some((index, MIXED));
        }
    }
    last::<T>(text, |class| matches!(class, Class::LeftToRight | Class::EuropeanNumber))
}

/// Refuses the last character that is no nonspacing mark if `may_end` is false for its class.
fn last<T: UnicodeTables>(text: &str, may_end: impl Fn(Class) -> bool) -> Option<(usize, &'static str)> {
    let mut end = None;
    for (index, c) in text.chars().enumerate() {
        let class = T::bidi_class(c);
        if class != Class::NonspacingMark {
            end = Some((index, class));
        }
    }
    match end {
        Some((index, class)) if !may_end(class) => Some((index, LAST)),
        _ => None,
    }
}
