//! Callbacks at the end of transactions and savepoints.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, pg_guard, pg_sys};

/// The callbacks. Only those before the end may fail, and then the transaction fails.
pub struct Hooks {
    /// Called before COMMIT and PREPARE TRANSACTION, after all deferred triggers.
    pub before_commit: fn() -> Result<(), ErrorReport>,
    /// Called before PREPARE TRANSACTION only, after `before_commit`.
    pub before_prepare: fn() -> Result<(), ErrorReport>,
    /// Called when the transaction has committed and is visible to others. Must not raise errors or wait.
    pub committed: fn(),
    /// Called when the transaction was rolled back. Must not raise errors or wait.
    pub aborted: fn(),
    /// Called when the transaction has ended in any way, also by PREPARE TRANSACTION.
    pub end: fn(),
    /// Called when a subtransaction has committed into its parent.
    pub released: fn(u32, u32),
    /// Called when a subtransaction was rolled back.
    pub rolled_back: fn(u32),
}

impl Hooks {
    /// Callbacks that do nothing.
    pub const NONE: Hooks = Hooks {
        before_commit: || Ok(()),
        before_prepare: || Ok(()),
        committed: || (),
        aborted: || (),
        end: || (),
        released: |_, _| (),
        rolled_back: |_| (),
    };
}

static ALL: OnceLock<&[Hooks]> = OnceLock::new();

/// Registers all callbacks. Called once per process.
pub fn register(hooks: &'static [Hooks]) {
    if ALL.set(hooks).is_ok() {
        // SAFETY: the callbacks live as long as the library, which is never unloaded.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction), std::ptr::null_mut());
        }
    }
}

fn all() -> &'static [Hooks] {
    ALL.get().copied().unwrap_or_default()
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::*;
    match event {
        XACT_EVENT_PRE_COMMIT => loudly(|hooks| (hooks.before_commit)()),
        XACT_EVENT_PRE_PREPARE => loudly(|hooks| (hooks.before_commit)().and_then(|()| (hooks.before_prepare)())),
        XACT_EVENT_COMMIT => all().iter().flat_map(|hooks| [hooks.committed, hooks.end]).for_each(quietly),
        XACT_EVENT_ABORT => all().iter().flat_map(|hooks| [hooks.aborted, hooks.end]).for_each(quietly),
        XACT_EVENT_PREPARE => all().iter().for_each(|hooks| quietly(hooks.end)),
        _ => {}
    }
}

/// Calls the hooks. An error fails the transaction.
fn loudly(hook: impl Fn(&Hooks) -> Result<(), ErrorReport>) {
    for hooks in all() {
        if let Err(error) = hook(hooks) {
            error.report(PgLogLevel::ERROR);
        }
    }
}

/// Calls a hook. An error at this moment would stop the whole server, so the hook is abandoned instead.
fn quietly(hook: fn()) {
    let _ = catch_unwind(AssertUnwindSafe(hook));
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction(
    event: pg_sys::SubXactEvent::Type,
    own: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    use pg_sys::SubXactEvent::*;
    match event {
        SUBXACT_EVENT_COMMIT_SUB => all().iter().for_each(|hooks| (hooks.released)(own, parent)),
        SUBXACT_EVENT_ABORT_SUB => all().iter().for_each(|hooks| (hooks.rolled_back)(own)),
        _ => {}
    }
}

/// Returns the id of the current (sub)transaction, which increases within a transaction.
pub fn current_subtransaction() -> u32 {
    // SAFETY: reads a backend variable.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}
