//! Verification, at the service: `digest_records` and `verify_records` compare a cell's claims with what the cell expects.
//! docs/cell/verification.md has the picture.

mod correct;
pub mod digest;
mod finding;
pub mod records;
mod rivals;
