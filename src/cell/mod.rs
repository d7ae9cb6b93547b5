//! The extension in a cell's own database: tracked leases and their recovery, capture of claimed columns, verification, and the
//! client of the service.

pub mod attend;
pub mod attended_cells;
mod availability;
pub mod capture;
pub mod claimed;
pub mod client;
pub mod epoch;
mod erasure;
pub mod errors;
mod id_sequences;
pub mod ids;
pub mod import;
pub mod look_up;
pub mod own_epochs;
pub mod reading;
pub mod recovery;
mod routes;
mod services;
pub mod track;
pub mod tracked;
pub mod transactions;
pub mod unique;
pub mod update_wait;
pub mod verify;
pub mod wakeup;
pub mod workers;

use claims_model::{BadInput, Problem};

use crate::kernel::error::ClaimsError;
use pg::shared::Area;

::pgrx::extension_sql_file!(
    "../../sql/install/cell/cell.sql",
    name = "cell",
    requires = [
        "admin",
        cell::track::track_lease,
        cell::track::forget_leases,
        cell::recovery::judge::judge_leases,
        cell::recovery::judge::purge_fences,
        cell::recovery::reconcile::reconcile
    ]
);

/// The cell's areas of shared memory.
pub static AREAS: [&dyn Area; 8] = [
    &wakeup::WAKEUP_SLOTS,
    &workers::SLOTS,
    &workers::LAUNCHER,
    &workers::LAUNCHED_AT,
    &client::states::SHARED,
    &client::turns::TURNS,
    &client::places::PLACES,
    &client::places::USES,
];

/// Maximum number of leases in the arguments of one call.
const MAX_LEASES: usize = 100_000;

fn at_most(got: usize, limit: usize, argument: &str) -> Result<(), ClaimsError> {
    if got <= limit {
        Ok(())
    } else {
        Err(BadInput::new(argument, Problem::TooMany { what: "leases", got, limit }).into())
    }
}
