//! Facts about transactions.

use std::ffi::c_char;

use claims_model::judge::LocalTransaction;
use pgrx::pg_sys::XLogRecPtr;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::{IntoDatum, pg_sys};

use super::clock::Moment;
use super::settings::set_local;
use super::spi::latest_snapshot;
use super::xid8::Xid8;

// pgrx has no binding of it.
#[cfg(feature = "pg15")]
unsafe extern "C-unwind" {
    fn LogLogicalMessage(
        text: *const c_char,
        message: *const c_char,
        size: usize,
        is_transactional: bool,
    ) -> XLogRecPtr;
}
#[cfg(not(feature = "pg15"))]
unsafe extern "C-unwind" {
    fn LogLogicalMessage(
        text: *const c_char,
        message: *const c_char,
        size: usize,
        is_transactional: bool,
        is_flushed: bool,
    ) -> XLogRecPtr;
}

/// Writes a record of WAL that means nothing, and returns where it ends.
fn log_nothing() -> XLogRecPtr {
    // SAFETY: two texts, which are copied; the record is of no transaction. An error passes through no frame of Rust.
    unsafe {
        pg_guard_ffi_boundary(|| {
            #[cfg(feature = "pg15")]
            return LogLogicalMessage(c"claims".as_ptr(), c"".as_ptr(), 0, false);
            #[cfg(not(feature = "pg15"))]
            return LogLogicalMessage(c"claims".as_ptr(), c"".as_ptr(), 0, false, false);
        })
    }
}

/// Whether the transaction keeps one snapshot for all its statements (REPEATABLE READ, SERIALIZABLE).
pub fn keeps_one_snapshot() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether this transaction wrote the row whose xmin this is.
pub fn is_own(xmin: u32) -> bool {
    // SAFETY: looks the id up in this backend's memory.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(pg_sys::TransactionId::from(xmin)) }
}

/// The state of a transaction of this cluster. It is unknown for an id that was never assigned here (a dump restored
/// elsewhere, a cluster restored to an earlier time) and for one that is too old.
pub fn progress(xid: Xid8) -> LocalTransaction {
    match status(xid).as_deref() {
        None => LocalTransaction::Unknown,
        Some("in progress") => LocalTransaction::Running,
        Some(_) => LocalTransaction::Ended,
    }
}

/// The same in Postgres' words; `None`: unknown.
pub fn status(xid: Xid8) -> Option<String> {
    // SAFETY: reads shared memory.
    let next = unsafe { pg_sys::ReadNextFullTransactionId() }.value;
    let is_permanent = xid.0 & u64::from(u32::MAX) < u64::from(pg_sys::FirstNormalTransactionId.into_inner());
    if xid.0 >= next || is_permanent {
        return None;
    }
    // SAFETY: takes one xid8; NULL, for an id too old, is None.
    unsafe { pgrx::direct_function_call(pg_sys::pg_xact_status, &[xid.into_datum()]) }
}

/// The id that the next transaction of this cluster gets; on a standby, as far as it has come.
pub fn next_xid() -> Xid8 {
    // SAFETY: reads shared memory.
    Xid8(unsafe { pg_sys::ReadNextFullTransactionId() }.value)
}

/// Whether snapshots of this process say which transactions are running: not on a standby, nor in a parallel worker.
pub fn counts_transactions() -> bool {
    // SAFETY: reads a variable of the process.
    !is_parallel_worker() && !unsafe { pg_sys::RecoveryInProgress() }
}

/// Every transaction before this one has ended, as the calling query's snapshot sees it. `None`: there is no such snapshot.
pub fn oldest_running() -> Option<u64> {
    // SAFETY: the snapshot is there as long as the query.
    let xmin = unsafe {
        let snapshot = pg_sys::ActiveSnapshotSet().then(|| pg_sys::GetActiveSnapshot())?;
        (*snapshot).xmin.into_inner()
    };
    full(xmin)
}

/// Every transaction before this one has ended by now. `None`: unknown.
pub fn oldest_running_now() -> Option<u64> {
    // SAFETY: read at once.
    full(unsafe { (*latest_snapshot()).xmin.into_inner() })
}

/// The whole id of a transaction that is not in the future.
fn full(xid: u32) -> Option<u64> {
    let next = next_xid().0;
    // A larger one is of the epoch before.
    let (epoch, low) = (next >> 32, (next & u64::from(u32::MAX)) as u32);
    Some(((if xid > low { epoch.checked_sub(1)? } else { epoch }) << 32) | u64::from(xid))
}

/// A moment before which the calling query's snapshot was not taken. `None`: unknown.
pub fn query_began() -> Option<Moment> {
    // SAFETY: the portal that is being executed, if there is one, which was made before its snapshot.
    unsafe { pg_sys::ActivePortal.as_ref() }.map(|portal| Moment(portal.creation_time))
}

/// Whether this process is a parallel worker.
pub fn is_parallel_worker() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// Refuses to go on in a transaction that cannot write, on a standby for example.
pub fn must_be_writable(call: &std::ffi::CStr) {
    // SAFETY: raises an error or does nothing.
    unsafe { pg_sys::PreventCommandIfReadOnly(call.as_ptr()) };
}

/// Refuses to go on on a standby.
pub fn must_not_be_standby(call: &std::ffi::CStr) {
    // SAFETY: raises an error or does nothing.
    unsafe { pg_sys::PreventCommandDuringRecovery(call.as_ptr()) };
}

/// Makes this transaction's commit wait for the flush of WAL, whatever `synchronous_commit` is.
pub fn commit_durably() {
    // SAFETY: sets a flag of the transaction.
    unsafe { pg_sys::ForceSyncCommit() };
}

/// The `synchronous_commit` under which a node that commits for this session loses nothing in a crash of its own: the session's, or `on`
/// where that waits for less.
pub fn durable_commit() -> &'static str {
    // SAFETY: reads a backend variable.
    let callers = unsafe { pg_sys::synchronous_commit };
    if callers == pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_APPLY as i32 { "remote_apply" } else { "on" }
}

/// Lets this transaction's commit not wait for the flush of WAL, unless something in it must ([`commit_durably`]).
pub fn commit_unflushed() {
    set_local(c"synchronous_commit", c"off");
}

/// Makes this transaction one that has written, so that its commit waits for standbys, even where it changes nothing.
pub fn write_something() {
    own_xid();
    log_nothing();
}

/// Makes durable, at once, whatever anybody has committed by now without waiting for that; on synchronous standbys, too.
pub fn flush_commits() {
    // SAFETY: WAL can be written where there is no recovery; a flush is asked for up to the end of a record that was written.
    // Interrupts are held while standbys are waited for, as Postgres does: a cancel ends the wait with a warning.
    unsafe {
        if pg_sys::RecoveryInProgress() {
            return;
        }
        let mut end = pg_sys::GetXLogInsertRecPtr();
        if end > pg_sys::GetFlushRecPtr(std::ptr::null_mut()) {
            // Behind everything else a record of its own, whose end is known for sure.
            end = log_nothing();
            pg_sys::XLogFlush(end);
        }
        pg_sys::InterruptHoldoffCount += 1;
        pg_sys::SyncRepWaitForLSN(end, true);
        pg_sys::InterruptHoldoffCount -= 1;
    }
}

/// Runs `body` with a snapshot, as a statement would, where there is none.
pub fn with_snapshot<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: put and taken off in pairs; after an error the end of the (sub)transaction takes it off.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = body();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Flushes WAL up to this point: a sequence value that is returned now is not drawn again after a crash, even if this
/// transaction does not commit, or another one logged the draw.
pub fn flush_log() {
    // SAFETY: the end of a record that this process has written, or 0, for which nothing is done.
    unsafe { pg_sys::XLogFlush(pg_sys::XactLastRecEnd) };
}

/// The id of this transaction, which is assigned if it has none yet. Savepoints share it.
pub fn own_xid() -> Xid8 {
    // SAFETY: assigns an id, or raises an error where the transaction cannot write.
    Xid8(unsafe { pg_sys::GetTopFullTransactionId() }.value)
}

/// How a call stands to the transaction that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surroundings {
    /// The client's statement is the whole transaction, and it calls the function itself: no statement but those of such calls is in it.
    Alone,
    /// Something that the statement calls, or evaluates before it runs, calls the function. The transaction ends with the statement.
    InStatement,
    /// The transaction goes on after the client's statement, or may: within a savepoint, or an exception block, nobody can tell.
    InBlock,
}

/// To be asked before a subtransaction begins, in which every transaction looks like a block.
pub fn surroundings() -> Surroundings {
    // SAFETY: reads the state of this backend's transaction; the portal being executed, its query and its snapshot live as long as the call.
    unsafe {
        if pg_sys::GetCurrentTransactionNestLevel() > 1 || pg_sys::IsTransactionBlock() {
            return Surroundings::InBlock;
        }
        // What runs statements of its own, as a function in PL/pgSQL does, has a snapshot of its own.
        let query = pg_sys::ActivePortal.as_ref().and_then(|portal| portal.queryDesc.as_ref());
        let is_direct = |query: &pg_sys::QueryDesc| {
            pg_sys::ActiveSnapshotSet() && std::ptr::eq(pg_sys::GetActiveSnapshot(), query.snapshot)
        };
        if query.is_some_and(is_direct) { Surroundings::Alone } else { Surroundings::InStatement }
    }
}
