//! Verification, in the cell: compares what its own tables call for with its claims at the service.
//!
//! `digest_expected` and `expected_records` return what the tables call for; `verify` walks over everything and asks the
//! service; `list_discrepancies` says by name what that counts; `begin_verification` and `verify_share` divide that among workers. See docs/cell/verification.md.

pub mod begin;
mod compare;
pub mod digest;
pub mod expected;
pub mod list;
mod progress;
mod remote;
mod rows;
pub mod share;
pub mod slice;
mod walk;
pub mod whole;
