//! `refill_ids`: gives the sequences of a cell their next ranges in time.
//!
//! A range is leased, stored, and then used. A crash between these steps loses ids, and gives none twice. Before a database leases a range it
//! presents its epoch, and asks whether it may use the ranges that it has: after another database of the cell was adopted it may not.

use std::time::Duration;

use claims_model::ids::Ids;

use super::declare::MAX_LOW_WATER;
use super::errors::IdsError;
use crate::cell::client::ids::RangeState;
use crate::cell::client::{Service, unreachable};
use crate::cell::epoch;
use crate::cell::errors::CellError;
use crate::cell::id_sequences::{self as sequences, IdSequence, Sequence};
use crate::cell::transactions::Transactions;
use crate::kernel::error::ClaimsError;
use crate::kernel::pass_log::Pass;
use crate::kernel::{access, arguments, catalog};
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::xact;

/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of ids of a range, unless the low-water mark asks for more.
const RANGE: i64 = 1_000_000;

/// Leases the next ranges where they are needed, and returns the number of leased ids.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn refill_ids(cell_id: Option<i64>, service: Option<String>) -> Result<i64, ErrorReport> {
    xact::must_be_writable(c"claims.refill_ids()");
    Ok(spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let server = arguments::required(service, "service")?;
        let refilled = refill(connection, cell_id, &server, 0)?;
        Ok::<_, ClaimsError>(refilled.leased)
    })?)
}

/// The result of a pass.
pub struct Refilled {
    /// The number of leased ids.
    pub leased: i64,
    /// Whether the cell has sequences that draw from ranges.
    pub has_sequences: bool,
}

/// Runs one pass. The service is asked about ranges that it has not confirmed within `confirmed_for` seconds.
pub fn refill<G: Transactions>(
    transactions: &G,
    cell_id: i64,
    server: &str,
    confirmed_for: i64,
) -> Result<Refilled, G::Error> {
    let log = Pass::begin("refill", Some(cell_id), None, Some(server));
    let (has_sequences, due) = transactions.in_database(|connection| {
        let mut sequences = sequences::of_cell(connection, cell_id, confirmed_for);
        if sequences.iter().any(|declared| sequences::sequence(connection, declared.oid).is_none()) {
            sequences::forget_dropped(connection);
            sequences = sequences::of_cell(connection, cell_id, confirmed_for);
        }
        let has_sequences = !sequences.is_empty();
        sequences.retain(|declared| declared.is_unconfirmed || needs_range(connection, declared));
        Ok((has_sequences, sequences))
    })?;
    if due.is_empty() {
        return Ok(Refilled { leased: 0, has_sequences });
    }
    let service = transactions.in_database(|connection| Service::resolved(connection, server, cell_id))?;
    epoch::act_as(transactions, &service)?;
    let pass = Refill { transactions, service: &service };
    let (mut leased, mut failure) = (0, None);
    for declared in &due {
        match pass.one(declared)? {
            Ok(ids) => leased += ids,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if leased > 0 {
        transactions.in_database(|connection| {
            log.succeeded(connection, &[("leased", leased)]);
            Ok(())
        })?;
    }
    failure.map_or(Ok(Refilled { leased, has_sequences }), |error| Err(error.into()))
}

/// Returns whether a sequence needs a range, or was altered so that it is not known how many ids are left.
fn needs_range(connection: &Connection, declared: &IdSequence) -> bool {
    let Some(sequence) = sequences::sequence(connection, declared.oid) else { return false };
    declared.next.is_some() || declared.current.is_none() || sequence.remaining(connection) < declared.low_water
}

struct Refill<'r, G> {
    transactions: &'r G,
    service: &'r Service<'r>,
}

/// The next step for a sequence.
enum RefillStep {
    Nothing,
    /// Lease a range of this size, after this id, up to this one, that overlaps none of these.
    Lease((i64, i64, i64), Vec<Ids>),
    Apply,
}

impl<G: Transactions> Refill<'_, G> {
    /// Confirms the ranges of a sequence and gives it the next one if it needs one. Returns the number of leased ids. The inner error
    /// concerns this sequence only.
    fn one(&self, declared: &IdSequence) -> Result<Result<i64, ClaimsError>, G::Error> {
        for (is_current, range) in [(true, declared.current), (false, declared.next)] {
            let Some(range) = range else { continue };
            let state = || self.service.confirm_id_range(&declared.id_space, range, ANSWER_TIMEOUT);
            match self.ask(state)? {
                Ok(RangeState::Leased) => {}
                Ok(RangeState::Forbidden) => {
                    if let Err(error) = self.within(|connection| self.give_up(connection, declared, is_current))? {
                        return Ok(Err(error));
                    }
                }
                Ok(RangeState::Unknown) => return self.within(|connection| Err(unknown(connection, declared, range))),
                Err(error) => return Ok(Err(error)),
            }
        }
        let step = self.within(|connection| {
            sequences::confirmed(connection, declared.oid);
            step(connection, declared)
        })?;
        let mut leased = 0;
        match step {
            Err(error) => return Ok(Err(error)),
            Ok(RefillStep::Nothing) => return Ok(Ok(0)),
            Ok(RefillStep::Apply) => {}
            Ok(RefillStep::Lease(limits, existing)) => {
                let (service, space) = (self.service, &declared.id_space);
                let lease = || {
                    let range = service.lease_id_range(space, limits, &existing, ANSWER_TIMEOUT)?;
                    // Once in a million ids. So a service that mixes up its answers gives no ids of another cell.
                    service.confirm_new_range(space, range, ANSWER_TIMEOUT).map(|()| range)
                };
                let range = match self.ask(lease)? {
                    Ok(range) => range,
                    Err(error) => return Ok(Err(error)),
                };
                leased = range.1 - range.0 + 1;
                self.transactions.in_database(|connection| {
                    self.store_next(connection, declared, range);
                    Ok(())
                })?;
            }
        }
        Ok(self.within(|connection| self.apply(connection, declared))?.map(|()| leased))
    }

    /// Asks the service. An error that it answers concerns this sequence only.
    fn ask<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<Result<T, ClaimsError>, G::Error> {
        self.transactions.at_service(|| match call().map_err(unreachable) {
            Err(error) if error.refusal().is_some() => Ok(Err(error)),
            answer => answer.map(Ok),
        })
    }

    /// Runs a step in this database. Its error concerns this sequence only.
    fn within<T>(
        &self,
        step: impl FnOnce(&Connection) -> Result<T, ClaimsError>,
    ) -> Result<Result<T, ClaimsError>, G::Error> {
        self.transactions.in_database(|connection| Ok(step(connection)))
    }

    /// Takes a range away that this database may not use any more.
    fn give_up(&self, connection: &Connection, declared: &IdSequence, is_current: bool) -> Result<(), ClaimsError> {
        let Some(mut now) = sequences::lock(connection, declared.oid) else { return Ok(()) };
        // Another pass may have replaced it meanwhile.
        if is_current && now.current == declared.current {
            let Some(sequence) = sequences::sequence(connection, declared.oid) else { return Ok(()) };
            if !sequence.exhaust(connection, Some(sequences::LOCK_TIMEOUT_MS)) {
                return Err(CellError::SequenceBusy { name: sequence.name }.into());
            }
            now.current = None;
        } else if !is_current && now.next == declared.next {
            now.next = None;
        }
        sequences::record(connection, &now, self.service.cell_id);
        Ok(())
    }

    /// Stores a leased range. If another pass has stored one meanwhile, this range is lost.
    fn store_next(&self, connection: &Connection, declared: &IdSequence, range: Ids) {
        if let Some(now) = sequences::lock(connection, declared.oid).filter(|now| now.next.is_none()) {
            sequences::record(connection, &IdSequence { next: Some(range), ..now }, self.service.cell_id);
        }
    }

    /// Has a sequence continue with the range that is stored for it.
    fn apply(&self, connection: &Connection, declared: &IdSequence) -> Result<(), ClaimsError> {
        let Some(now) = sequences::lock(connection, declared.oid) else { return Ok(()) };
        let (Some(next), Some(sequence)) = (now.next, sequences::sequence(connection, declared.oid)) else {
            return Ok(());
        };
        // PostgreSQL has no sequence of one value. A single id at the end of a space stays unused.
        if next.0 == next.1 && now.current.is_none_or(|current| current.1.checked_add(1) != Some(next.0)) {
            sequences::record(connection, &IdSequence { next: None, ..now }, self.service.cell_id);
            return Ok(());
        }
        let follows = now.current.filter(|current| current.1.checked_add(1) == Some(next.0));
        let current = match follows {
            Some(current) => {
                if !sequence.raise_maximum(connection, current.1, next.1) {
                    return Err(altered(&sequence, current));
                }
                (current.0, next.1)
            }
            None if sequence.continue_with(connection, next) => next,
            None => return Err(CellError::SequenceBusy { name: sequence.name }.into()),
        };
        sequences::record(connection, &IdSequence { current: Some(current), next: None, ..now }, self.service.cell_id);
        Ok(())
    }
}

fn step(connection: &Connection, declared: &IdSequence) -> Result<RefillStep, ClaimsError> {
    let (Some(now), Some(sequence)) =
        (sequences::lock(connection, declared.oid), sequences::sequence(connection, declared.oid))
    else {
        return Ok(RefillStep::Nothing);
    };
    let Some(limits) = sequence.limits.filter(|_| sequence.is_permanent) else { return Ok(RefillStep::Nothing) };
    if let Some(range) = now.current
        && !limits.fit(range)
    {
        return Err(altered(&sequence, range));
    }
    if now.next.is_some() {
        return Ok(RefillStep::Apply);
    }
    if now.current.is_some() && sequence.remaining(connection) >= now.low_water {
        return Ok(RefillStep::Nothing);
    }
    // A sequence that counts by more than one uses up more ids.
    let wanted = now.low_water.min(MAX_LOW_WATER).saturating_mul(2).max(RANGE);
    let size = wanted.saturating_mul(limits.increment).min(2 * MAX_LOW_WATER);
    // No range ends with the smallest id, so this one begins a block.
    let after = now.current.map_or(i64::MIN, |range| range.1);
    Ok(RefillStep::Lease((size, after, limits.of_type.1), sequences::ranges(connection, &now.id_space)))
}

fn unknown(connection: &Connection, declared: &IdSequence, range: Ids) -> ClaimsError {
    let name = sequences::sequence(connection, declared.oid).map_or_else(String::new, |sequence| sequence.name);
    IdsError::Unknown { name, id_range: shown(range) }.into()
}

fn altered(sequence: &Sequence, range: Ids) -> ClaimsError {
    IdsError::Altered { name: sequence.name.clone(), id_range: shown(range) }.into()
}

fn shown((first, last): Ids) -> String {
    format!("{first} to {last}")
}
