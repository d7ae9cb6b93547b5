//! The cell's half of verification: compares the claims that its own tables need with its claims at the service.
//!
//! `digest_expected` and `expected_records` return the claims that the tables need. `verify` walks over all of them and asks the
//! service. `list_discrepancies` lists by name what `verify` counts. `begin_verification` and `verify_share` divide the work among
//! workers. See docs/cell/verification.md.

pub mod begin;
mod compare;
pub mod digest;
pub mod errors;
pub mod expected;
pub mod list;
mod moved_claims;
mod passes;
mod positions;
mod progress;
mod remote;
mod rows;
pub mod share;
pub mod slice;
mod slot;
pub mod unclaimed;
mod walk;
pub mod whole;
mod writers;

::pgrx::extension_sql_file!(
    "../../../sql/install/cell/verify.sql",
    name = "verify",
    requires = [
        "admin",
        "capture",
        service::verify::digest::digest_records,
        cell::verify::digest::digest_expected,
        cell::verify::expected::expected_records,
        service::verify::records::verify_records,
        cell::verify::whole::verify
    ]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/discrepancies.sql",
    name = "discrepancies",
    requires = ["verify", cell::verify::list::list_discrepancies_2]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/share.sql",
    name = "share",
    requires = ["verify", "expiring", cell::verify::begin::begin_verification, cell::verify::share::verify_share]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/progress.sql",
    name = "progress",
    requires = ["share", cell::reading::may_read_sources]
);
