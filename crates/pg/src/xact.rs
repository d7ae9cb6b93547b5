//! The state of transactions.

use std::cell::Cell;
use std::ffi::{c_char, c_int};

use pgrx::pg_sys::XLogRecPtr;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{IntoDatum, pg_sys};

use super::clock::Moment;
use super::settings::set_local;
use super::spi::latest_snapshot;
use super::transaction_end::Hooks;
use super::xid8::Xid8;

// The bindings of pgrx do not have this function.
unsafe extern "C-unwind" {
    fn LogLogicalMessage(
        text: *const c_char,
        message: *const c_char,
        size: usize,
        is_transactional: bool,
        #[cfg(not(any(feature = "pg15", feature = "pg16")))] is_flushed: bool,
    ) -> XLogRecPtr;
}

/// Writes a WAL record without effect, and returns its end.
fn log_nothing() -> XLogRecPtr {
    // SAFETY: both texts are copied, and the record belongs to no transaction. An error passes through no frame of
    // Rust.
    unsafe {
        pg_guard_ffi_boundary(|| {
            #[cfg(any(feature = "pg15", feature = "pg16"))]
            return LogLogicalMessage(c"claims".as_ptr(), c"".as_ptr(), 0, false);
            #[cfg(not(any(feature = "pg15", feature = "pg16")))]
            return LogLogicalMessage(c"claims".as_ptr(), c"".as_ptr(), 0, false, false);
        })
    }
}

/// Returns whether the transaction uses one snapshot for all its statements (REPEATABLE READ, SERIALIZABLE).
pub fn uses_transaction_snapshot() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Returns whether this transaction wrote the row with this xmin.
pub fn is_own(xmin: u32) -> bool {
    // SAFETY: looks the id up in this backend's memory.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(pg_sys::TransactionId::from(xmin)) }
}

/// Returns the state of a transaction of this cluster, in the words of `pg_xact_status`. Returns `None` if the id was
/// never assigned here (a dump restored elsewhere, a cluster restored to an earlier time), or is too old to tell.
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

/// Returns the id that the next transaction of this cluster gets. On a standby it is the next one after the replayed
/// ones.
pub fn next_xid() -> Xid8 {
    // SAFETY: reads shared memory.
    Xid8(unsafe { pg_sys::ReadNextFullTransactionId() }.value)
}

/// Returns whether this server is a standby, or recovers after a crash.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads shared memory.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Returns whether snapshots of this process show which transactions are running. They do not on a standby or in a
/// parallel worker.
pub fn counts_transactions() -> bool {
    // SAFETY: reads a variable of the process.
    !is_parallel_worker() && !unsafe { pg_sys::RecoveryInProgress() }
}

/// Returns a transaction id before which every transaction has ended in the calling query's snapshot. Returns `None` if
/// there is no such snapshot.
pub fn oldest_running() -> Option<u64> {
    // SAFETY: the snapshot is there as long as the query.
    let xmin = unsafe {
        let snapshot = pg_sys::ActiveSnapshotSet().then(|| pg_sys::GetActiveSnapshot())?;
        (*snapshot).xmin.into_inner()
    };
    full(xmin)
}

/// Returns a transaction id before which every transaction has ended now. Returns `None` if that is unknown.
pub fn oldest_running_now() -> Option<u64> {
    // SAFETY: read at once.
    full(unsafe { (*latest_snapshot()).xmin.into_inner() })
}

/// Returns the 64-bit id of a transaction that is not in the future.
fn full(xid: u32) -> Option<u64> {
    let next = next_xid().0;
    // A larger one is from the epoch before.
    let (epoch, low) = (next >> 32, (next & u64::from(u32::MAX)) as u32);
    Some(((if xid > low { epoch.checked_sub(1)? } else { epoch }) << 32) | u64::from(xid))
}

/// Returns a time at or before that of the calling query's snapshot. Returns `None` if that is unknown.
pub fn query_began() -> Option<Moment> {
    // SAFETY: reads the portal that is being executed, if there is one. It was created before its snapshot.
    unsafe { pg_sys::ActivePortal.as_ref() }.map(|portal| Moment(portal.creation_time))
}

pub fn is_parallel_worker() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// Raises an error in a transaction that cannot write, for example on a standby.
pub fn must_be_writable(call: &std::ffi::CStr) {
    // SAFETY: raises an error or does nothing.
    unsafe { pg_sys::PreventCommandIfReadOnly(call.as_ptr()) };
}

/// Returns whether the transaction cannot write, for example on a standby.
pub fn is_read_only() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::XactReadOnly }
}

/// Returns whether the transaction may continue after the client's statement.
pub fn is_in_block() -> bool {
    // SAFETY: reads the state of this backend's transaction.
    unsafe { pg_sys::GetCurrentTransactionNestLevel() > 1 || pg_sys::IsTransactionBlock() }
}

/// Raises an error on a standby.
pub fn must_not_be_standby(call: &std::ffi::CStr) {
    // SAFETY: raises an error or does nothing.
    unsafe { pg_sys::PreventCommandDuringRecovery(call.as_ptr()) };
}

/// Makes this transaction's commit wait for the flush of WAL, whatever `synchronous_commit` is.
pub fn commit_durably() {
    // SAFETY: sets a flag of the transaction.
    unsafe { pg_sys::ForceSyncCommit() };
}

/// Returns the `synchronous_commit` under which a node that commits for this session loses nothing in a crash of its
/// own: the session's own value, or `on` if that waits for less.
pub fn durable_commit() -> &'static str {
    // SAFETY: reads a backend variable.
    let callers = unsafe { pg_sys::synchronous_commit };
    if callers == pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_APPLY as i32 { "remote_apply" } else { "on" }
}

thread_local! {
    static UNFLUSHED: Cell<Flushing> = const { Cell::new(Flushing::No) };
}

/// Whether the commit of this transaction waits for the flush of WAL.
#[derive(Clone, Copy)]
enum Flushing {
    No,
    Wanted,
    /// The commit is running. It has the value of `synchronous_commit` before.
    Committing(c_int),
}

/// The callbacks of [`commit_unflushed`]. They come after all others, which may need the session's own setting.
pub const HOOKS: Hooks = Hooks { before_commit: before_unflushed, end: after_unflushed, ..Hooks::NONE };

/// Makes this transaction's commit not wait for the flush of WAL, unless something in it must ([`commit_durably`]). It sets no
/// setting, unless a savepoint may undo it: every save in automatic mode calls this, and the end of a transaction that has changed a
/// setting looks at all of them.
pub fn commit_unflushed() {
    // SAFETY: reads the state of this backend's transaction.
    match unsafe { pg_sys::GetCurrentTransactionNestLevel() } {
        1 => UNFLUSHED.set(Flushing::Wanted),
        _ => set_local(c"synchronous_commit", c"off"),
    }
}

/// Makes this transaction's commit wait as `synchronous_commit` says, whatever [`commit_unflushed`] wanted before.
pub(super) fn commit_as_set() {
    UNFLUSHED.set(Flushing::No);
}

fn before_unflushed() -> Result<(), ErrorReport> {
    if let Flushing::Wanted = UNFLUSHED.get() {
        // SAFETY: a variable of this process, which only the commit that begins now reads.
        unsafe {
            UNFLUSHED.set(Flushing::Committing(pg_sys::synchronous_commit));
            pg_sys::synchronous_commit = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as c_int;
        }
    }
    Ok(())
}

/// Restores the setting before PostgreSQL restores the settings that the transaction has changed.
fn after_unflushed() {
    if let Flushing::Committing(before) = UNFLUSHED.replace(Flushing::No) {
        // SAFETY: a variable of this process.
        unsafe { pg_sys::synchronous_commit = before };
    }
}

/// Makes this transaction one that has written, so that its commit waits for standbys even if it changes nothing.
pub fn write_something() {
    own_xid();
    log_nothing();
}

/// Flushes every commit so far, of any session, that did not wait for that; also on synchronous standbys.
pub fn flush_commits() {
    // SAFETY: WAL can be written outside of recovery, and it is flushed up to the end of a written record. Interrupts
    // are held while this process waits for standbys, as PostgreSQL does it: a cancel ends the wait with a warning.
    unsafe {
        if pg_sys::RecoveryInProgress() {
            return;
        }
        let mut end = pg_sys::GetXLogInsertRecPtr();
        if end > pg_sys::GetFlushRecPtr(std::ptr::null_mut()) {
            // A new record after all others has an end that is certain.
            end = log_nothing();
            pg_sys::XLogFlush(end);
        }
        pg_sys::InterruptHoldoffCount += 1;
        pg_sys::SyncRepWaitForLSN(end, true);
        pg_sys::InterruptHoldoffCount -= 1;
    }
}

/// Runs `body` with a snapshot that shows what this transaction has done so far, as a statement would, if there is none.
pub fn with_snapshot<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: push and pop are paired; after an error the end of the (sub)transaction pops it.
    unsafe {
        // PostgreSQL does not do this after the last statement of a transaction.
        pg_sys::CommandCounterIncrement();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = body();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Flushes WAL up to this point. A sequence value that is returned now is not drawn again after a crash, even if this
/// transaction does not commit, or if another one logged the draw.
pub fn flush_log() {
    // SAFETY: flushes up to the end of a record that this process has written, or to 0, which does nothing.
    unsafe { pg_sys::XLogFlush(pg_sys::XactLastRecEnd) };
}

/// Returns the id of this transaction, which is assigned if it has none yet. Savepoints share it.
pub fn own_xid() -> Xid8 {
    // SAFETY: assigns an id, or raises an error if the transaction cannot write.
    Xid8(unsafe { pg_sys::GetTopFullTransactionId() }.value)
}

/// The position of a call in its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surroundings {
    /// The client's statement is the whole transaction, and it calls the function directly. The transaction has no
    /// other statements.
    Alone,
    /// The statement calls the function indirectly, or evaluates it before it runs. The transaction ends with the
    /// statement.
    InStatement,
    /// The transaction continues after the client's statement, or it may: within a savepoint or an exception block that
    /// cannot be determined.
    InBlock,
}

/// Returns the position of the call. Must be called before a subtransaction begins, because every transaction with a
/// subtransaction looks like a block.
pub fn surroundings() -> Surroundings {
    // SAFETY: reads the state of this backend's transaction; the portal being executed, its query and its snapshot live
    // as long as the call.
    unsafe {
        if pg_sys::GetCurrentTransactionNestLevel() > 1 || pg_sys::IsTransactionBlock() {
            return Surroundings::InBlock;
        }
        // Code that runs statements of its own, as a function in PL/pgSQL does, has a snapshot of its own.
        let query = pg_sys::ActivePortal.as_ref().and_then(|portal| portal.queryDesc.as_ref());
        let is_direct = |query: &pg_sys::QueryDesc| {
            pg_sys::ActiveSnapshotSet() && std::ptr::eq(pg_sys::GetActiveSnapshot(), query.snapshot)
        };
        if query.is_some_and(is_direct) { Surroundings::Alone } else { Surroundings::InStatement }
    }
}
