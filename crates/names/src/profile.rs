//! The profiles, by name.

use std::borrow::Cow;
use std::fmt;

use crate::confusable::skeleton;
use crate::domain::shown;
use crate::problem::NameProblem;
use crate::tables::{Pinned, UnicodeTables};
use crate::{domain, email, fold, limits, path, username};

/// A rule by which the names of a bucket type are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Compares byte by byte.
    #[default]
    Exact,
    /// NFC, full case folding, NFC.
    Casefold,
    /// PRECIS UsernameCaseMapped, RFC 8265.
    Username,
    /// UTS #46 to A-labels in lower case.
    Domain,
    /// The domain by `Domain`, the local part by `Casefold`.
    Email,
    /// `Casefold`, without empty segments and dot segments.
    Path,
}

impl Profile {
    pub const ALL: [Profile; 6] =
        [Profile::Exact, Profile::Casefold, Profile::Username, Profile::Domain, Profile::Email, Profile::Path];

    /// Returns the profile with this SQL name.
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

    /// Returns the canonical form, which all spellings of a name have in common. A canonical form is its own canonical
    /// form.
    pub fn canonical(self, input: &str) -> Result<Cow<'_, str>, NameProblem> {
        self.canonical_with::<Pinned>(input)
    }

    pub(crate) fn canonical_with<T: UnicodeTables>(self, input: &str) -> Result<Cow<'_, str>, NameProblem> {
        limits::check_input(input)?;
        let canonical = match self {
            Profile::Exact => Cow::Borrowed(input),
            Profile::Casefold => fold::casefold::<T>(input)?,
            Profile::Username => username::username::<T>(input)?,
            Profile::Domain => domain::domain::<T>(input)?,
            Profile::Email => email::email::<T>(input)?,
            Profile::Path => path::path::<T>(input)?,
        };
        limits::check_canonical(&canonical)?;
        Ok(canonical)
    }

    /// Returns the skeleton of a canonical form (UTS #39), which all names that look like it have in common. The
    /// skeleton of a domain is made of its decoded labels, because people see these and not the A-labels. A skeleton is
    /// not a name, and it can have any length.
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
