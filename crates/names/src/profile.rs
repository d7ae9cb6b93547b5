//! The profiles by name: what is asked of a name, and what it becomes.

use std::borrow::Cow;
use std::fmt;

use crate::confusable::skeleton;
use crate::domain::shown;
use crate::problem::NameProblem;
use crate::tables::{Pinned, Tables};
use crate::{domain, email, fold, limits, path, username};

/// How the names of a type are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Byte by byte.
    #[default]
    Exact,
    /// NFC, full case folding, NFC.
    Casefold,
    /// PRECIS UsernameCaseMapped, RFC 8265.
    Username,
    /// UTS #46 to A-labels, in lower case.
    Domain,
    /// The domain by `Domain`, the local part by `Casefold`.
    Email,
    /// `Casefold`, without empty and dot segments.
    Path,
}

impl Profile {
    pub const ALL: [Profile; 6] =
        [Profile::Exact, Profile::Casefold, Profile::Username, Profile::Domain, Profile::Email, Profile::Path];

    /// The profile of that name, as SQL spells it.
    pub fn parse(name: &str) -> Option<Self> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Profile::Exact => "exact",
            Profile::Casefold => "casefold",
            Profile::Username => "username",
            Profile::Domain => "domain",
            Profile::Email => "email",
            Profile::Path => "path",
        }
    }

    /// The one form that all spellings of a name have in common. It is its own canonical form.
    pub fn canonical(self, given: &str) -> Result<Cow<'_, str>, NameProblem> {
        self.canonical_with::<Pinned>(given)
    }

    pub(crate) fn canonical_with<T: Tables>(self, given: &str) -> Result<Cow<'_, str>, NameProblem> {
        limits::check_given(given)?;
        let canonical = match self {
            Profile::Exact => Cow::Borrowed(given),
            Profile::Casefold => fold::casefold::<T>(given)?,
            Profile::Username => username::username::<T>(given)?,
            Profile::Domain => domain::domain::<T>(given)?,
            Profile::Email => email::email::<T>(given)?,
            Profile::Path => path::path::<T>(given)?,
        };
        limits::check_canonical(&canonical)?;
        Ok(canonical)
    }

    /// What a canonical form has in common with all that look like it: UTS #39's skeleton of what a person sees, which
    /// for a domain is not its A-labels. Not a name, and of any length.
    pub fn skeleton(self, canonical: &str) -> String {
        match self {
            Profile::Domain => skeleton(&shown(canonical)),
            Profile::Email => match canonical.rsplit_once('@') {
                Some((local, domain)) => skeleton(&format!("{local}@{}", shown(domain))),
                None => skeleton(canonical),
            },
            Profile::Exact | Profile::Casefold | Profile::Username | Profile::Path => skeleton(canonical),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
