//! The compatibility check that every call must pass before it reads or writes a table. Its result is cached. A change
//! of any function of this database clears the cache, as every upgrade of an extension does. So does a change of one of
//! the relations that the check has named. A cached result costs a call only the test of a variable.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

thread_local! {
    static IS_CHECKED: Cell<bool> = const { Cell::new(false) };
    /// The number of announced changes of watched relations.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    /// The relations that the check has named.
    static WATCHED: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
}

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the check and registers its callback. Called once per process, together with [`super::cache::register`].
/// `check` raises an error to refuse the call. If it returns false, this call passes and the next one checks again.
pub fn register(check: fn() -> bool) {
    let _ = CHECK.set(check);
    // SAFETY: the callback lives as long as the library, which is never unloaded.
    unsafe {
        let functions = pg_sys::SysCacheIdentifier::PROCOID as std::ffi::c_int;
        pg_sys::CacheRegisterSyscacheCallback(functions, Some(functions_changed), pg_sys::Datum::from(0));
    }
}

#[pg_guard]
extern "C-unwind" fn functions_changed(_argument: pg_sys::Datum, _cache: std::ffi::c_int, _hash: u32) {
    IS_CHECKED.set(false);
}

/// Sets the relations whose changes, other than of their rows, repeat the check. The check calls it.
pub fn watch(relations: Vec<pg_sys::Oid>) {
    WATCHED.replace(relations);
}

/// Clears the cached result if the relation is watched. Must be called for every relcache invalidation; an invalid
/// number means any relation.
pub(super) fn relation_changed(relation: pg_sys::Oid) {
    let is_watched =
        |watched: &Vec<_>| !watched.is_empty() && (relation == pg_sys::InvalidOid || watched.contains(&relation));
    if WATCHED.with_borrow(is_watched) {
        IS_CHECKED.set(false);
        CHANGES.set(CHANGES.get() + 1);
    }
}

/// Returns the number of changes of watched relations that this session has received.
pub fn changes() -> u64 {
    // SAFETY: calls callbacks of caches, as every lock of a table does.
    unsafe { pg_sys::AcceptInvalidationMessages() };
    CHANGES.get()
}

/// Returns whether the check was passed and no change was announced since.
pub fn is_checked() -> bool {
    IS_CHECKED.get()
}

/// Raises an error unless the check passes.
pub fn require() {
    if !IS_CHECKED.get() {
        check_again();
    }
}

#[cold]
fn check_again() {
    let Some(check) = CHECK.get() else { return };
    /// A guard that discards the result of a refused check, so that the next call checks again.
    struct Attempt(bool);
    impl Drop for Attempt {
        fn drop(&mut self) {
            if !self.0 {
                IS_CHECKED.set(false);
            }
        }
    }
    // Set before the check, so that a change during the check clears it.
    IS_CHECKED.set(true);
    let mut attempt = Attempt(false);
    attempt.0 = check();
}
