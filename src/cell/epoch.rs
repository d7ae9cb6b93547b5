//! Makes sure that only one database acts as a cell. Before this database decides anything, it presents its epoch to the service;
//! `adopt_cell` makes it the acting one. `claims_model::epoch` has the rules.
//!
//! A new epoch must be committed before it is presented to the service, in the middle of a pass. If the pass runs in the caller's
//! transaction, a background process commits the epoch.

use std::time::Duration;

use claims_model::epoch::StoredEpoch;
use uuid::Uuid;

use crate::access;
use crate::admin_action::AdminAction;
use crate::arguments::required;
use crate::cell::client::{Service, unreachable};
use crate::cell::transactions::Transactions;
use crate::error::{CellError, ClaimsError, IdsError};
use crate::pg::background::{self, Errand};
use crate::pg::owner::as_role;
use crate::pg::prelude::*;
use crate::pg::settings::LockWaits;
use crate::pg::spi::{self, Connection};
use crate::pg::xact;
use crate::store::cell::{epochs, ids};
use crate::store::{catalog, worker};

/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of attempts: other passes of this database may change the epoch during each of them.
const ATTEMPTS: usize = 10;
/// Limit for waiting for another transaction that stores an epoch.
const LOCK_TIMEOUT_MS: i64 = 5000;

/// Raises 55000 if another database acts as the cell, and 08001 if the service cannot be asked. Otherwise this database then has an
/// epoch that no earlier copy of it has.
pub fn act_as<G: Transactions>(transactions: &G, service: &Service, cell_id: i64) -> Result<(), G::Error> {
    for _ in 0..ATTEMPTS {
        let before = stored(transactions, cell_id)?;
        // Present the epoch of an earlier pass first: that pass may have ended before it presented it.
        if let Some(stored) = before
            && !is_presented(transactions, service, cell_id, stored)?
        {
            continue;
        }
        let made = make(transactions, cell_id, before)?;
        if is_presented(transactions, service, cell_id, made)? {
            return Ok(());
        }
    }
    Err(ClaimsError::from(CellError::EpochNotCommitted { cell_id }).into())
}

fn stored<G: Transactions>(transactions: &G, cell_id: i64) -> Result<Option<StoredEpoch>, G::Error> {
    transactions.in_database(|connection| Ok(epochs::stored(connection, cell_id)))
}

/// Presents an epoch. Returns `false` if the service refused it and another pass of this database has stored a new one meanwhile.
fn is_presented<G: Transactions>(
    transactions: &G,
    service: &Service,
    cell_id: i64,
    presented: StoredEpoch,
) -> Result<bool, G::Error> {
    let present = || match service.present_epoch(cell_id, presented, None, ANSWER_TIMEOUT).map_err(unreachable) {
        Err(ClaimsError::Cell(CellError::Refused(error))) => Ok(Some(error)),
        answer => answer.map(|()| None),
    };
    match transactions.at_service(present)? {
        None => Ok(true),
        Some(_) if stored(transactions, cell_id)? != Some(presented) => Ok(false),
        Some(error) => Err(ClaimsError::from(CellError::Refused(error)).into()),
    }
}

/// Commits a new epoch that follows `before`. Returns the epoch that is stored then: the new one, or that of a pass that was faster.
fn make<G: Transactions>(transactions: &G, cell_id: i64, before: Option<StoredEpoch>) -> Result<StoredEpoch, G::Error> {
    let new = StoredEpoch::followed_by(before, random());
    let has_started = if G::COMMITS {
        transactions.in_database(|connection| {
            follow(connection, cell_id, new);
            Ok(true)
        })?
    } else {
        let predecessor = new.predecessor.map_or_else(String::new, |epoch| epoch.to_string());
        Errand { name: ERRAND, message: &format!("{cell_id} {} {predecessor}", new.epoch) }.run()
    };
    match stored(transactions, cell_id)? {
        Some(stored) if Some(stored) != before => Ok(stored),
        _ if !has_started => Err(ClaimsError::from(CellError::NoProcess).into()),
        _ => Err(ClaimsError::from(CellError::EpochNotCommitted { cell_id }).into()),
    }
}

fn follow(connection: &Connection, cell_id: i64, new: StoredEpoch) {
    xact::commit_durably();
    let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
    epochs::follow(connection, cell_id, new);
}

/// The name of the background process in pg_stat_activity.
const ERRAND: &str = "claims epoch";

/// Runs in the background process: commits an epoch. The message has the cell, the epoch, and its predecessor if there is one.
pub fn commit_epoch(message: &str) {
    let mut numbers = message.split(' ').map(|number| number.parse::<i64>().ok());
    let (Some(Some(cell_id)), Some(Some(epoch)), predecessor) = (numbers.next(), numbers.next(), numbers.next()) else {
        return;
    };
    background::transaction(|| {
        let Some(owner) = spi::connect(worker::owner) else { return };
        as_role(owner, || {
            spi::connect(|connection| {
                follow(connection, cell_id, StoredEpoch { epoch, predecessor: predecessor.flatten() })
            });
        });
    });
}

/// Returns 62 random bits that nobody can guess.
fn random() -> i64 {
    // The lower half of such a uuid has two bits for its variant and 62 random bits.
    (Uuid::now_v7().as_u128() & ((1 << 62) - 1)) as i64
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn adopt_cell(cell_id: Option<i64>, service: Option<String>, reason: Option<String>) -> Result<i64, ErrorReport> {
    xact::must_be_writable(c"claims.adopt_cell()");
    Ok(adopt(cell_id, service, reason)?)
}

fn adopt(cell_id: Option<i64>, service: Option<String>, reason: Option<String>) -> Result<i64, ClaimsError> {
    let action = AdminAction::begin("adopt_cell", reason)?;
    let cell_id = required(cell_id, "cell_id")?;
    let server = required(service, "service")?;
    let reason = action.reason().to_owned();
    action.with("cell_id", cell_id).with("service", server.as_str()).perform(|_, connection| {
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let service = Service::new(connection, &server, cell_id)?;
        let made = make(connection, cell_id, epochs::stored(connection, cell_id))?;
        // The database that acted until now may have drawn ids from these ranges since this one was copied.
        if let Some(name) = ids::discard(connection, cell_id) {
            return Err(IdsError::SequenceBusy { name }.into());
        }
        service.present_epoch(cell_id, made, Some(&reason), ANSWER_TIMEOUT).map_err(unreachable)?;
        Ok(made.epoch)
    })
}
