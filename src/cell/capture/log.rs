//! The changes of the transaction that is running, in the memory of its session.
//!
//! They need not outlive it: what is not sent when a transaction is prepared or commits can no longer be sent for it. A
//! row in a table for each change would cost more than the change itself, and be dead at once.

use std::cell::{Cell, RefCell};

use claims_model::capture::{Ends, Log, NamedBucket, Pending};
use pgrx::pg_sys::panic::ErrorReport;

use crate::error::{CaptureError, ClaimsError};
use crate::pg::transaction_end::{Hooks, current_subtransaction};

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
    /// Counts what was recorded.
    static CHANGES: Cell<i64> = const { Cell::new(0) };
    /// Something was captured in automatic mode: nothing may be left to send at the end.
    static MUST_BE_SENT: Cell<bool> = const { Cell::new(false) };
    /// The subtransaction that has put the deferred trigger's row into its queue.
    static QUEUED_BY: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The log follows savepoints, ends with the transaction, and must have been sent before.
pub const HOOKS: Hooks = Hooks { before_commit, end, released, rolled_back, ..Hooks::NONE };

/// Takes note of a claim that came (`by` 1) or went (-1) with a row.
pub fn record(bucket: NamedBucket, ends: Ends, by: i64) {
    LOG.with_borrow_mut(|log| log.record(current_subtransaction(), bucket, ends, by));
    CHANGES.set(CHANGES.get() + 1);
}

/// A number, never zero after a change, that is another one after each change.
pub fn changes() -> i64 {
    CHANGES.get()
}

/// What has changed since it was last sent.
pub fn pending() -> Result<Pending, ClaimsError> {
    LOG.with_borrow(Log::pending).map_err(|_| CaptureError::TooManyChanges.into())
}

/// All that was pending is sent, as far as the subtransaction that says so lasts.
pub fn mark_sent() {
    LOG.with_borrow_mut(|log| log.mark_sent(current_subtransaction()));
}

/// The deferred trigger's row has left its queue: the next change puts in another one.
pub fn mark_dequeued() {
    QUEUED_BY.set(None);
}

/// Whether this transaction must send what it changed. `true` back: the deferred trigger is to be queued for it.
pub fn must_be_sent(must: bool) -> bool {
    MUST_BE_SENT.set(must);
    let queue = must && QUEUED_BY.get().is_none();
    if queue {
        QUEUED_BY.set(Some(current_subtransaction()));
    }
    queue
}

/// The trigger's last call should have left nothing.
fn before_commit() -> Result<(), ErrorReport> {
    if MUST_BE_SENT.get() && !matches!(pending(), Ok(pending) if pending.is_empty()) {
        return Err(ClaimsError::from(CaptureError::NotSent).into());
    }
    Ok(())
}

fn end() {
    LOG.take();
    MUST_BE_SENT.set(false);
    QUEUED_BY.set(None);
}

fn released(own: u32, parent: u32) {
    LOG.with_borrow_mut(|log| {
        if !log.is_empty() {
            log.release(own, parent)
        }
    });
    if QUEUED_BY.get() == Some(own) {
        QUEUED_BY.set(Some(parent));
    }
}

fn rolled_back(own: u32) {
    LOG.with_borrow_mut(|log| {
        if !log.is_empty() {
            log.roll_back(own)
        }
    });
    if QUEUED_BY.get() == Some(own) {
        QUEUED_BY.set(None);
    }
}
