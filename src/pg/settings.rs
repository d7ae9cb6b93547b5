//! Settings that apply to a section of code.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::time::Instant;

use pgrx::pg_sys;

/// Guard: while it lives, waits for heavyweight locks end after a number of milliseconds (with SQLSTATE 55P03). The caller's
/// `lock_timeout` is restored when it is dropped, also after an error.
///
/// It sets the variable behind `lock_timeout` and not the setting: changing a setting and restoring it costs a
/// microsecond a call, and every call needs this. Postgres reads the variable when it begins to wait for a lock, and
/// assigns it only when the setting is changed, which nothing does while one of our statements runs.
pub struct LockWaits {
    callers: std::ffi::c_int,
    outer: Option<std::ffi::c_int>,
}

thread_local! {
    /// The limit in force; `None`: the caller's setting is.
    static LIMIT: Cell<Option<std::ffi::c_int>> = const { Cell::new(None) };
    /// What the caller had set before the first limit.
    static CALLERS: Cell<std::ffi::c_int> = const { Cell::new(0) };
}

impl LockWaits {
    /// Zero would disable the timeout, so it means one millisecond.
    pub fn limit(milliseconds: i64) -> Self {
        let limit = std::ffi::c_int::try_from(milliseconds.max(1)).unwrap_or(std::ffi::c_int::MAX);
        // SAFETY: a backend is single-threaded; see above.
        unsafe {
            let callers = pg_sys::LockTimeout;
            pg_sys::LockTimeout = limit;
            let outer = LIMIT.replace(Some(limit));
            if outer.is_none() {
                CALLERS.set(callers);
            }
            LockWaits { callers, outer }
        }
    }

    /// Until a deadline, but at least one millisecond.
    pub fn until(deadline: Instant) -> Self {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        LockWaits::limit(i64::try_from(left).unwrap_or(i64::MAX))
    }

    /// Puts the limit in force again: the rollback of a subtransaction in which the setting was changed, for other nodes, has put
    /// the caller's value back here.
    pub fn reassert() {
        if let Some(limit) = LIMIT.get() {
            // SAFETY: as above.
            unsafe { pg_sys::LockTimeout = limit };
        }
    }
}

impl Drop for LockWaits {
    fn drop(&mut self) {
        LIMIT.set(self.outer);
        // SAFETY: as above.
        unsafe { pg_sys::LockTimeout = self.callers };
    }
}

/// How many milliseconds a wait for a lock may take at the moment; 0: any number.
pub fn lock_wait() -> i32 {
    // SAFETY: reads a backend variable.
    LIMIT.get().unwrap_or(unsafe { pg_sys::LockTimeout })
}

/// The same by the caller's own setting.
pub fn callers_lock_wait() -> i32 {
    // SAFETY: reads a backend variable.
    if LIMIT.get().is_some() { CALLERS.get() } else { unsafe { pg_sys::LockTimeout } }
}

/// Runs `body` with planner settings under which every look-up uses an index, whatever the session has set, and even if
/// the statistics are those of an empty table. JIT is off because disabled scans have costs that would trigger it.
pub fn planning_by_index<T>(body: impl FnOnce() -> T) -> T {
    const BY_INDEX: &[(&CStr, &CStr)] = &[
        (c"enable_indexscan", c"on"),
        (c"enable_indexonlyscan", c"on"),
        (c"enable_nestloop", c"on"),
        (c"enable_seqscan", c"off"),
        (c"enable_bitmapscan", c"off"),
        (c"enable_hashjoin", c"off"),
        (c"enable_mergejoin", c"off"),
        (c"jit", c"off"),
    ];
    under(BY_INDEX, body)
}

/// Settings under which the text of a value is the same in every session. The search path is the calling function's, pinned.
pub const FIXED_TEXT: &[(&CStr, &CStr)] = &[
    (c"DateStyle", c"ISO, YMD"),
    (c"IntervalStyle", c"postgres"),
    (c"TimeZone", c"UTC"),
    (c"bytea_output", c"hex"),
    (c"extra_float_digits", c"1"),
    (c"lc_monetary", c"C"),
];

/// Runs `body` with another search_path.
pub fn with_search_path<T>(path: &CStr, body: impl FnOnce() -> T) -> T {
    under(&[(c"search_path", path)], body)
}

/// Runs `body` with settings that any caller may change. They are restored when it ends, also after an
/// error.
pub fn under<T>(settings: &[(&CStr, &CStr)], body: impl FnOnce() -> T) -> T {
    // SAFETY: the nest level ends here or, after an error, with the (sub)transaction.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (setting, value) in settings {
            set(setting, value, pg_sys::GucAction::GUC_ACTION_SAVE);
        }
        let result = body();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

/// Runs `body`; afterwards these settings are again as they were, whatever it has set until the transaction ends.
pub fn keeping<T>(settings: &[&CStr], body: impl FnOnce() -> T) -> T {
    /// The limit for waits is put in force again when this is dropped, also after an error.
    struct Limited;
    impl Drop for Limited {
        fn drop(&mut self) {
            LockWaits::reassert();
        }
    }
    let limited = Limited;
    // SAFETY: a backend is single-threaded. Postgres keeps what it finds, to put it back: that must be the caller's. A setting's value is
    // a C string that lives until the next call.
    let values: Vec<CString> = unsafe {
        if LIMIT.get().is_some() {
            pg_sys::LockTimeout = CALLERS.get();
        }
        let value =
            |setting: &&CStr| CStr::from_ptr(pg_sys::GetConfigOption(setting.as_ptr(), false, false)).to_owned();
        settings.iter().map(value).collect()
    };
    let kept: Vec<_> = settings.iter().copied().zip(values.iter().map(CString::as_c_str)).collect();
    let result = under(&kept, body);
    drop(limited);
    result
}

/// Changes a setting that any caller may change until the transaction ends, as SET LOCAL does.
pub(super) fn set_local(setting: &CStr, value: &CStr) {
    set(setting, value, pg_sys::GucAction::GUC_ACTION_LOCAL);
}

fn set(setting: &CStr, value: &CStr, action: pg_sys::GucAction::Type) {
    // SAFETY: two C strings, which are copied; a setting that is not there, and a value that it does not take, are errors.
    unsafe {
        pg_sys::set_config_option(
            setting.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            action,
            true,
            0,
            false,
        );
    }
}

/// Keeps Rust's backtraces out of DETAIL, where pgrx puts them if the server was started with RUST_BACKTRACE set.
pub fn no_backtraces() {
    // SAFETY: called while the library is loaded; a backend has no other thread that could read the environment.
    unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
}

/// Refuses every other setting that begins with `claims.`: a misspelt one is an error.
pub fn reserve_prefix() {
    // SAFETY: a constant string.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"claims".as_ptr()) };
}

/// The names in a setting's value, separated by commas, quoted or folded to lower case. `None`: it is not such a list.
pub fn names(list: &CStr) -> Option<Vec<String>> {
    // SAFETY: the list is copied, for it is written to; the names lie in the copy.
    unsafe {
        let copy = pg_sys::pstrdup(list.as_ptr());
        let mut names: *mut pg_sys::List = std::ptr::null_mut();
        if !pg_sys::SplitIdentifierString(copy, b',' as std::ffi::c_char, &mut names) {
            return None;
        }
        let count = if names.is_null() { 0 } else { (*names).length };
        let name = |at| CStr::from_ptr(pg_sys::list_nth(names, at).cast()).to_string_lossy().into_owned();
        Some((0..count).map(name).collect())
    }
}
