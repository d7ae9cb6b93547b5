//! The captured changes of the current transaction, in the session's memory.
//!
//! They need not survive the transaction: after PREPARE or COMMIT they cannot be sent any more. A table row for each change would
//! cost more than the change itself, and would be dead at once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::thread::LocalKey;

use claims_model::capture::{Ends, Log, NamedBucket, Pending, Sending, TooMany};
use claims_model::routes::Routes;
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;

use super::errors::CaptureError;
use super::{observations, pins};
use crate::kernel::error::ClaimsError;
use pg::transaction_end::{Hooks, current_subtransaction};

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
    /// The changes of observed names. They have a capacity of their own.
    static OBSERVED: RefCell<Log> = RefCell::default();
    /// Number of buckets when [`has_grown`] last returned true, or a smaller one since.
    static GROWN_TO: Cell<usize> = const { Cell::new(0) };
    /// Number of changes that were recorded.
    static CHANGES: Cell<i64> = const { Cell::new(0) };
    /// Function of the trigger that has captured changes in automatic mode. If it is set, all changes must be sent before the
    /// end.
    static MUST_BE_SENT: Cell<Option<Oid>> = const { Cell::new(None) };
    /// Whether the deferred trigger sends the changes: SET CONSTRAINTS was called, or may have been before the library was
    /// loaded.
    static USES_QUEUE: Cell<bool> = const { Cell::new(true) };
    /// The services to which this transaction has sent changes last.
    static ROUTES: RefCell<Option<Rc<Routes>>> = const { RefCell::new(None) };
    /// The subtransaction since which nothing is recorded.
    static SKIPPED_BY: Cell<Option<u32>> = const { Cell::new(None) };
    /// The subtransaction that has queued the deferred trigger.
    static QUEUED_BY: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The hooks, which follow savepoints and transactions, and check before COMMIT that everything was sent.
pub const HOOKS: Hooks = Hooks { before_commit, end, released, rolled_back, ..Hooks::NONE };

/// Records that a row adds (`by` 1) or removes (-1) a claim. `routes` returns those of automatic mode.
pub fn record(bucket: NamedBucket, ends: Ends, by: i64, routes: impl FnOnce() -> Option<Rc<Routes>>) {
    if !is_skipped() {
        record_in(&LOG, bucket, ends, by, routes);
    }
}

/// Like [`record`], for an observed name.
pub fn record_observed(bucket: NamedBucket, ends: Ends, by: i64, routes: impl FnOnce() -> Option<Rc<Routes>>) {
    record_in(&OBSERVED, bucket, ends, by, routes);
}

fn record_in(
    log: &'static LocalKey<RefCell<Log>>,
    bucket: NamedBucket,
    ends: Ends,
    by: i64,
    routes: impl FnOnce() -> Option<Rc<Routes>>,
) {
    if log.with_borrow_mut(|log| log.record(current_subtransaction(), bucket, ends, by)) {
        // Looking the routes up can run statements.
        let routes = routes();
        log.with_borrow_mut(|log| {
            log.forget_excess(|bucket_type| routes.as_ref().is_some_and(|routes| has_service(routes, bucket_type)));
        });
    }
    CHANGES.set(CHANGES.get() + 1);
}

fn has_service(routes: &Routes, bucket_type: &str) -> bool {
    routes.of(bucket_type).is_some()
}

/// Like [`begin_sending`], for observed names. If there are too many, it forgets them and returns an error.
pub fn begin_sending_observed(routes: &Routes) -> Result<(Sending, Pending), TooMany> {
    let sent = |bucket_type: &str| has_service(routes, bucket_type);
    let begun = OBSERVED.with_borrow_mut(|log| log.begin_sending(current_subtransaction(), sent));
    begun.inspect_err(|_| drop(OBSERVED.take()))
}

/// Like [`mark_sent`], for observed names.
pub fn mark_observed_sent(sending: Sending, routes: &Routes) {
    OBSERVED.with_borrow_mut(|log| log.mark_sent(sending, |bucket_type| !has_service(routes, bucket_type)));
}

/// Like [`is_all_sent`], for observed names, and for what was noted about them.
pub fn is_all_observed() -> bool {
    OBSERVED.with_borrow(Log::is_all_sent) && observations::is_empty()
}

/// Stops recording, until the current subtransaction is rolled back or the transaction ends.
pub fn skip() {
    if SKIPPED_BY.get().is_none() {
        SKIPPED_BY.set(Some(current_subtransaction()));
    }
}

/// Returns a number that differs after each change, and is positive after the first.
pub fn changes() -> i64 {
    CHANGES.get()
}

/// Returns whether the number of buckets has grown by so many since this function last returned true, or since the changes were sent.
pub fn has_grown(by: usize) -> bool {
    let buckets = buckets();
    let has_grown = buckets >= GROWN_TO.get() + by;
    if has_grown || buckets < GROWN_TO.get() {
        GROWN_TO.set(buckets);
    }
    has_grown
}

/// Returns the number of buckets whose changes are stored.
pub fn buckets() -> usize {
    LOG.with_borrow(Log::buckets)
}

/// Returns whether `skip` was called: nothing is recorded in this transaction any more.
pub fn is_skipped() -> bool {
    SKIPPED_BY.get().is_some()
}

/// Returns the changes since the last send. The error says that some of them were forgotten.
pub fn pending() -> Result<Pending, ClaimsError> {
    LOG.with_borrow(Log::pending).map_err(|excess| CaptureError::TooManyChanges { excess }.into())
}

/// Returns the pending changes for the caller to send, without changes that are captured later: the condition of an attribute may
/// write rows while the caller evaluates it. The error says that changes of a type that has a service were forgotten.
pub fn begin_sending(routes: &Routes) -> Result<(Sending, Pending), ClaimsError> {
    let sent = |bucket_type: &str| has_service(routes, bucket_type);
    let begun = LOG.with_borrow_mut(|log| log.begin_sending(current_subtransaction(), sent));
    begun.map_err(|excess| CaptureError::TooManyChanges { excess }.into())
}

/// Returns whether a caller further up the stack is sending changes.
pub fn is_sending() -> bool {
    LOG.with_borrow(Log::is_sending)
}

/// Marks the changes of a sending as sent, unless the current subtransaction is rolled back. Those of types without a service stay pending.
pub fn mark_sent(sending: Sending, routes: &Rc<Routes>) {
    LOG.with_borrow_mut(|log| log.mark_sent(sending, |bucket_type| !has_service(routes, bucket_type)));
    ROUTES.set(Some(routes.clone()));
}

/// Returns whether nothing is left to send. Changes that cancel each other out need not be sent, nor those of types without a service.
pub fn has_nothing_to_send() -> Result<bool, ClaimsError> {
    if is_all_sent() {
        return Ok(true);
    }
    let routes = ROUTES.with_borrow(Clone::clone);
    let is_sent = |bucket_type: &str| routes.as_ref().is_none_or(|routes| has_service(routes, bucket_type));
    let pending = LOG.with_borrow(|log| log.pending_for(is_sent));
    let pending = pending.map_err(|excess| ClaimsError::from(CaptureError::TooManyChanges { excess }))?;
    let creates = pending.creates.iter().chain(&pending.doubled).map(|create| &create.bucket);
    let mut buckets = creates.chain(pending.destroys.iter().map(|destroy| &destroy.bucket));
    Ok(!buckets.any(|bucket| is_sent(&bucket.bucket_type)))
}

/// Returns whether nothing has changed since everything was sent.
pub fn is_all_sent() -> bool {
    LOG.with_borrow(Log::is_all_sent)
}

/// Notes that the deferred trigger's row was deleted, so that the next change queues the trigger again.
pub fn mark_dequeued() {
    QUEUED_BY.set(None);
}

/// Sets the trigger function that has captured changes which this transaction must send; `None` if it need not send any. The rights of the
/// function's owner are used to send them.
pub fn must_be_sent(function: Option<Oid>) {
    MUST_BE_SENT.set(function);
}

/// Has the deferred trigger send this transaction's changes from now on.
pub fn use_queue() {
    USES_QUEUE.set(true);
}

/// Notes that the library was loaded outside of transactions.
pub fn is_preloaded() {
    USES_QUEUE.set(false);
}

/// Returns the trigger function for which the deferred trigger must be queued, and counts it as queued. `None` if there is
/// nothing to send or the trigger is queued already.
pub fn to_be_queued() -> Option<Oid> {
    let function = MUST_BE_SENT.get().filter(|_| USES_QUEUE.get() && QUEUED_BY.get().is_none())?;
    QUEUED_BY.set(Some(current_subtransaction()));
    Some(function)
}

/// Returns the trigger function of changes that must be sent and were not.
pub fn unsent() -> Option<Oid> {
    MUST_BE_SENT.get().filter(|_| !LOG.with_borrow(Log::is_all_sent) || !is_all_observed())
}

/// Raises an error if changes must be sent and were not.
fn before_commit() -> Result<(), ErrorReport> {
    if unsent().is_some_and(|_| !matches!(has_nothing_to_send(), Ok(true))) {
        return Err(ClaimsError::from(CaptureError::NotSent).into());
    }
    Ok(())
}

fn end() {
    LOG.take();
    OBSERVED.take();
    observations::clear();
    pins::end();
    MUST_BE_SENT.set(None);
    ROUTES.set(None);
    USES_QUEUE.set(false);
    GROWN_TO.set(0);
    QUEUED_BY.set(None);
    SKIPPED_BY.set(None);
}

/// Changes the logs that are not empty.
fn each_log(change: impl Fn(&mut Log)) {
    for log in [&LOG, &OBSERVED] {
        log.with_borrow_mut(|log| (!log.is_empty()).then(|| change(log)));
    }
}

fn released(own: u32, parent: u32) {
    each_log(|log| log.release(own, parent));
    observations::released(own, parent);
}

fn rolled_back(own: u32) {
    each_log(|log| log.roll_back(own));
    observations::rolled_back(own);
    // A larger number is that of a subtransaction that was released into this one.
    for of in [&QUEUED_BY, &SKIPPED_BY] {
        of.set(of.get().filter(|since| *since < own));
    }
}
