//! `present_epoch`: one database acts as a cell, and its copies do not.

use claims_model::epoch::KeptEpoch;
use claims_model::limits::REASON_CHARS;
use claims_model::mode::Need;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::{admission, durability};
use crate::access::{self, given};
use crate::acts::Act;
use crate::arguments;
use crate::error::{AdmissionError, ClaimsError};
use crate::pg::spi;
use crate::store::catalog;
use crate::store::service::epochs;

/// For `reconcile`, `verify` and `adopt_cell`, in the cell. With `adopt_because` the database becomes the cell whatever
/// another one has presented.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn present_epoch(
    cell_id: Option<i64>,
    epoch: Option<i64>,
    predecessor: default!(Option<i64>, "NULL"),
    adopt_because: default!(Option<String>, "NULL"),
) -> Result<(), ErrorReport> {
    let cell_id = given(cell_id, "cell_id")?;
    let epoch = given(epoch, "epoch")?;
    Ok(match adopt_because {
        None => present(cell_id, KeptEpoch { epoch, predecessor }),
        Some(reason) => adopt(cell_id, epoch, reason),
    }?)
}

fn present(cell_id: i64, presented: KeptEpoch) -> Result<(), ClaimsError> {
    spi::connect(|connection| {
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        admission::admit(&catalog, cell_id, Need::Settle)?;
        // The cell goes on from it: a crash must not take it back.
        durability::promise();
        if epochs::take(connection, cell_id, presented) {
            return Ok(());
        }
        Err(AdmissionError::AnotherDatabase { cell_id, since: epochs::presented_at(connection, cell_id) }.into())
    })
}

fn adopt(cell_id: i64, epoch: i64, reason: String) -> Result<(), ClaimsError> {
    let reason = arguments::text(Some(reason), "adopt_because", REASON_CHARS)?;
    let catalog = spi::connect(catalog::current);
    access::act_for(&catalog, cell_id)?;
    admission::admit(&catalog, cell_id, Need::Settle)?;
    Act::of_cell("adopt_cell", reason).with("cell_id", cell_id).perform(|connection| {
        durability::promise();
        epochs::adopt(connection, cell_id, epoch);
        Ok(())
    })
}
