//! Which database acts as a cell: this one, before it decides anything, shows the service that it does; `adopt_cell` makes it
//! the one. `claims_model::epoch` has the rules.
//!
//! A new epoch must be committed before the service hears of it, in the middle of a pass. Where the pass is in somebody's
//! transaction, a process of its own does that.

use std::time::Duration;

use claims_model::epoch::KeptEpoch;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use crate::access::{self, given};
use crate::acts::Act;
use crate::cell::client::Service;
use crate::cell::recovery::ground::Ground;
use crate::cell::recovery::unreachable;
use crate::error::{CellError, ClaimsError};
use crate::pg::background::{self, Errand};
use crate::pg::owner::as_role;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection};
use crate::pg::xact;
use crate::store::cell::epochs;
use crate::store::{catalog, worker};

/// How long the service may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often other passes of this database may come in between.
const ATTEMPTS: usize = 10;
/// Milliseconds that the process which commits waits for another one of its kind.
const PATIENCE_FOR_OTHERS: i64 = 5000;

/// Raises 55000 where another database acts as the cell, and 08001 where the service cannot be asked. Afterwards this one has
/// an epoch that no copy of it made before has.
pub fn act_as<G: Ground>(ground: &G, service: &Service, cell_id: i64) -> Result<(), G::Error> {
    for _ in 0..ATTEMPTS {
        let before = kept(ground, cell_id)?;
        // What an earlier pass has made, and perhaps not presented, is taken first.
        if let Some(kept) = before
            && !is_presented(ground, service, cell_id, kept)?
        {
            continue;
        }
        let made = make(ground, cell_id, before)?;
        if is_presented(ground, service, cell_id, made)? {
            return Ok(());
        }
    }
    Err(ClaimsError::from(CellError::EpochNotKept { cell_id }).into())
}

fn kept<G: Ground>(ground: &G, cell_id: i64) -> Result<Option<KeptEpoch>, G::Error> {
    ground.here(|connection| Ok(epochs::kept(connection, cell_id)))
}

/// `false`: it was refused, and other passes of this database have gone on meanwhile.
fn is_presented<G: Ground>(
    ground: &G,
    service: &Service,
    cell_id: i64,
    presented: KeptEpoch,
) -> Result<bool, G::Error> {
    let present = || match service.present_epoch(cell_id, presented, None, PATIENCE).map_err(unreachable) {
        Err(ClaimsError::Cell(CellError::Refused(error))) => Ok(Some(error)),
        answer => answer.map(|()| None),
    };
    match ground.there(present)? {
        None => Ok(true),
        Some(_) if kept(ground, cell_id)? != Some(presented) => Ok(false),
        Some(error) => Err(ClaimsError::from(CellError::Refused(error)).into()),
    }
}

/// Commits a new epoch behind the one that is kept, and returns what is kept then: this one, or that of a pass that was faster.
fn make<G: Ground>(ground: &G, cell_id: i64, before: Option<KeptEpoch>) -> Result<KeptEpoch, G::Error> {
    let new = KeptEpoch::followed_by(before, random());
    let has_started = if G::COMMITS {
        ground.here(|connection| {
            follow(connection, cell_id, new);
            Ok(true)
        })?
    } else {
        let predecessor = new.predecessor.map_or_else(String::new, |epoch| epoch.to_string());
        Errand { name: ERRAND, message: &format!("{cell_id} {} {predecessor}", new.epoch) }.run()
    };
    match kept(ground, cell_id)? {
        Some(kept) if Some(kept) != before => Ok(kept),
        _ if !has_started => Err(ClaimsError::from(CellError::NoProcess).into()),
        _ => Err(ClaimsError::from(CellError::EpochNotKept { cell_id }).into()),
    }
}

fn follow(connection: &Connection, cell_id: i64, new: KeptEpoch) {
    xact::commit_durably();
    let _waits = LockWaits::limit(PATIENCE_FOR_OTHERS);
    epochs::follow(connection, cell_id, new);
}

/// As it stands in pg_stat_activity.
const ERRAND: &str = "claims epoch";

/// What the process does that commits a new epoch: the cell, the epoch, and its predecessor if there is one.
pub fn commit_epoch(message: &str) {
    let mut numbers = message.split(' ').map(|number| number.parse::<i64>().ok());
    let (Some(Some(cell_id)), Some(Some(epoch)), predecessor) = (numbers.next(), numbers.next(), numbers.next()) else {
        return;
    };
    background::transaction(|| {
        let Some(owner) = spi::connect(worker::owner) else { return };
        as_role(owner, || {
            spi::connect(|connection| {
                follow(connection, cell_id, KeptEpoch { epoch, predecessor: predecessor.flatten() })
            });
        });
    });
}

/// 62 bits that nobody can guess.
fn random() -> i64 {
    // The lower half of such a uuid is two bits of its variant and 62 random ones.
    (Uuid::now_v7().as_u128() & ((1 << 62) - 1)) as i64
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn adopt_cell(cell_id: Option<i64>, service: Option<String>, reason: Option<String>) -> Result<i64, ErrorReport> {
    xact::must_be_writable(c"claims.adopt_cell()");
    Ok(adopt(cell_id, service, reason)?)
}

fn adopt(cell_id: Option<i64>, service: Option<String>, reason: Option<String>) -> Result<i64, ClaimsError> {
    let act = Act::begin("adopt_cell", reason)?;
    let cell_id = given(cell_id, "cell_id")?;
    let server = given(service, "service")?;
    let reason = act.reason().to_owned();
    act.with("cell_id", cell_id).with("service", server.as_str()).perform(|connection| {
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let service = Service::new(connection, &server, cell_id)?;
        let made = make(connection, cell_id, epochs::kept(connection, cell_id))?;
        service.present_epoch(cell_id, made, Some(&reason), PATIENCE).map_err(unreachable)?;
        Ok(made.epoch)
    })
}
