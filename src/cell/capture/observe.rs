//! Sends the changes of observed names. The save continues whatever happens to them: conflicts, errors, a service that hangs, is full or
//! gone, answers that are none, and tables of this database that somebody has locked. All of it together takes at most
//! `claims.observe_timeout` in a transaction. Only a cancel ends the save.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use claims_model::capture::{Pending, Sending};
use claims_model::observed::separate;
use claims_model::outgoing::Outgoing;
use claims_model::routes::{Route, Routes};

use super::batch::SentBatch;
use super::leases::{Leases, divide_by, is_too_large};
use super::{log, observations, pins};
use crate::cell::claimed::authority;
use crate::cell::client::Service;
use crate::cell::errors::CellError;
use crate::cell::track;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::{catalog, settings};
use crate::service::lease::limit;
use pg::interrupts;
use pg::settings::LockWaits;
use pg::spi::Connection;
use pg::subtransaction::{Caught, Stopped, attempt, attempt_handling};

/// Number of records in one lease, as far as a batch can be divided. The service's default limit is twice as high.
const RECORDS: usize = 1000;
/// The time that is left to the statement when observing ends, and the least time to wait for a local lock: long enough for that of relation
/// extension.
const RESERVE: Duration = Duration::from_millis(5);

/// The observed changes of a transaction that are being sent.
pub struct Observed {
    sending: Option<Sending>,
    pending: Pending,
}

impl Observed {
    /// Takes the observed changes, and the enforced ones that belong to them ([`separate`]).
    pub fn begin(connection: &Connection, enforced: &mut Pending, routes: &Routes) -> Self {
        match log::begin_sending_observed(routes) {
            Ok((sending, mut pending)) => {
                leave_out_others(connection, &mut pending);
                separate(enforced, &mut pending).into_iter().for_each(observations::note_missed);
                Observed { sending: Some(sending), pending }
            }
            Err(_) => {
                pins::each_observed(|declared| observations::note(declared, "too_many", 1));
                Observed { sending: None, pending: Pending::default() }
            }
        }
    }

    /// Claims what can be claimed, and records the rest.
    pub fn send(self, call: &Call, routes: &Routes) -> Result<(), ClaimsError> {
        let Observed { sending, pending } = self;
        let began = Instant::now();
        let deadline = began + time_limit();
        let divided = routes.divide(pending).into_iter();
        let mut batches: VecDeque<_> = divided.map(|(place, pending)| (place, Outgoing::new(pending))).collect();
        let cell_id = routes.cell_id;
        while let Some((place, outgoing)) = batches.pop_front() {
            let mut batch = SentBatch::observed(call.connection, cell_id, outgoing);
            let begun = attempt(|| match &place {
                Route::Service(server) => begin(call.connection, server, deadline, &mut batch),
                Route::Here => claim_in_own_database(call, deadline, &mut batch),
            });
            let outcome = match begun {
                Ok(parts) => {
                    parts.into_iter().rev().for_each(|part| batches.push_front((place.clone(), part)));
                    None
                }
                Err(Stopped::ByBody(error)) => Some(outcome_of(&error)),
                Err(Stopped::ByError(caught)) if caught.may_be_ignored() => Some("error"),
                Err(Stopped::ByError(caught)) => caught.rethrow(),
            };
            if let Some(outcome) = outcome {
                let declared = batch.outgoing.take_rows().into_iter().filter_map(|ends| ends.origin.0);
                declared.for_each(|declared| observations::note(&declared, outcome, 1));
            }
            batch.missed.into_iter().flatten().for_each(observations::note_missed);
        }
        if let Some(sending) = sending {
            log::mark_observed_sent(sending, routes);
        }
        record(call.connection, deadline);
        observations::add_delay(began.elapsed());
        Ok(())
    }
}

/// Where automatic mode claims names in this database, leaves out the tables that may not claim names for its cell.
fn leave_out_others(connection: &Connection, pending: &mut Pending) {
    let Some(own_cell) = authority::own_cell(connection) else { return };
    pending.retain(|ends| match &ends.origin.0 {
        Some(declared) if !own_cell.accepts_declared(declared) => {
            observations::note(declared, "unusable", 1);
            false
        }
        _ => true,
    });
}

/// Writes the observations. If that fails, they are lost.
fn record(connection: &Connection, deadline: Instant) {
    if observations::is_empty() {
        return;
    }
    let _waits = LockWaits::until(deadline + RESERVE);
    let _ = attempt_handling(Caught::may_be_ignored, || observations::write(connection));
}

/// The parts of a batch that is too large, which are sent by themselves. Empty for a batch that was sent.
type UnsentParts = VecDeque<Outgoing>;

/// Begins and tracks a lease without what cannot be had. The session settles it after the transaction.
fn begin(
    connection: &Connection,
    server: &str,
    deadline: Instant,
    batch: &mut SentBatch,
) -> Result<UnsentParts, ClaimsError> {
    let _waits = LockWaits::until(deadline + RESERVE);
    let parts = divide(connection, &mut batch.outgoing, RECORDS);
    if !parts.is_empty() {
        return Ok(parts);
    }
    let (cell_id, limit) = (batch.cell_id, settings::observe_timeout());
    let service = &Service::new(connection, server, cell_id)?.until(deadline);
    match batch.begin(service, limit, false, None) {
        Err(error) if is_too_large(&error) => {
            let parts = divide(connection, &mut batch.outgoing, service.batch_limit(limit)?);
            return if parts.is_empty() { Err(error) } else { Ok(parts) };
        }
        begun => begun?,
    }
    if !batch.outgoing.is_empty() {
        Leases { connection, service, automatic: true }.has_begun(batch, batch.presented);
        track::track_new(connection, batch.lease, cell_id, server)?;
    }
    Ok(UnsentParts::new())
}

/// Claims in this database without what cannot be had. Waits for locks no longer than the deadline.
fn claim_in_own_database(call: &Call, deadline: Instant, batch: &mut SentBatch) -> Result<UnsentParts, ClaimsError> {
    let _waits = LockWaits::until(deadline);
    let most = usize::try_from(limit::of_cell(&call.current_catalog(), batch.cell_id)).unwrap_or(1);
    let parts = divide(call.connection, &mut batch.outgoing, most.min(RECORDS));
    if parts.is_empty() {
        batch.claim_here(call)?;
    }
    Ok(parts)
}

/// Divides a batch into parts of at most so many records. Returns nothing, and leaves the batch as it is, if it is small enough or cannot be
/// divided.
fn divide(connection: &Connection, outgoing: &mut Outgoing, most: usize) -> UnsentParts {
    if outgoing.records() <= most {
        return UnsentParts::new();
    }
    let mut parts = divide_by(&catalog::current(connection), std::mem::take(outgoing), most);
    if parts.len() < 2 {
        *outgoing = parts.pop_front().unwrap_or_default();
    }
    parts
}

/// Returns the time that observed names may still take in this transaction: less than `claims.observe_timeout` if the statement's own timeout ends before.
fn time_limit() -> Duration {
    let limit = settings::observe_timeout().saturating_sub(observations::delay());
    interrupts::statement_time_left().map_or(limit, |left| limit.min(left.saturating_sub(RESERVE) / 2))
}

/// Returns the outcome by which `claims.observations` counts an error.
fn outcome_of(error: &ClaimsError) -> &'static str {
    match error.of() {
        Some(CellError::ServiceSilent { .. }) => "timeout",
        Some(CellError::Refused(error)) if error.is_read_only() || error.is_connection_error() => "unavailable",
        Some(CellError::Refused(_)) => "refused",
        Some(error) if error.is_without_answer() => "unavailable",
        _ => "error",
    }
}
