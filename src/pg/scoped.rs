//! Settings that are in force for a stretch of code.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Runs `body` with settings in force, each of which any caller may change. They are as before when it ends, also by an
/// error.
pub fn under<T>(settings: &[(&CStr, &CStr)], body: impl FnOnce() -> T) -> T {
    // SAFETY: known settings with values that they take; the nest level ends here or, after an error, with the
    // (sub)transaction.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (setting, value) in settings {
            pg_sys::set_config_option(
                setting.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        let result = body();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}
