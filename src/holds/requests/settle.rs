//! `settle_requests` and `extend_requests`.

use std::collections::BTreeSet;

use claims_model::limits;
use pgrx::PgSqlErrorCode as Code;

use super::hands::{self, InHand};
use super::statements::{self as requests, HeldRequest, Holds};
use super::{enqueue, hints, probes, unblock};
use crate::holds::errors::HoldError;
use crate::kernel::error::ClaimsError;
use crate::kernel::{arguments, settings};
use pg::clock::Moment;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::subtransaction::translate_error;
use pg::uuid::from_pg_uuid;
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn settle_requests(
    process_id: Option<PgUuid>,
    error: default!(Option<String>, "NULL"),
) -> Result<i64, ErrorReport> {
    let now = Moment::now();
    let process = arguments::required(process_id, "process_id")?;
    let error = error.map(|error| arguments::at_most(error, "error", limits::ERROR_CHARS)).transpose()?;
    Ok(spi::connect(|connection| {
        let mut in_hand = hands::of(process);
        if unexpired_holds(connection, process, now)? > 0 {
            let held = unless_busy(|| requests::lock_held(connection, process, now))?;
            in_hand.extend(held.into_iter().map(alone));
            // A hold that expired before it was locked may belong to another process by now.
            unexpired_holds(connection, process, now)?;
        }
        if in_hand.is_empty() {
            return Err(HoldError::NothingInHand { process: from_pg_uuid(process) }.into());
        }
        // Done before the creates are settled: after that, sessions that record updates would have to wait for this
        // transaction.
        let closed = match error {
            None => unblock::close_creates(connection, &in_hand),
            Some(_) => Vec::new(),
        };
        let settle = |InHand { queue, ids, .. }: &InHand| match **ids {
            [id] => requests::settle_one(connection, queue, id, process, error.as_deref(), now) as i64,
            _ => requests::settle_all(connection, queue, ids, process, error.as_deref(), now) as i64,
        };
        let settled = in_hand.iter().map(settle).sum();
        hands::settled(process);
        hints::touch();
        unblock_and_announce(connection, &in_hand, error.is_none(), &closed);
        Ok::<_, ClaimsError>(settled)
    })?)
}

fn alone(held: HeldRequest) -> InHand {
    InHand { queue: held.queue, entity: held.entity, is_create: held.is_create, ids: vec![held.id] }
}

const LOCK_TIMEOUT_MS: i64 = 1000;

fn unless_busy<T>(body: impl FnOnce() -> T) -> Result<T, ClaimsError> {
    let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
    translate_error(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || HoldError::HoldBusy.into(), || Ok(body()))
}

/// Returns the number of requests that a process holds beyond a transaction. If one hold has expired or was taken over,
/// the call fails, because its work must be rolled back. A transaction that takes a hold over records that in
/// `claims.lost_holds`. The records of a process that holds nothing do not count, because its next requests are new
/// work.
fn unexpired_holds(connection: &Connection, process: PgUuid, now: Moment) -> Result<i64, ClaimsError> {
    if probes::is_holding(process) == Some(false) {
        return Ok(0);
    }
    match requests::holds(connection, process, now).unwrap_or_default() {
        Holds { held: 0, expired: 0, .. } => Ok(0),
        Holds { held, expired: 0, lost: 0 } => Ok(held),
        Holds { expired, lost, .. } => {
            Err(HoldError::HoldExpired { process: from_pg_uuid(process), expired, lost }.into())
        }
    }
}

/// Unblocks the updates of complete creates, and notifies if an entity has more requests.
fn unblock_and_announce(connection: &Connection, settled: &[InHand], complete: bool, closed: &[&InHand]) {
    for hand in settled.iter().filter(|hand| hand.is_create && complete) {
        let is_closed = closed.iter().any(|closed| std::ptr::eq(*closed, hand));
        unblock::open_updates(connection, &hand.queue, &hand.entity, is_closed);
    }
    if settings::notify_requests() {
        let entities: BTreeSet<_> = settled.iter().map(|hand| (&*hand.queue, &*hand.entity)).collect();
        for (queue, _) in entities.iter().filter(|(queue, entity)| requests::has_more(connection, queue, entity)) {
            enqueue::announce(connection, queue);
        }
    }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn extend_requests(process_id: Option<PgUuid>, hold_for: Option<Interval>) -> Result<i64, ErrorReport> {
    let now = Moment::now();
    let process = arguments::required(process_id, "process_id")?;
    let until = arguments::deadline(hold_for, "hold_for", now)?;
    Ok(spi::connect(|connection| match unexpired_holds(connection, process, now)? {
        0 => Err(ClaimsError::from(HoldError::NothingInHand { process: from_pg_uuid(process) })),
        _ => {
            let extended = unless_busy(|| requests::extend(connection, process, now, until) as i64)?;
            // A hold that expired before it was locked may belong to another process by now.
            unexpired_holds(connection, process, now)?;
            // The process relies on the extended hold, so a crash must not undo it.
            xact::commit_durably();
            Ok(extended)
        }
    })?)
}
