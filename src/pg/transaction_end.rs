//! Being told when a transaction or a subtransaction ends.

use std::cell::Cell;

use pgrx::pg_guard;
use pgrx::pg_sys;

/// What to do at the end of a transaction (however it ends), and when a subtransaction is rolled back.
#[derive(Clone, Copy)]
pub struct Listener {
    pub transaction_ended: fn(),
    pub subtransaction_aborted: fn(u32),
}

thread_local! {
    static LISTENER: Cell<Option<Listener>> = const { Cell::new(None) };
}

/// Called once per process. The listener must not raise errors.
pub fn register(listener: Listener) {
    LISTENER.set(Some(listener));
    // SAFETY: the callbacks live as long as the library, which is never unloaded.
    unsafe {
        pg_sys::RegisterXactCallback(Some(transaction), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(subtransaction), std::ptr::null_mut());
    }
}

#[pg_guard]
extern "C-unwind" fn transaction(event: pg_sys::XactEvent::Type, _argument: *mut std::ffi::c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if [XACT_EVENT_COMMIT, XACT_EVENT_ABORT, XACT_EVENT_PREPARE].contains(&event)
        && let Some(listener) = LISTENER.get()
    {
        (listener.transaction_ended)();
    }
}

#[pg_guard]
extern "C-unwind" fn subtransaction(
    event: pg_sys::SubXactEvent::Type,
    own: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _argument: *mut std::ffi::c_void,
) {
    if event == pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB
        && let Some(listener) = LISTENER.get()
    {
        (listener.subtransaction_aborted)(own);
    }
}

/// The number of the running subtransaction, growing within a transaction.
pub fn current_subtransaction() -> u32 {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}
