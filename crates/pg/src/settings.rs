//! Settings that apply to a section of code.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::time::Instant;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;

use super::nesting;

/// A guard that limits waits for heavyweight locks to a number of milliseconds (SQLSTATE 55P03). It restores the
/// caller's `lock_timeout` when it is dropped, also after an error.
///
/// It sets the variable behind `lock_timeout` and not the setting. Changing a setting and restoring it costs a
/// microsecond per call, and every call needs this. PostgreSQL reads the variable when it begins to wait for a lock,
/// and assigns it only when the setting is changed, which never happens while a statement of this extension runs.
pub struct LockWaits {
    callers: std::ffi::c_int,
    outer: Option<std::ffi::c_int>,
}

thread_local! {
    /// The current limit; `None` if the caller's setting applies.
    static LIMIT: Cell<Option<std::ffi::c_int>> = const { Cell::new(None) };
    /// The caller's setting before the first limit.
    static CALLERS: Cell<std::ffi::c_int> = const { Cell::new(0) };
}

impl LockWaits {
    /// Limits waits to a number of milliseconds. 0 would disable the timeout, so it means one millisecond.
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

    /// Limits waits to the time until a deadline, but to at least one millisecond.
    pub fn until(deadline: Instant) -> Self {
        let remaining = deadline.saturating_duration_since(Instant::now()).as_millis();
        LockWaits::limit(i64::try_from(remaining).unwrap_or(i64::MAX))
    }

    /// Applies the limit again after the rollback of a subtransaction in which the setting was changed for other nodes.
    /// The rollback has restored the caller's value in the variable.
    pub fn reassert() {
        if let Some(limit) = LIMIT.get() {
            // SAFETY: a backend is single-threaded.
            unsafe { pg_sys::LockTimeout = limit };
        }
    }
}

impl Drop for LockWaits {
    fn drop(&mut self) {
        LIMIT.set(self.outer);
        // SAFETY: a backend is single-threaded.
        unsafe { pg_sys::LockTimeout = self.callers };
    }
}

/// Returns the current limit of a wait for a lock in milliseconds; 0 means no limit.
pub fn lock_wait() -> i32 {
    // SAFETY: reads a backend variable.
    LIMIT.get().unwrap_or(unsafe { pg_sys::LockTimeout })
}

/// Returns the caller's own `lock_timeout` in milliseconds; 0 means no limit.
pub fn callers_lock_wait() -> i32 {
    // SAFETY: reads a backend variable.
    if LIMIT.get().is_some() { CALLERS.get() } else { unsafe { pg_sys::LockTimeout } }
}

/// Runs `body` with planner settings under which every look-up uses an index, whatever the session has set, and even if
/// the statistics are those of an empty table. JIT is off, because disabled scans have costs that would trigger it.
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

/// The settings under which the text of a value is equal in every session, and is read as the same value, as pg_dump sets them. The search
/// path is that of the calling function, which is pinned.
const FIXED_TEXT: &[(&CStr, &CStr)] = &[
    (c"DateStyle", c"ISO, YMD"),
    (c"IntervalStyle", c"postgres"),
    (c"TimeZone", c"UTC"),
    (c"bytea_output", c"hex"),
    (c"extra_float_digits", c"1"),
    (c"lc_monetary", c"C"),
    (c"lc_numeric", c"C"),
    (c"lc_time", c"C"),
    (c"xmlbinary", c"base64"),
    (c"xmloption", c"content"),
    (c"quote_all_identifiers", c"off"),
    (c"default_text_search_config", c"pg_catalog.simple"),
];

/// Runs `body` under settings that give values the same text in every session. Restores them afterwards, also after an error.
pub fn with_fixed_text<T>(body: impl FnOnce() -> T) -> T {
    // Changing a setting costs more than reading it.
    // SAFETY: a backend is single-threaded. A setting's value is a C string that lives until the next call.
    let differs = |setting: &CStr, value: &CStr| unsafe {
        CStr::from_ptr(pg_sys::GetConfigOption(setting.as_ptr(), false, false)) != value
    };
    under_those(FIXED_TEXT.iter().filter(|(setting, value)| differs(setting, value)), body)
}

/// Runs `body` with another search_path.
pub fn with_search_path<T>(path: &CStr, body: impl FnOnce() -> T) -> T {
    under(&[(c"search_path", path)], body)
}

/// Runs `body` with settings that any caller may change. Restores them afterwards, also after an error.
pub fn under<T>(settings: &[(&CStr, &CStr)], body: impl FnOnce() -> T) -> T {
    under_those(settings.iter(), body)
}

fn under_those<'s, T>(settings: impl Iterator<Item = &'s (&'s CStr, &'s CStr)>, body: impl FnOnce() -> T) -> T {
    nesting::begin();
    // SAFETY: the nest level ends here or, after an error, with the (sub)transaction.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (setting, value) in settings {
            save(setting, value);
        }
        let result = body();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

/// Runs `body`, and then restores these settings, also if `body` has set them until the transaction ends.
pub fn restoring<T>(settings: &[&CStr], body: impl FnOnce() -> T) -> T {
    /// A guard that applies the limit for waits again when it is dropped, also after an error.
    struct Limited;
    impl Drop for Limited {
        fn drop(&mut self) {
            LockWaits::reassert();
        }
    }
    let limited = Limited;
    // SAFETY: a backend is single-threaded. PostgreSQL saves the variable's value to restore it later, so it must be
    // the caller's. A setting's value is a C string that lives until the next call.
    let values: Vec<CString> = unsafe {
        if LIMIT.get().is_some() {
            pg_sys::LockTimeout = CALLERS.get();
        }
        let value =
            |setting: &&CStr| CStr::from_ptr(pg_sys::GetConfigOption(setting.as_ptr(), false, false)).to_owned();
        settings.iter().map(value).collect()
    };
    let saved: Vec<_> = settings.iter().copied().zip(values.iter().map(CString::as_c_str)).collect();
    let result = under(&saved, body);
    drop(limited);
    result
}

/// Changes a setting that any caller may change until the transaction ends, as SET LOCAL does.
pub(super) fn set_local(setting: &CStr, value: &CStr) {
    set(setting, value, pg_sys::GucAction::GUC_ACTION_LOCAL);
}

/// Changes a setting that any caller may change until the level of settings ends.
pub(super) fn save(setting: &CStr, value: &CStr) {
    set(setting, value, pg_sys::GucAction::GUC_ACTION_SAVE);
}

/// Changes a setting, if this version of PostgreSQL has it, until the process ends. For processes without a user, which may change every
/// setting of a session.
pub(super) fn set_for_process(setting: &CStr, value: &CStr) {
    // SAFETY: two C strings, which are copied. A setting that does not exist has no value.
    unsafe {
        if !pg_sys::GetConfigOption(setting.as_ptr(), true, false).is_null() {
            pg_sys::set_config_option(
                setting.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SET,
                true,
                0,
                false,
            );
        }
    }
}

fn set(setting: &CStr, value: &CStr, action: pg_sys::GucAction::Type) {
    // SAFETY: two C strings, which are copied; an unknown setting or an invalid value raises an error.
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

/// Keeps backtraces of Rust out of DETAIL, where pgrx puts them if the server was started with RUST_BACKTRACE.
pub fn no_backtraces() {
    // SAFETY: called while the library is loaded; a backend has no other thread that could read the environment.
    unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
}

/// Splits a setting's value into names, which are separated by commas, quoted or folded to lower case. Returns `None`
/// if it is not such a list.
pub fn names(list: &CStr) -> Option<Vec<String>> {
    // SAFETY: the list is copied, because the call modifies it; the names point into the copy.
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

/// The most bytes of a setting with one line of text.
pub const LINE_BYTES: usize = 256;

/// Why a text is not a line that a setting may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLine {
    TooLong,
    ControlCharacter,
}

/// Checks that a text has at most [`LINE_BYTES`] and no control characters.
pub fn check_line(text: &[u8]) -> Result<(), NoLine> {
    match text.len() > LINE_BYTES {
        true => Err(NoLine::TooLong),
        false if String::from_utf8_lossy(text).chars().any(char::is_control) => Err(NoLine::ControlCharacter),
        false => Ok(()),
    }
}

/// Defines a setting with one line of text that everybody may change: its name, and its short and its long description. SET raises 22023 for
/// a value that does not pass [`check_line`].
pub fn define_line([name, short, long]: [&'static CStr; 3], setting: &'static GucSetting<Option<CString>>) {
    let (context, flags) = (GucContext::Userset, GucFlags::empty());
    // SAFETY: the hook only reads the new value.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            name,
            short,
            long,
            setting,
            context,
            flags,
            Some(is_line),
            None,
            None,
        );
    }
}

/// The check hook of settings with one line of text.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn is_line(
    value: *mut *mut std::ffi::c_char,
    _extra: *mut *mut std::ffi::c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value, a C string or NULL. It frees the detail with the memory context of the error.
    unsafe {
        if (*value).is_null() {
            return true;
        }
        let detail = match check_line(CStr::from_ptr(*value).to_bytes()) {
            Ok(()) => return true,
            Err(NoLine::TooLong) => c"It must have at most 256 bytes.",
            Err(NoLine::ControlCharacter) => c"It must not have control characters.",
        };
        pg_sys::GUC_check_errdetail_string = pg_sys::pstrdup(detail.as_ptr());
        false
    }
}
