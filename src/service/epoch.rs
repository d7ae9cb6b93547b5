//! `present_epoch` and `acting_cell`: make sure that only one database acts as a cell.

use claims_model::epoch::{self, StoredEpoch};
use claims_model::limits::REASON_CHARS;
use claims_model::mode::Need;
use claims_model::{BadInput, Problem};

use super::{admission, durability};
use crate::admin_action::AdminAction;
use crate::arguments::{self, required};
use crate::error::{AdmissionError, ClaimsError};
use crate::pg::prelude::*;
use crate::pg::{roles, spi};
use crate::store::{admin_log, catalog};
use crate::tables::shared::{epochs, ids};
use crate::{access, tables};

/// Takes the epoch that a cell's database presents. `reconcile`, `verify` and `adopt_cell` call it from the cell. With
/// `adopt_because` the database becomes the acting one whatever another database has presented. The cell's role asks for that on
/// behalf of an administrator of the cell's database, because the service cannot tell the cell's databases apart. A change of the
/// epoch is logged, a repeat is not. The number of changes in an hour is limited.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn present_epoch(
    cell_id: Option<i64>,
    epoch: Option<i64>,
    predecessor: default!(Option<i64>, "NULL"),
    adopt_because: default!(Option<String>, "NULL"),
) -> Result<(), ErrorReport> {
    let cell_id = required(cell_id, "cell_id")?;
    let epoch = required(epoch, "epoch")?;
    Ok(match adopt_because {
        None => present(cell_id, StoredEpoch { epoch, predecessor }),
        Some(reason) => adopt(cell_id, epoch, reason),
    }?)
}

fn present(cell_id: i64, presented: StoredEpoch) -> Result<(), ClaimsError> {
    tables::connect(|tables, connection| {
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        admission::admit(tables, &catalog, cell_id, Need::Settle)?;
        // The cell continues from this epoch: a crash must not undo it.
        durability::promise();
        if epochs::take(connection, cell_id, presented) {
            return Ok(());
        }
        Err(AdmissionError::AnotherDatabase { cell_id, since: epochs::presented_at(connection, cell_id) }.into())
    })
}

/// Returns the cell if the service follows the database that presents these epochs, and raises an error otherwise. It stores nothing.
/// A cell's database passes its result on to the function that begins or settles a lease: that one is not called without it. No lock
/// keeps a presentation that commits at the same moment out: the call counts as an earlier one.
#[pg_extern(schema = "claims")]
fn acting_cell(cell_id: Option<i64>, epoch: Option<i64>, predecessor: Option<i64>) -> Result<i64, ErrorReport> {
    let cell_id = required(cell_id, "cell_id")?;
    Ok(act(cell_id, epoch.map(|epoch| StoredEpoch { epoch, predecessor }))?)
}

fn act(cell_id: i64, presented: Option<StoredEpoch>) -> Result<i64, ClaimsError> {
    access::act_for(&catalog::current_without_spi(), cell_id)?;
    if epoch::is_followed(presented, tables::at_entry().epoch(cell_id)) {
        return Ok(cell_id);
    }
    let since = spi::connect_as_owner(|connection| epochs::presented_at(connection, cell_id));
    Err(AdmissionError::AnotherDatabase { cell_id, since }.into())
}

/// Maximum number of adoptions of a cell in an hour. Each leaves a row in a log that nothing purges.
const ADOPTIONS_PER_HOUR: i64 = 10;

fn adopt(cell_id: i64, epoch: i64, reason: String) -> Result<(), ClaimsError> {
    let reason = arguments::text(Some(reason), "adopt_because", REASON_CHARS)?;
    if reason.trim().is_empty() {
        return Err(BadInput::new("adopt_because", Problem::Empty).into());
    }
    let tables = tables::at_entry();
    let catalog = spi::connect(catalog::current);
    access::act_for(&catalog, cell_id)?;
    admission::admit(tables, &catalog, cell_id, Need::Settle)?;
    // The service already has this epoch: a repeat, which is not logged.
    if spi::connect(|connection| epochs::has(connection, cell_id, epoch)) {
        return Ok(());
    }
    let action = AdminAction::of_cell(tables, ADOPTION, reason).with("cell_id", cell_id);
    action.perform(|_, connection| {
        durability::promise();
        // This locks the cell's row, so that concurrent adoptions count each other.
        epochs::adopt(connection, cell_id, epoch);
        // The adopted database may be older, and would give ids again that were given since.
        ids::close(connection, cell_id);
        let is_limited = !roles::caller_is_admin();
        if is_limited && admin_log::actions_of_last_hour(connection, ADOPTION, cell_id) >= ADOPTIONS_PER_HOUR {
            return Err(AdmissionError::TooManyAdoptions { cell_id, limit: ADOPTIONS_PER_HOUR }.into());
        }
        Ok(())
    })
}

/// The action's name in the log.
const ADOPTION: &str = "adopt_cell";
