//! `present_epoch` and `acting_cell`: make sure that only one database acts as a cell.

pub mod epochs;
mod tables;

pub use self::tables::*;

use claims_model::epoch::{self, NOTE_INTERVAL, Presentation, PresentationAnswer, SILENCE, StoredEpoch};
use claims_model::limits::REASON_CHARS;
use claims_model::mode::Need;
use claims_model::place::{Place, PlaceRelation};
use claims_model::{BadInput, Problem};

use self::epochs::StoredActing;
use super::errors::AdmissionError;
use super::ids::spaces;
use super::{admission, durability};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments::{self, required};
use crate::kernel::call::CellCall;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, admin_log, catalog};
use pg::clock::Moment;
use pg::prelude::*;
use pg::{place, roles, spi};

::pgrx::extension_sql_file!("../../../sql/install/service/epochs.sql", name = "service_epochs", requires = ["admin"]);
::pgrx::extension_sql_file!(
    "../../../sql/install/service/acting_cell.sql",
    name = "acting_cell",
    requires = ["service_epochs", service::epoch::acting_cell]
);

/// Takes the epoch that a cell's database presents, with its place. `reconcile`, `verify` and `adopt_cell` call it from the cell. With
/// `adopt_because` the database becomes the acting one whatever another database has presented. The cell's role asks for that on
/// behalf of an administrator of the cell's database, because the service cannot tell the cell's databases apart. A change of the
/// epoch is logged, a repeat is not. The number of changes in an hour is limited.
#[pg_extern(schema = "claims", security_definer, name = "present_epoch")]
#[search_path(pg_catalog, pg_temp)]
fn present_epoch_2(
    cell_id: Option<i64>,
    epoch: Option<i64>,
    predecessor: default!(Option<i64>, "NULL"),
    adopt_because: default!(Option<String>, "NULL"),
    place: default!(Option<i64>, "NULL"),
    lineage: default!(Option<i64>, "NULL"),
    timeline: default!(Option<i32>, "NULL"),
    address: default!(Option<String>, "NULL"),
    is_new: default!(Option<bool>, true),
) -> Result<(), ErrorReport> {
    let cell_id = required(cell_id, "cell_id")?;
    let epoch = required(epoch, "epoch")?;
    let is_new = required(is_new, "is_new")?;
    let place = match (place, lineage, timeline) {
        (Some(id), Some(lineage), Some(timeline)) => Some(Place { id, lineage, timeline }),
        _ => None,
    };
    let address = address.map(|address| arguments::text(Some(address), "address", REASON_CHARS)).transpose()?;
    let from = Presenter { place, address };
    Ok(match adopt_because {
        None => present(cell_id, StoredEpoch { epoch, predecessor }, from, is_new),
        Some(reason) => adopt(cell_id, epoch, from, reason),
    }?)
}

/// Where a presenting database says that it is; earlier versions of cells do not say.
struct Presenter {
    place: Option<Place>,
    address: Option<String>,
}

fn present(cell_id: i64, stored: StoredEpoch, from: Presenter, is_new: bool) -> Result<(), ClaimsError> {
    CellCall::run(Some(cell_id), |call| {
        admission::admit(call, Need::Settle)?;
        // The cell continues from this epoch: a crash must not undo it.
        durability::promise();
        let acting = epochs::lock(call.connection, cell_id, stored.epoch);
        let is_silent = acting.as_ref().is_some_and(|acting| is_silent(acting.acted_at));
        let presentation = Presentation { stored, place: from.place, is_new };
        match presentation.judge(acting.as_ref().map(|acting| acting.acting), is_silent) {
            PresentationAnswer::Acts => {
                epochs::store(call.connection, cell_id, stored.epoch, from.place, from.address.as_deref())
            }
            PresentationAnswer::MayTakeOver => epochs::confirm(call.connection, cell_id, stored.epoch),
            PresentationAnswer::AnotherEpoch => return Err(another_database(cell_id, acting)),
            PresentationAnswer::AnotherPlace(relation) => {
                return Err(another_place(cell_id, acting, from.address, relation));
            }
        }
        Ok(())
    })
}

/// Returns whether the acting database was silent for [`SILENCE`], while this server could hear it: it was up and took writes.
fn is_silent(acted_at: Moment) -> bool {
    let long_ago = Moment::now().before(i64::try_from(SILENCE.as_secs()).unwrap_or(i64::MAX));
    acted_at <= long_ago && place::writable_since() <= long_ago
}

fn another_database(cell_id: i64, acting: Option<StoredActing>) -> ClaimsError {
    AdmissionError::AnotherDatabase { cell_id, since: acting.map(|acting| acting.acted_at) }.into()
}

fn another_place(
    cell_id: i64,
    acting: Option<StoredActing>,
    own: Option<String>,
    relation: PlaceRelation,
) -> ClaimsError {
    let Some(StoredActing { acted_at, address, .. }) = acting else { return another_database(cell_id, None) };
    let text = |address: Option<String>| address.unwrap_or_else(|| "another place".to_owned());
    let is_outdated = relation == PlaceRelation::Outdated;
    AdmissionError::AnotherPlace { cell_id, acted_at, address: text(address), own: text(own), is_outdated }.into()
}

/// Returns the cell if the service follows the database that presents these epochs from this place, and raises an error otherwise. A cell's
/// database passes its result on to the function that begins or settles a lease: that one is not called without it. No lock keeps a
/// presentation that commits at the same moment out: the call counts as an earlier one. With `settles` it notes from time to time that the
/// database acts; a begin does not, because it may wait for names, with the row locked.
#[pg_extern(schema = "claims")]
fn acting_cell(
    cell_id: Option<i64>,
    epoch: Option<i64>,
    predecessor: Option<i64>,
    place: default!(Option<i64>, "NULL"),
    settles: default!(Option<bool>, false),
) -> Result<i64, ErrorReport> {
    let cell_id = required(cell_id, "cell_id")?;
    let presented = epoch.map(|epoch| StoredEpoch { epoch, predecessor });
    Ok(act(cell_id, presented, place, required(settles, "settles")?)?)
}

fn act(cell_id: i64, presented: Option<StoredEpoch>, place: Option<i64>, settles: bool) -> Result<i64, ClaimsError> {
    access::act_for(&catalog::current_without_spi(), cell_id)?;
    let tables = crate::kernel::tables::at_entry();
    let acting = EPOCH_TABLES.at(tables).acting(cell_id);
    if !epoch::is_followed(presented, place, acting.map(|acting| (acting.epoch, acting.place))) {
        return Err(another_database(cell_id, spi::connect_as_owner(|connection| epochs::read(connection, cell_id))));
    }
    if settles
        && let (Some(place), Some(acting)) = (place, acting)
        && acting.place == Some(place)
    {
        let (now, interval) = (Moment::now(), i64::try_from(NOTE_INTERVAL.as_secs()).unwrap_or(i64::MAX));
        // A moment ahead is one before the clock was set back.
        if acting.acted_at.is_none_or(|acted_at| acted_at <= now.before(interval) || acted_at > now) {
            EPOCH_TABLES.at(tables).note_act(cell_id, place);
        }
    }
    Ok(cell_id)
}

/// Maximum number of adoptions of a cell in an hour. Each leaves a row in a log that nothing purges.
const ADOPTIONS_PER_HOUR: i64 = 10;

fn adopt(cell_id: i64, epoch: i64, from: Presenter, reason: String) -> Result<(), ClaimsError> {
    let reason = arguments::text(Some(reason), "adopt_because", REASON_CHARS)?;
    if reason.trim().is_empty() {
        return Err(BadInput::new("adopt_because", Problem::Empty).into());
    }
    let is_repeat = CellCall::run(Some(cell_id), |call| {
        admission::admit(call, Need::Settle)?;
        Ok(epochs::has(call.connection, cell_id, epoch))
    })?;
    // A repeat is not logged: the service already has this epoch.
    if is_repeat {
        return Ok(());
    }
    let action = AdminAction::of_cell(ADOPTION, reason).with("cell_id", cell_id);
    action.perform(|call| {
        durability::promise();
        let connection = call.connection;
        // This locks the cell's row, so that concurrent adoptions count each other.
        epochs::store(connection, cell_id, epoch, from.place, from.address.as_deref());
        // The adopted database may be older, and would give ids again that were given since.
        spaces::close(connection, cell_id);
        let is_limited = !roles::caller_is_admin();
        if is_limited && admin_log::actions_of_last_hour(connection, ADOPTION, cell_id) >= ADOPTIONS_PER_HOUR {
            return Err(AdmissionError::TooManyAdoptions { cell_id, limit: ADOPTIONS_PER_HOUR }.into());
        }
        Ok(())
    })
}

/// The action's name in the log.
const ADOPTION: &str = "adopt_cell";
