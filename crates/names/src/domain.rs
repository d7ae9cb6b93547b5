//! `domain`: UTS #46 to A-labels in lower case, nontransitional, with the characters of STD3 and the lengths of DNS. It
//! removes the dot of the root: a domain with it and one without it are the same domain.

use std::borrow::Cow;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

use crate::locate::refuse_unassigned;
use crate::problem::{NameFault, NamePart, NameProblem};
use crate::tables::UnicodeTables;

/// The largest number of octets of a domain and of a label (RFC 1035, without the root's dot).
const DOMAIN_OCTETS: usize = 253;
const LABEL_OCTETS: usize = 63;

const NO_A_LABEL: &str = "is no A-label: what stands behind xn-- does not decode to a valid label";

pub fn domain<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    // Compose first. UTS #46 maps before it composes, and it maps U+0345 to a letter. A combining mark behind that
    // letter would no longer reach its base character.
    let ascii = match T::nfc(input) {
        Cow::Borrowed(input) => to_ascii::<T>(input),
        Cow::Owned(composed) => to_ascii::<T>(&composed).map(|ascii| Cow::Owned(ascii.into_owned())),
    };
    match ascii {
        Some(ascii) if !ascii.is_empty() && !hides_a_label(&ascii) => Ok(ascii),
        _ => Err(diagnose::<T>(input)),
    }
}

/// Returns whether a label decodes to one that starts with `xn--` again. UTS #46, 4.1, V4 forbids that, and idna does
/// not check it.
fn hides_a_label(ascii: &str) -> bool {
    ascii.split('.').any(|label| label.starts_with("xn--xn--"))
        && shown(ascii).split('.').any(|label| label.starts_with("xn--"))
}

/// Returns a domain with its A-labels decoded.
pub fn shown(ascii: &str) -> Cow<'_, str> {
    Uts46::new().to_unicode(ascii.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast).0
}

fn to_ascii<T: UnicodeTables>(domain: &str) -> Option<Cow<'_, str>> {
    T::domain_to_ascii(domain, DnsLength::VerifyAllowRootDot).map(without_root)
}

fn without_root(ascii: Cow<'_, str>) -> Cow<'_, str> {
    match ascii {
        Cow::Borrowed(ascii) => Cow::Borrowed(ascii.strip_suffix('.').unwrap_or(ascii)),
        Cow::Owned(mut ascii) => {
            if ascii.ends_with('.') {
                ascii.pop();
            }
            Cow::Owned(ascii)
        }
    }
}

/// Returns whether a character separates labels, before or after the mapping of UTS #46.
fn is_dot(c: char) -> bool {
    matches!(c, '.' | '\u{3002}' | '\u{FF0E}' | '\u{FF61}')
}

/// Finds out why UTS #46 refuses a domain. idna does not report the reason.
fn diagnose<T: UnicodeTables>(input: &str) -> NameProblem {
    if let Err(problem) = refuse_unassigned::<T>(input) {
        return problem;
    }
    let without_root = input.strip_suffix(is_dot).unwrap_or(input);
    if without_root.is_empty() {
        return NameProblem::of_name(NameFault::Empty);
    }
    let mut position = 1;
    for (index, label) in without_root.split(is_dot).enumerate() {
        if let Some(problem) = wrong_label::<T>(label, index + 1, position) {
            return problem;
        }
        position += label.chars().count() + 1;
    }
    if T::domain_to_ascii(input, DnsLength::Ignore).is_some() {
        return NameProblem::of_name(NameFault::TooManyOctets { limit: DOMAIN_OCTETS });
    }
    NameProblem { place: NamePart::Domain, reason: NameFault::Direction("labels that do not go together") }
}

/// Returns the problem of the label that starts at character `position`.
fn wrong_label<T: UnicodeTables>(label: &str, number: usize, position: usize) -> Option<NameProblem> {
    let problem = |reason| Some(NameProblem { place: NamePart::Label(number), reason });
    if label.is_empty() {
        return problem(NameFault::Empty);
    }
    for (index, c) in label.chars().enumerate() {
        if !is_allowed_somewhere::<T>(c) {
            return Some(NameProblem::at(c, position + index, NameFault::Forbidden("nothing that a domain can have")));
        }
    }
    match T::domain_to_ascii(label, DnsLength::Ignore) {
        Some(ascii) if ascii.is_empty() => problem(NameFault::Empty),
        Some(ascii) if hides_a_label(&ascii) => problem(NameFault::Label(NO_A_LABEL)),
        Some(ascii) if ascii.len() > LABEL_OCTETS => problem(NameFault::TooManyOctets { limit: LABEL_OCTETS }),
        Some(_) => None,
        None => problem(NameFault::Label(broken_rule(label))),
    }
}

/// Returns whether any domain can have the character. It tries the character alone, between letters from left to right,
/// and between letters from right to left. It accepts joiners, which words of some scripts need.
fn is_allowed_somewhere<T: UnicodeTables>(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
        || T::domain_to_ascii(c.encode_utf8(&mut [0; 4]), DnsLength::Ignore).is_some()
        || ["a", "\u{05D0}"].iter().any(|end| {
            let text = format!("{end}{c}{end}");
            T::domain_to_ascii(&text, DnsLength::Ignore).is_some()
        })
}

/// Returns the rule that the label breaks, as far as the label itself shows it.
fn broken_rule(label: &str) -> &'static str {
    if label.starts_with('-') || label.ends_with('-') {
        "starts or ends with a hyphen"
    } else if label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--")) {
        NO_A_LABEL
    } else {
        "breaks a rule of UTS #46: on its first character, joiners, or direction"
    }
}
