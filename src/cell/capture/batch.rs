//! A batch that is being sent to the service under one lease, and the refusals for which no save has to fail.
//!
//! A row may give up a name that was never claimed for it, because it is older than the claims, or because another row or another
//! cell has the name. Such a destroy is skipped. A row may get a name that its own cell has claimed for no row: then it adopts
//! the claim. The session calls the service first. The error lists all such conflicts, and only these are skipped or adopted in
//! the next call. The conflicts may change between the two calls. Then the second answer decides: no claim is ever destroyed that
//! the row does not have. The service's own `skip_missing` is not enough here: the session must know which destroys were left out, because a
//! row that keeps a name of another cell must not create it either, and several rows may have had one name. At worst a claim is left that no row needs, until verification finds it or a row adopts it.

use std::collections::BTreeSet;
use std::time::Duration;

use claims_model::backoff::Backoff;
use claims_model::capture::Create;
use claims_model::near;
use claims_model::observed::Missed;
use claims_model::outgoing::Outgoing;
use uuid::Uuid;

use super::{adopt, conflicts, uniques};
use crate::cell::client::Service;
use crate::cell::client::leases::{BeginRequest, HandedWait};
use crate::cell::client::naming::RequiredNaming;
use crate::cell::client::presented::{Presented, may_be_outdated};
use crate::cell::errors::{CellError, as_refusal};
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::{attribution, catalog, settings};
use crate::service::lease::current_transaction;
use crate::service::lease::errors::LeaseError;
use pg::hash;
use pg::spi::Connection;
use pg::xact;

/// Returns a uuid for a lease, near the claims of its batch.
pub fn new_lease(batch: &Outgoing) -> Uuid {
    let new = Uuid::now_v7();
    batch.first_name().map_or(new, |name| near::uuid(new, hash::bytes(name.as_bytes()), hash::bytes))
}

/// A batch, sent under one lease. It may be empty in the end, because everything was skipped: then there is no lease.
pub struct SentBatch<'c> {
    connection: &'c Connection,
    pub cell_id: i64,
    pub lease: Uuid,
    pub outgoing: Outgoing,
    /// The epoch with which the lease has begun.
    pub presented: Presented,
    /// The refused creates of observed names. `None`: the names are enforced, and a refused create fails the save.
    pub missed: Option<Vec<Missed>>,
}

impl<'c> SentBatch<'c> {
    pub fn enforced(connection: &'c Connection, cell_id: i64, lease: Uuid, outgoing: Outgoing) -> Self {
        SentBatch { connection, cell_id, lease, outgoing, presented: None, missed: None }
    }

    pub fn observed(connection: &'c Connection, cell_id: i64, outgoing: Outgoing) -> Self {
        let lease = new_lease(&outgoing);
        SentBatch { missed: Some(Vec::new()), ..SentBatch::enforced(connection, cell_id, lease, outgoing) }
    }

    /// Returns an error of [`SentBatch::begin`] as a save raises it: conflicts name the rows and declarations that they concern.
    pub fn explained(&self, error: ClaimsError) -> ClaimsError {
        conflicts::explained(&self.outgoing, error)
    }

    /// Returns the request that begins the lease, as the batch is now.
    pub fn request(&self, wait: Option<HandedWait>) -> Result<BeginRequest, ClaimsError> {
        let (creates, destroys) = self.outgoing.json();
        let lease = self.lease;
        let naming = RequiredNaming::of(&catalog::current(self.connection).types, self.outgoing.bucket_types());
        let (cell_xid, attribution) = (xact::own_xid(), attribution::of_cell());
        Ok(BeginRequest { lease, creates, destroys, cell_xid, naming, wait, attribution })
    }

    /// Begins the lease without the destroys that cannot be made. Raises an error for all other conflicts. `limit` is the time
    /// that the service may take for all its answers. With `may_wait` it waits for names as the session wants it. `answer` is that to the
    /// batch as it is now, if it was sent already.
    pub fn begin(
        &mut self,
        service: &Service,
        limit: Duration,
        may_wait: bool,
        answer: Option<Result<Presented, ClaimsError>>,
    ) -> Result<(), ClaimsError> {
        // A call with another epoch may be accepted.
        let mut answer = answer.filter(|answer| !answer.as_ref().is_err_and(may_be_outdated));
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        while !self.outgoing.is_empty() {
            pgrx::check_for_interrupts!();
            service.must_have_time(limit)?;
            let wait = if may_wait { handed_wait(service, limit) } else { None };
            let answer = match answer.take() {
                Some(answer) => answer,
                None => service.begin(&self.request(wait)?, limit),
            };
            match answer {
                // The wait was ended for a call that needs the place. It continues when there is a place that nobody needs.
                Err(error) if wait.is_some() && is_full(&error) => {
                    let pause = pauses.pause();
                    if !service.pauses(pause) || service.time_left(limit) <= 2 * LEAST_ROUND_TRIP {
                        return Err(error);
                    }
                }
                Ok(presented) => {
                    self.presented = presented;
                    return Ok(());
                }
                Err(error) if !self.gives_way(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Claims in this database, for the current transaction, without the destroys that cannot be made. Raises an error for all other
    /// conflicts.
    pub fn claim_here(&mut self, call: &Call) -> Result<(), ClaimsError> {
        while !self.outgoing.is_empty() {
            pgrx::check_for_interrupts!();
            match current_transaction::claim(call, self.cell_id, &self.outgoing).map_err(as_answered) {
                Err(error) if !self.gives_way(&error) && !self.has_waited(&error) => return Err(error),
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Waits for other transactions that are changing unique values. Returns whether it did.
    fn has_waited(&self, error: &ClaimsError) -> bool {
        let refusals = conflicts::refusals_of(error).filter(|_| self.missed.is_none());
        refusals.is_some_and(|refusals| uniques::wait(self.connection, &self.outgoing, &refusals))
    }

    /// Skips or adopts what an error lists; of observed names leaves it out. Returns whether the batch has changed.
    fn gives_way(&mut self, error: &ClaimsError) -> bool {
        let Some(refusals) = conflicts::refusals_of(error) else { return false };
        if let Some(missed) = &mut self.missed {
            let refused = self.outgoing.remove_refused(&refusals);
            return refused.map(|refused| missed.extend(refused)).is_some();
        }
        let uniques = uniques::among(self.connection, &self.outgoing.refused(&refusals));
        let mut creates = self.outgoing.adoptable(&refusals, self.cell_id);
        creates.retain(|create| !uniques.contains(&*create.bucket.bucket_type));
        let free = if creates.is_empty() { BTreeSet::new() } else { adopt::free(self.connection, &creates) };
        let has_replaced =
            uniques::replace_given_up(self.connection, &mut self.outgoing, &refusals, (self.cell_id, &uniques));
        self.outgoing.apply_refusals(&refusals, self.cell_id, &free) || has_replaced
    }

    /// Raises an error if another row of the cell has got an adopted name meanwhile. Call it when the lease is held, which from
    /// then on keeps other sessions from getting the name.
    pub fn confirm(&self) -> Result<(), ClaimsError> {
        let adopted: Vec<&Create> = self.outgoing.adopted().collect();
        if adopted.is_empty() {
            return Ok(());
        }
        let free = adopt::free(self.connection, &adopted);
        match adopted.into_iter().find(|create| !free.contains(&create.bucket)) {
            None => Ok(()),
            Some(create) => Err(conflicts::claimed_twice(self.cell_id, create)),
        }
    }
}

/// Returns conflicts of this database in the form in which a service answers with them, and other errors as they are.
fn as_answered(error: ClaimsError) -> ClaimsError {
    match error.of() {
        Some(LeaseError::Conflicts { .. }) => CellError::Refused(as_refusal(error)).into(),
        _ => error,
    }
}

/// The pauses of a save that has given its place up while the service waited for names, until it looks for a free place.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Returns whether the service has no place for the call.
pub fn is_full(error: &ClaimsError) -> bool {
    matches!(error.of(), Some(CellError::ServiceFull { .. }))
}

/// The least time that is left for the way to the service and back.
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(10);

/// Returns how long the service may wait for names: as long as the session wants, within what is left of `limit` minus the time
/// that the answers so far have taken. `None` if the session does not want to wait, or if nothing is left.
fn handed_wait(service: &Service, limit: Duration) -> Option<HandedWait> {
    let round_trip = service.waited().max(LEAST_ROUND_TRIP);
    let time = settings::lease_wait_of_save().min(service.time_left(limit).saturating_sub(round_trip));
    (time >= Duration::from_millis(1)).then(|| HandedWait { time, priority: settings::lease_priority() })
}
