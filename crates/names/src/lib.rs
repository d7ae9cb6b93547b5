//! What counts as the same name. A profile turns every spelling of a name into its one canonical form, or says what is
//! wrong with it; a skeleton is the same for names that look alike.
//!
//! Needs no Postgres. All tables are const data of one Unicode version: nothing is built at the first use.
#![forbid(unsafe_code)]

mod bidi;
mod confusable;
mod context;
mod domain;
mod email;
mod fold;
mod limits;
mod locate;
mod path;
mod precis;
mod problem;
mod profile;
mod tables;
mod username;

pub use confusable::{Confusables, skeleton};
pub use limits::{CANONICAL_BYTES, NAME_CHARS};
pub use problem::{NameFault, NamePart, NameProblem};
pub use profile::Profile;
pub use tables::UNICODE_VERSION;

#[cfg(test)]
mod upgrade_test;
