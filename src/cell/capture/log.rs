//! The captured changes of the current transaction, in the memory of its session.
//!
//! They need not survive it: what is not sent before a transaction is prepared or commits can no longer be sent. A
//! row in a table for each change would cost more than the change itself, and be dead at once.

use std::cell::{Cell, RefCell};

use claims_model::capture::{Ends, Log, NamedBucket, Pending};
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;

use crate::error::{CaptureError, ClaimsError};
use crate::pg::transaction_end::{Hooks, current_subtransaction};

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
    /// Counts recorded changes.
    static CHANGES: Cell<i64> = const { Cell::new(0) };
    /// Changes were captured in automatic mode, by this trigger's function: all must be sent before the end.
    static MUST_BE_SENT: Cell<Option<Oid>> = const { Cell::new(None) };
    /// SET CONSTRAINTS was called, or may have been before the library was loaded: a deferred trigger sends, if need be before the
    /// end.
    static USES_QUEUE: Cell<bool> = const { Cell::new(true) };
    /// The subtransaction from which on nothing is recorded.
    static SKIPPED_BY: Cell<Option<u32>> = const { Cell::new(None) };
    /// The subtransaction that has queued the deferred trigger.
    static QUEUED_BY: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Keeps the log in step with savepoints and transactions, and checks before COMMIT that everything was sent.
pub const HOOKS: Hooks = Hooks { before_commit, end, released, rolled_back, ..Hooks::NONE };

/// Records that a row adds (`by` 1) or removes (-1) a claim.
pub fn record(bucket: NamedBucket, ends: Ends, by: i64) {
    if SKIPPED_BY.get().is_some() {
        return;
    }
    LOG.with_borrow_mut(|log| log.record(current_subtransaction(), bucket, ends, by));
    CHANGES.set(CHANGES.get() + 1);
}

/// From here on nothing is recorded, as far as the subtransaction that says so lasts.
pub fn skip() {
    if SKIPPED_BY.get().is_none() {
        SKIPPED_BY.set(Some(current_subtransaction()));
    }
}

/// A number that differs after each change, and is never zero after the first.
pub fn changes() -> i64 {
    CHANGES.get()
}

/// The changes since they were last sent.
pub fn pending() -> Result<Pending, ClaimsError> {
    LOG.with_borrow(Log::pending).map_err(|_| CaptureError::TooManyChanges.into())
}

/// Marks all pending changes as sent, unless the current subtransaction is rolled back.
pub fn mark_sent() {
    LOG.with_borrow_mut(|log| log.mark_sent(current_subtransaction()));
}

/// The deferred trigger's row was deleted: the next change queues the trigger again.
pub fn mark_dequeued() {
    QUEUED_BY.set(None);
}

/// Whether this transaction must send its changes, which the trigger `function` has captured. With its owner's rights they are sent.
pub fn must_be_sent(must: bool, function: Oid) {
    MUST_BE_SENT.set(must.then_some(function));
}

/// This transaction need not send its changes.
pub fn need_not_be_sent() {
    MUST_BE_SENT.set(None);
}

/// From here on the deferred trigger sends what this transaction changes.
pub fn use_queue() {
    USES_QUEUE.set(true);
}

/// There was no transaction when the library was loaded.
pub fn is_preloaded() {
    USES_QUEUE.set(false);
}

/// By which trigger function there are changes that the deferred trigger is to send and was not queued for. It counts as queued from
/// now on.
pub fn to_be_queued() -> Option<Oid> {
    let function = MUST_BE_SENT.get().filter(|_| USES_QUEUE.get() && QUEUED_BY.get().is_none())?;
    QUEUED_BY.set(Some(current_subtransaction()));
    Some(function)
}

/// By which trigger function there are changes that must be sent and were not.
pub fn unsent() -> Option<Oid> {
    MUST_BE_SENT.get().filter(|_| !LOG.with_borrow(Log::is_all_sent))
}

/// Everything should have been sent by now.
fn before_commit() -> Result<(), ErrorReport> {
    if unsent().is_some_and(|_| !matches!(pending(), Ok(pending) if pending.is_empty())) {
        return Err(ClaimsError::from(CaptureError::NotSent).into());
    }
    Ok(())
}

fn end() {
    LOG.take();
    MUST_BE_SENT.set(None);
    USES_QUEUE.set(false);
    QUEUED_BY.set(None);
    SKIPPED_BY.set(None);
}

fn released(own: u32, parent: u32) {
    LOG.with_borrow_mut(|log| {
        if !log.is_empty() {
            log.release(own, parent)
        }
    });
    for of in [&QUEUED_BY, &SKIPPED_BY] {
        if of.get() == Some(own) {
            of.set(Some(parent));
        }
    }
}

fn rolled_back(own: u32) {
    LOG.with_borrow_mut(|log| {
        if !log.is_empty() {
            log.roll_back(own)
        }
    });
    for of in [&QUEUED_BY, &SKIPPED_BY] {
        if of.get() == Some(own) {
            of.set(None);
        }
    }
}
