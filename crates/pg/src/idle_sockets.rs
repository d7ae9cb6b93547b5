//! Shuts down sockets of a session that has not used them for a while, also if the session's client sends nothing.
//!
//! A session that waits for its client runs no code of an extension, except the handler of a timer of PostgreSQL. A signal handler may
//! do little: it shuts the sockets down, so that the other server ends its session. The session closes them at its next use of them.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering, compiler_fence};
use std::time::Duration;

use crate::libpq::Link;

/// Maximum number of sockets. Further ones stay open.
const MAX_SOCKETS: usize = 8;
const NONE: c_int = -1;

/// The sockets that the handler may shut down. They are open, and the session does not use them now.
static SOCKETS: [AtomicI32; MAX_SOCKETS] = [const { AtomicI32::new(NONE) }; MAX_SOCKETS];
static ARE_SHUT_DOWN: AtomicBool = AtomicBool::new(false);

/// PostgreSQL gives each number from its USER_TIMEOUT on, which differs between versions, a free number of an extension.
const ANY_NUMBER: c_int = 1000;
static TIMER: OnceLock<c_int> = OnceLock::new();

// pgrx has no bindings for timers. These functions raise no ERROR.
unsafe extern "C-unwind" {
    fn RegisterTimeout(number: c_int, handler: Option<unsafe extern "C" fn()>) -> c_int;
    fn enable_timeout_after(number: c_int, milliseconds: c_int);
}

/// Lets a timer shut down the sockets of links after a time, unless [`keep`] is called before. Replaces the sockets that were given
/// last.
pub fn shut_down_after<'l>(links: impl Iterator<Item = &'l Link>, time: Duration) {
    keep();
    let mut is_any = false;
    for (place, link) in SOCKETS.iter().zip(links) {
        place.store(link.descriptor(), Ordering::Relaxed);
        is_any = true;
    }
    compiler_fence(Ordering::SeqCst);
    if is_any {
        let milliseconds = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: registers a function of a library that is never unloaded, and starts a timer. After the end of a transaction an
        // error has stopped all timers, and no signal handler is running.
        unsafe {
            let timer = *TIMER.get_or_init(|| RegisterTimeout(ANY_NUMBER, Some(shut_down)));
            enable_timeout_after(timer, milliseconds);
        }
    }
}

/// Keeps the sockets open that were given last. Returns whether they have been shut down already; then their links must be closed.
pub fn keep() -> bool {
    SOCKETS.iter().for_each(|socket| socket.store(NONE, Ordering::Relaxed));
    compiler_fence(Ordering::SeqCst);
    ARE_SHUT_DOWN.swap(false, Ordering::Relaxed)
}

/// The handler of the timer. It calls only what a signal handler may.
unsafe extern "C" fn shut_down() {
    for socket in &SOCKETS {
        let descriptor = socket.swap(NONE, Ordering::Relaxed);
        if descriptor != NONE {
            // SAFETY: the descriptor is open, because the session takes it out of the list before it closes it.
            unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
            ARE_SHUT_DOWN.store(true, Ordering::Relaxed);
        }
    }
}
