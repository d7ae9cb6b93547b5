//! Distinguishes cancels, `statement_timeout` and the `lock_timeout` of this extension.
//!
//! All three arrive as SIGINT, and PostgreSQL distinguishes them later, at its next check for interrupts. By then two
//! of them may have merged, or one may look like another:
//! - If a lock timeout fires while interrupts are held off (during a page split, or while waiting for relation
//!   extension), the wait continues and succeeds. If another wait begins before the next check, PostgreSQL resets the
//!   indicator of the lock timeout, and raises 57014 as for a cancel.
//! - If a cancel and a lock timeout arrive before one check, PostgreSQL raises 55P03, and the cancel is lost.
//!
//! So a handler counts every signal when it arrives, by its sender: this process sends itself the timeouts, another
//! process sends the cancels. The handler only counts and then calls PostgreSQL's handler.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use pgrx::{PgSqlErrorCode, ereport, pg_sys};

static CANCELS: AtomicU32 = AtomicU32::new(0);
static STATEMENT_TIMEOUTS: AtomicU32 = AtomicU32::new(0);
static LOCK_TIMEOUTS: AtomicU32 = AtomicU32::new(0);

/// PostgreSQL's handler; 0 if it was not replaced.
static HANDLER: AtomicUsize = AtomicUsize::new(0);
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// PostgreSQL's numbers of these timeouts, in all supported versions.
const LOCK_TIMEOUT: c_int = 2;
const STATEMENT_TIMEOUT: c_int = 3;

unsafe extern "C" {
    fn get_timeout_indicator(id: c_int, reset: bool) -> bool;
    fn get_timeout_active(id: c_int) -> bool;
    fn get_timeout_finish_time(id: c_int) -> i64;
}

/// Returns how long the current statement may still run, or `None` if statement_timeout does not limit it.
pub fn statement_time_left() -> Option<Duration> {
    // SAFETY: reads variables of this process.
    unsafe {
        let left = get_timeout_finish_time(STATEMENT_TIMEOUT) - pg_sys::GetCurrentTimestamp();
        get_timeout_active(STATEMENT_TIMEOUT).then(|| Duration::from_micros(left.max(0).unsigned_abs()))
    }
}

/// The counts at the beginning of a section of code.
#[derive(Clone, Copy)]
pub(super) struct Interrupts {
    cancels: u32,
    statement_timeouts: u32,
    lock_timeouts: u32,
}

impl Interrupts {
    pub(super) fn from_now() -> Self {
        count();
        Interrupts {
            cancels: CANCELS.load(Relaxed),
            statement_timeouts: STATEMENT_TIMEOUTS.load(Relaxed),
            lock_timeouts: LOCK_TIMEOUTS.load(Relaxed),
        }
    }

    /// Returns the true SQLSTATE of an error, by the signals that have arrived. A cancel may have been raised as a lock
    /// timeout, and a lock timeout as a cancel.
    pub(super) fn real_code(self, code: PgSqlErrorCode) -> PgSqlErrorCode {
        use PgSqlErrorCode::{ERRCODE_LOCK_NOT_AVAILABLE, ERRCODE_QUERY_CANCELED};
        match code {
            ERRCODE_LOCK_NOT_AVAILABLE if self.has_ended_statement() && !is_pending() => ERRCODE_QUERY_CANCELED,
            ERRCODE_QUERY_CANCELED if !self.has_ended_statement() && self.has_lock_timeout() => {
                ERRCODE_LOCK_NOT_AVAILABLE
            }
            code => code,
        }
    }

    /// Raises a cancel that was raised as a lock timeout.
    pub(super) fn raise_if_swallowed(self, code: PgSqlErrorCode) {
        let is_swallowed = code != PgSqlErrorCode::ERRCODE_QUERY_CANCELED
            && self.real_code(code) == PgSqlErrorCode::ERRCODE_QUERY_CANCELED;
        if is_swallowed {
            let is_by_user = CANCELS.load(Relaxed) != self.cancels;
            let cause = if is_by_user { "user request" } else { "statement timeout" };
            ereport!(ERROR, PgSqlErrorCode::ERRCODE_QUERY_CANCELED, format!("canceling statement due to {cause}"));
        }
    }

    fn has_ended_statement(self) -> bool {
        CANCELS.load(Relaxed) != self.cancels || STATEMENT_TIMEOUTS.load(Relaxed) != self.statement_timeouts
    }

    fn has_lock_timeout(self) -> bool {
        LOCK_TIMEOUTS.load(Relaxed) != self.lock_timeouts
    }
}

/// Returns whether PostgreSQL has a cancel pending.
fn is_pending() -> bool {
    // SAFETY: reads a backend variable.
    unsafe { (&raw const pg_sys::QueryCancelPending).read_volatile() != 0 }
}

/// Starts counting signals in this process, if it has PostgreSQL's handler for SIGINT.
fn count() {
    if IS_COUNTING.swap(true, Relaxed) {
        return;
    }
    // SAFETY: the calls fill both structures, and zero is valid for all their fields. The handler does only what a
    // signal handler may do. A handler of another extension is called as it expects.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let is_read = libc::sigaction(libc::SIGINT, std::ptr::null(), &mut before) == 0;
        let has_handler = ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction);
        if is_read && has_handler && before.sa_flags & libc::SA_SIGINFO == 0 {
            HANDLER.store(before.sa_sigaction, Relaxed);
            let mut counting = before;
            counting.sa_sigaction = on_signal as *const () as usize;
            counting.sa_flags |= libc::SA_SIGINFO;
            libc::sigaction(libc::SIGINT, &counting, std::ptr::null_mut());
        }
    }
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel supplies the information, and PostgreSQL's handler was stored before this one was installed.
    // Only variables of this process are read.
    unsafe {
        let is_own = (*info).si_pid() == pg_sys::MyProcPid;
        let is_over = |timeout| is_own && get_timeout_indicator(timeout, false);
        let counter = if is_over(STATEMENT_TIMEOUT) {
            &STATEMENT_TIMEOUTS
        } else if is_over(LOCK_TIMEOUT) {
            &LOCK_TIMEOUTS
        } else {
            &CANCELS
        };
        counter.fetch_add(1, Relaxed);
        let handler = std::mem::transmute::<usize, extern "C" fn(c_int)>(HANDLER.load(Relaxed));
        handler(signal);
    }
}
