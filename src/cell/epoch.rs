//! Makes sure that only one database acts as a cell, at each service by itself. Before this database decides anything, it presents its epoch to the service;
//! `adopt_cell` makes it the acting one. Between its passes it shows that it still acts, so that no copy of it takes over meanwhile. `claims_model::epoch` has the rules.
//!
//! A new epoch must be committed before it is presented to the service, in the middle of a pass. If the pass runs in the caller's
//! transaction, a background process commits the epoch.

use std::time::Duration;

use claims_model::epoch::StoredEpoch;
use uuid::Uuid;

use super::client::epochs::Presenting;
use super::client::{Service, unreachable};
use super::errors::CellError;
use super::id_sequences as sequences;
use super::own_epochs::{self, CellEpochs};
use super::transactions::Transactions;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments::required;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, schema};
use pg::background::{self, Errand};
use pg::foreign;
use pg::owner::as_role;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::xact;

::pgrx::extension_sql_file!("../../sql/install/cell/epochs.sql", name = "cell_epochs", requires = ["tables"]);

/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of attempts: other passes of this database may change the epoch during each of them.
const ATTEMPTS: usize = 10;
/// Limit for waiting for another transaction that stores an epoch.
const LOCK_TIMEOUT_MS: i64 = 5000;

/// Raises 55000 if another database acts as the cell at a service, and 08001 if the service cannot be asked. Otherwise this database then
/// has an epoch that no earlier copy of it has. Each service follows epochs of its own.
pub fn act_as<G: Transactions>(transactions: &G, service: &Service) -> Result<(), G::Error> {
    for _ in 0..ATTEMPTS {
        let before = stored(transactions, service)?;
        // Present the epoch of an earlier pass first: that pass may have ended before it presented it.
        let Some(follows) = resolve(transactions, service, &before)? else { continue };
        let made = make(transactions, service, &before, follows)?;
        match present(transactions, service, made, Presenting::New)? {
            None => return Ok(()),
            Some(refused) if stored(transactions, service)?.own == Some(made) => return Err(refused.into()),
            // Another pass of this database has stored a newer one meanwhile.
            Some(_) => {}
        }
    }
    Err(ClaimsError::from(CellError::EpochNotCommitted { cell_id: service.cell_id }).into())
}

/// Tells a service that this database still acts as the cell, with the epoch that it has. Returns whether the service follows it, or would
/// follow it; `None` if it has no epoch yet.
pub fn show<G: Transactions>(transactions: &G, service: &Service) -> Result<Option<bool>, G::Error> {
    let Some(own) = stored(transactions, service)?.own else { return Ok(None) };
    Ok(Some(present(transactions, service, own, Presenting::Stored)?.is_none()))
}

fn stored<G: Transactions>(transactions: &G, service: &Service) -> Result<CellEpochs, G::Error> {
    transactions.in_database(|connection| Ok(own_epochs::stored(connection, service.cell_id, service.name())))
}

/// Presents the stored epochs until the service accepts one, and returns that one; the inner `None` if there is none. Returns `None` if it
/// refused all of them and another pass of this database has stored a new one meanwhile.
fn resolve<G: Transactions>(
    transactions: &G,
    service: &Service,
    before: &CellEpochs,
) -> Result<Option<Option<StoredEpoch>>, G::Error> {
    let mut refused = None;
    for candidate in before.candidates() {
        let Some(candidate) = candidate else { return Ok(Some(None)) };
        match present(transactions, service, candidate, Presenting::Stored)? {
            None => return Ok(Some(Some(candidate))),
            Some(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if stored(transactions, service)? == *before => Err(error.into()),
        _ => Ok(None),
    }
}

/// Presents an epoch. Returns the service's error if it refuses it.
fn present<G: Transactions>(
    transactions: &G,
    service: &Service,
    presented: StoredEpoch,
    how: Presenting,
) -> Result<Option<ClaimsError>, G::Error> {
    transactions.at_service(|| match service.present_epoch(presented, how, ANSWER_TIMEOUT).map_err(unreachable) {
        Err(error) if error.refusal().is_some() => Ok(Some(error)),
        answer => answer.map(|()| None),
    })
}

/// Commits a new epoch that follows `follows`, in place of the own one in `before`. Returns the epoch that is stored then: the new one, or
/// that of a pass that was faster.
fn make<G: Transactions>(
    transactions: &G,
    service: &Service,
    before: &CellEpochs,
    follows: Option<StoredEpoch>,
) -> Result<StoredEpoch, G::Error> {
    let new = StoredEpoch::followed_by(follows, random());
    let replaced = before.own.map(|own| own.epoch);
    let has_started = if G::COMMITS {
        transactions.in_database(|connection| {
            follow(connection, service.cell_id, service.name(), new, replaced);
            Ok(true)
        })?
    } else {
        let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (predecessor, replaced) = (number(new.predecessor), number(replaced));
        let server = service.oid().to_u32();
        Errand {
            name: ERRAND,
            message: &format!("{} {server} {} {predecessor} {replaced}", service.cell_id, new.epoch),
        }
        .run()
    };
    match stored(transactions, service)?.own {
        Some(stored) if Some(stored) != before.own => Ok(stored),
        _ if !has_started => Err(ClaimsError::from(CellError::NoProcess).into()),
        _ => Err(ClaimsError::from(CellError::EpochNotCommitted { cell_id: service.cell_id }).into()),
    }
}

fn follow(connection: &Connection, cell_id: i64, service: &str, new: StoredEpoch, replaced: Option<i64>) {
    xact::commit_durably();
    let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
    own_epochs::follow(connection, cell_id, service, new, replaced);
}

/// The name of the background process in pg_stat_activity.
const ERRAND: &str = "claims epoch";

/// Runs in the background process: commits an epoch. The message has the cell, the oid of the service's foreign server, the epoch, its
/// predecessor, and the one that it replaces; `-` where there is none.
pub fn commit_epoch(message: &str) {
    let numbers: Vec<_> = message.split(' ').map(|number| number.parse::<i64>().ok()).collect();
    let [Some(cell_id), Some(server), Some(epoch), predecessor, replaced] = numbers[..] else { return };
    let Ok(server) = u32::try_from(server) else { return };
    background::transaction(|| {
        let Some(owner) = spi::connect(schema::owner) else { return };
        let Some(service) = foreign::server_name(pg_sys::Oid::from(server)) else { return };
        as_role(owner, || {
            spi::connect(|connection| {
                follow(connection, cell_id, &service, StoredEpoch { epoch, predecessor }, replaced)
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
    action.with("cell_id", cell_id).with("service", server.as_str()).perform(|call| {
        let connection = call.connection;
        access::act_here_for(&call.current_catalog(), cell_id)?;
        let service = Service::new(connection, &server, cell_id)?;
        let before = own_epochs::stored(connection, cell_id, &server);
        let made = make(connection, &service, &before, before.own)?;
        // The database that acted until now may have drawn ids from these ranges since this one was copied.
        if let Some(name) = sequences::discard(connection, cell_id) {
            return Err(CellError::SequenceBusy { name }.into());
        }
        service.present_epoch(made, Presenting::Adopted(&reason), ANSWER_TIMEOUT).map_err(unreachable)?;
        Ok(made.epoch)
    })
}
