//! Profiles and skeletons of names. A profile turns every spelling of a name into its canonical form, or reports why it
//! refuses the name. Names that look alike have one skeleton.
//!
//! The crate does not use PostgreSQL. All tables are const data of one Unicode version, so the first use builds
//! nothing.
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
