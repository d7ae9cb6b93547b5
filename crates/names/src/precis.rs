//! PRECIS IdentifierClass: the code points that a user name can have (RFC 8264, 8 and 9).

use icu_properties::props::{GeneralCategory, HangulSyllableType};

use crate::tables::UnicodeTables;

/// The derived property of a code point (RFC 8264, 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Derived {
    Valid,
    /// CONTEXTJ or CONTEXTO: the rules of `context` decide.
    Contextual,
    /// ID_DIS, allowed in free text only, with a description of the character.
    FreeText(&'static str),
    /// DISALLOWED everywhere, with a description of the character.
    Disallowed(&'static str),
    Unassigned,
}

/// Returns the index of the first character that no user name can have, and its description.
pub fn first_forbidden<T: UnicodeTables>(text: &str) -> Option<(usize, &'static str)> {
    text.chars().enumerate().find_map(|(index, c)| match derived::<T>(c) {
        Derived::Valid | Derived::Contextual => None,
        Derived::FreeText(kind) | Derived::Disallowed(kind) => Some((index, kind)),
        Derived::Unassigned => Some((index, "not assigned")),
    })
}

/// Returns the derived property. It tests the categories in the order of RFC 8264, 8, where the first match wins.
pub fn derived<T: UnicodeTables>(c: char) -> Derived {
    if c.is_ascii_graphic() {
        return Derived::Valid;
    }
    if let Some(exception) = exception(c) {
        return exception;
    }
    let category = T::category(c);
    if category == GeneralCategory::Unassigned {
        // Unicode calls noncharacters unassigned; RFC 8264, 9.10, does not.
        return if is_noncharacter(c) { Derived::Disallowed("a noncharacter") } else { Derived::Unassigned };
    }
    if matches!(c, '\u{200C}' | '\u{200D}') {
        return Derived::Contextual;
    }
    if is_old_jamo::<T>(c) {
        return Derived::Disallowed("a letter of Hangul that is part of no syllable");
    }
    if T::is_default_ignorable(c) {
        return Derived::Disallowed("an invisible character");
    }
    if category == GeneralCategory::Control {
        return Derived::Disallowed("a control character");
    }
    if category != GeneralCategory::SpaceSeparator && has_compatibility_form::<T>(c) {
        return Derived::FreeText("a compatibility form of other characters");
    }
    by_category(category)
}

fn by_category(category: GeneralCategory) -> Derived {
    use GeneralCategory::*;
    match category {
        LowercaseLetter | UppercaseLetter | OtherLetter | DecimalNumber | ModifierLetter | NonspacingMark
        | SpacingMark => Derived::Valid,
        TitlecaseLetter => Derived::FreeText("a titlecase letter"),
        LetterNumber | OtherNumber => Derived::FreeText("a number that is no digit"),
        EnclosingMark => Derived::FreeText("an enclosing mark"),
        SpaceSeparator => Derived::FreeText("a space"),
        MathSymbol | CurrencySymbol | ModifierSymbol | OtherSymbol => Derived::FreeText("a symbol"),
        ConnectorPunctuation | DashPunctuation | OpenPunctuation | ClosePunctuation | InitialPunctuation
        | FinalPunctuation | OtherPunctuation => Derived::FreeText("punctuation"),
        LineSeparator | ParagraphSeparator => Derived::Disallowed("a line separator"),
        PrivateUse => Derived::Disallowed("for private use"),
        _ => Derived::Disallowed("a format character"),
    }
}

/// Returns the exceptions of RFC 8264, 9.6 (RFC 5892, 2.6), which override the categories.
fn exception(c: char) -> Option<Derived> {
    match c {
        '\u{00DF}' | '\u{03C2}' | '\u{06FD}' | '\u{06FE}' | '\u{0F0B}' | '\u{3007}' => Some(Derived::Valid),
        '\u{00B7}' | '\u{0375}' | '\u{05F3}' | '\u{05F4}' | '\u{30FB}' => Some(Derived::Contextual),
        '\u{0660}'..='\u{0669}' | '\u{06F0}'..='\u{06F9}' => Some(Derived::Contextual),
        '\u{0640}' | '\u{07FA}' => Some(Derived::Disallowed("a mark that only stretches a word")),
        '\u{302E}' | '\u{302F}' => Some(Derived::Disallowed("a tone mark of old Hangul")),
        '\u{3031}'..='\u{3035}' | '\u{303B}' => Some(Derived::Disallowed("a mark that repeats what is before it")),
        _ => None,
    }
}

fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    code & 0xFFFE == 0xFFFE || (0xFDD0..=0xFDEF).contains(&code)
}

fn is_old_jamo<T: UnicodeTables>(c: char) -> bool {
    use HangulSyllableType as H;
    matches!(T::hangul_syllable_type(c), H::LeadingJamo | H::VowelJamo | H::TrailingJamo)
}

fn has_compatibility_form<T: UnicodeTables>(c: char) -> bool {
    !T::is_nfkc(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
#[path = "precis_test.rs"]
mod tests;
