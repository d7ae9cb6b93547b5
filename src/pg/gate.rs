//! A check that every call must pass before it touches a table. Its result is cached until a function of this database
//! changes, as it does in every upgrade of an extension, or one of the relations that the check has named: so it costs a call
//! only the test of a variable.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use pgrx::pg_guard;
use pgrx::pg_sys;

thread_local! {
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
    /// How many changes of watched relations were announced.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    /// The relations that the check has named.
    static WATCHED: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
}

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// Called once per process, beside [`super::cache::register`]. `check` raises an error to refuse; `false` lets this call pass and
/// has the next one checked again.
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
    IS_OPEN.set(false);
}

/// For the check: from now on a change of one of these relations, other than of its rows, has it repeated.
pub fn watch(relations: Vec<pg_sys::Oid>) {
    WATCHED.replace(relations);
}

/// To be called for every relcache invalidation; an invalid number means any relation.
pub(super) fn relation_changed(relation: pg_sys::Oid) {
    let is_watched =
        |watched: &Vec<_>| !watched.is_empty() && (relation == pg_sys::InvalidOid || watched.contains(&relation));
    if WATCHED.with_borrow(is_watched) {
        IS_OPEN.set(false);
        CHANGES.set(CHANGES.get() + 1);
    }
}

/// How many changes of the watched relations this session has been told of by now.
pub fn changes() -> u64 {
    // SAFETY: calls callbacks of caches, as every lock of a table does.
    unsafe { pg_sys::AcceptInvalidationMessages() };
    CHANGES.get()
}

/// Whether the check was passed and no change was announced since.
pub fn is_open() -> bool {
    IS_OPEN.get()
}

/// Raises an error unless the check is passed.
pub fn pass() {
    if !IS_OPEN.get() {
        look();
    }
}

#[cold]
fn look() {
    let Some(check) = CHECK.get() else { return };
    /// A refusal is not cached: the next call checks again.
    struct Attempt(bool);
    impl Drop for Attempt {
        fn drop(&mut self) {
            if !self.0 {
                IS_OPEN.set(false);
            }
        }
    }
    // Before the check: a change during the check invalidates its result.
    IS_OPEN.set(true);
    let mut attempt = Attempt(false);
    attempt.0 = check();
}
