//! `email`: the domain by `domain`, what stands before the `@` composed and folded. No dots or tags are stripped: which
//! addresses reach one mailbox only its own server knows.

use std::borrow::Cow;

use icu_properties::props::GeneralCategory;

use crate::domain::domain;
use crate::fold::{casefold, fold};
use crate::locate::problem_at;
use crate::problem::{NameFault, NamePart, NameProblem};
use crate::tables::Tables;

pub fn email<T: Tables>(given: &str) -> Result<Cow<'_, str>, NameProblem> {
    // The last one: a domain has none.
    let Some((given_local, given_domain)) = given.rsplit_once('@') else {
        return Err(NameProblem::of_name(NameFault::NoAt));
    };
    let local = local_part::<T>(given_local)?;
    let host = host::<T>(given_domain).map_err(|problem| problem.moved_by(given_local.chars().count() + 1))?;
    if local == given_local && host == given_domain {
        return Ok(Cow::Borrowed(given));
    }
    Ok(Cow::Owned(format!("{local}@{host}")))
}

fn host<T: Tables>(given: &str) -> Result<Cow<'_, str>, NameProblem> {
    if given.is_empty() { Err(NameProblem::of_name(NameFault::Empty)) } else { domain::<T>(given) }
}

/// As RFC 5321 and RFC 6531 have it without quotes; dots may stand anywhere, since there are such mailboxes.
fn local_part<T: Tables>(given: &str) -> Result<Cow<'_, str>, NameProblem> {
    if given.is_empty() {
        return Err(NameProblem { place: NamePart::LocalPart, reason: NameFault::Empty });
    }
    let local = casefold::<T>(given)?;
    // Looked at afterwards: composing makes a semicolon of U+037E.
    for (index, c) in local.chars().enumerate() {
        if let Some(kind) = special::<T>(c) {
            return Err(problem_at(given, &local, index, NameFault::Forbidden(kind), fold::<T>));
        }
    }
    Ok(local)
}

/// What stands in no unquoted local part. A quoted one would be a second spelling of the same mailbox.
fn special<T: Tables>(c: char) -> Option<&'static str> {
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
