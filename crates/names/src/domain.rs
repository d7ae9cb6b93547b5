//! `domain`: UTS #46 to A-labels in lower case, nontransitional, with STD3's characters and DNS' lengths. The dot of the
//! root goes: with and without it is the same domain.

use std::borrow::Cow;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

use crate::locate::refuse_unassigned;
use crate::problem::{NameFault, NamePart, NameProblem};
use crate::tables::Tables;

/// Most octets of a domain and of a label (RFC 1035, without the root's dot).
const DOMAIN_OCTETS: usize = 253;
const LABEL_OCTETS: usize = 63;

const NO_A_LABEL: &str = "is no A-label: what stands behind xn-- does not decode to a valid label";

pub fn domain<T: Tables>(given: &str) -> Result<Cow<'_, str>, NameProblem> {
    // Composed first: UTS #46 maps before it composes, and U+0345 becomes a letter, behind which no mark finds its place.
    let ascii = match T::nfc(given) {
        Cow::Borrowed(given) => to_ascii::<T>(given),
        Cow::Owned(composed) => to_ascii::<T>(&composed).map(|ascii| Cow::Owned(ascii.into_owned())),
    };
    match ascii {
        Some(ascii) if !ascii.is_empty() && !hides_a_label(&ascii) => Ok(ascii),
        _ => Err(diagnose::<T>(given)),
    }
}

/// UTS #46, 4.1, V4, which idna leaves out: no label that decodes to one that starts with `xn--` again.
fn hides_a_label(ascii: &str) -> bool {
    ascii.split('.').any(|label| label.starts_with("xn--xn--"))
        && shown(ascii).split('.').any(|label| label.starts_with("xn--"))
}

/// A domain with its A-labels decoded.
pub fn shown(ascii: &str) -> Cow<'_, str> {
    Uts46::new().to_unicode(ascii.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast).0
}

fn to_ascii<T: Tables>(domain: &str) -> Option<Cow<'_, str>> {
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

/// What separates labels, before and after UTS #46's mapping.
fn is_dot(c: char) -> bool {
    matches!(c, '.' | '\u{3002}' | '\u{FF0E}' | '\u{FF61}')
}

/// Why UTS #46 refuses a domain: it does not say itself.
fn diagnose<T: Tables>(given: &str) -> NameProblem {
    if let Err(problem) = refuse_unassigned::<T>(given) {
        return problem;
    }
    let without_root = given.strip_suffix(is_dot).unwrap_or(given);
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
    if T::domain_to_ascii(given, DnsLength::Ignore).is_some() {
        return NameProblem::of_name(NameFault::TooManyOctets { limit: DOMAIN_OCTETS });
    }
    NameProblem { place: NamePart::Domain, reason: NameFault::Direction("labels that do not go together") }
}

/// What is wrong with the label that starts at character `position`.
fn wrong_label<T: Tables>(label: &str, number: usize, position: usize) -> Option<NameProblem> {
    let problem = |reason| Some(NameProblem { place: NamePart::Label(number), reason });
    if label.is_empty() {
        return problem(NameFault::Empty);
    }
    for (index, c) in label.chars().enumerate() {
        if !has_a_place::<T>(c) {
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

/// Whether any domain can have the character: alone, inside text from left to right, or from right to left; for a joiner,
/// in words of scripts that use it.
fn has_a_place<T: Tables>(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
        || T::domain_to_ascii(c.encode_utf8(&mut [0; 4]), DnsLength::Ignore).is_some()
        || ["a", "\u{05D0}"].iter().any(|end| {
            let text = format!("{end}{c}{end}");
            T::domain_to_ascii(&text, DnsLength::Ignore).is_some()
        })
}

/// Which rule the label breaks, as far as can be told from outside.
fn broken_rule(label: &str) -> &'static str {
    if label.starts_with('-') || label.ends_with('-') {
        "starts or ends with a hyphen"
    } else if label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--")) {
        NO_A_LABEL
    } else {
        "breaks a rule of UTS #46: on its first character, joiners, or direction"
    }
}
