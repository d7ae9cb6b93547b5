//! The service's half of verification: `digest_records` and `verify_records` compare a cell's claims with what the cell expects.
//! docs/cell/verification.md describes it.

mod correct;
pub mod digest;
pub mod errors;
mod finding;
pub mod holder;
pub mod import;
mod local;
pub mod records;
mod rivals;
pub mod slots;
pub mod statements;
mod tables;

pub use self::tables::*;

::pgrx::extension_sql_file!(
    "../../../sql/install/service/verification_slots.sql",
    name = "verification_slots",
    requires = ["admin", service::verify::slots::hold_verification_slot]
);
