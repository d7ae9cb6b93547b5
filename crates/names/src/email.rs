//! `email`: the domain by the profile `domain`, and the local part composed and folded. The profile strips no dots or
//! tags: only the mail server knows which addresses reach the same mailbox.

use std::borrow::Cow;

use icu_properties::props::GeneralCategory;

use crate::domain::domain;
use crate::fold::{casefold, fold};
use crate::locate::problem_at;
use crate::problem::{NameFault, NamePart, NameProblem};
use crate::tables::UnicodeTables;

pub fn email<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    // The address is split at its last @, because a domain has none.
    let Some((input_local, input_domain)) = input.rsplit_once('@') else {
        return Err(NameProblem::of_name(NameFault::NoAt));
    };
    let local = local_part::<T>(input_local)?;
    let host = host::<T>(input_domain).map_err(|problem| problem.moved_by(input_local.chars().count() + 1))?;
    if local == input_local && host == input_domain {
        return Ok(Cow::Borrowed(input));
    }
    Ok(Cow::Owned(format!("{local}@{host}")))
}

fn host<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    if input.is_empty() { Err(NameProblem::of_name(NameFault::Empty)) } else { domain::<T>(input) }
}

/// Checks the local part by RFC 5321 and RFC 6531, without quoted strings. Dots may stand anywhere, because such
/// mailboxes exist.
fn local_part<T: UnicodeTables>(input: &str) -> Result<Cow<'_, str>, NameProblem> {
    if input.is_empty() {
        return Err(NameProblem { place: NamePart::LocalPart, reason: NameFault::Empty });
    }
    let local = casefold::<T>(input)?;
    // Checked after composing, because composing turns U+037E into a semicolon.
    for (index, c) in local.chars().enumerate() {
        if let Some(kind) = special::<T>(c) {
            return Err(problem_at(input, &local, index, NameFault::Forbidden(kind), fold::<T>));
        }
    }
    Ok(local)
}

/// Returns how a character that an unquoted local part cannot have is described. A quoted local part would be a second
/// spelling of one mailbox.
fn special<T: UnicodeTables>(c: char) -> Option<&'static str> {
    match c {
        '@' => Some("a second @"),
        '"' => Some("a quotation mark, and quoted addresses are not taken"),
        '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '\\' | ',' => {
            Some("a special character, which an unquoted address cannot have")
        }
        c if c.is_ascii_graphic() => None,
        c => match T::category(c) {
            GeneralCategory::Control => Some("a control character"),
            GeneralCategory::SpaceSeparator | GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => {
                Some("a space")
            }
            _ => None,
        },
    }
}
