//! Verification, in the cell: what its own tables call for, compared with what it has claimed at the service.
//!
//! `digest_expected` and `expected_records` say what the tables call for; `verify` walks over everything and asks the
//! service; `begin_verification` and `verify_share` divide that among workers. docs/cell/verification.md has the picture.

pub mod begin;
mod compare;
pub mod digest;
pub mod expected;
mod progress;
mod remote;
mod rows;
pub mod share;
mod walk;
pub mod whole;
