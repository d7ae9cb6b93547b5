//! Waiting for something outside of this server.

use std::time::{Duration, Instant};

use pgrx::pg_sys;

/// What a socket is to be ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    Readable,
    Writable,
    Either,
}

/// Waits for a socket; a cancel, a timeout or a shutdown ends it with an error. It may return early. `false`: the deadline
/// has passed.
pub fn wait_for_socket(socket: std::ffi::c_int, wanted: Socket, deadline: Instant) -> bool {
    pg_sys::check_for_interrupts!();
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return false;
    }
    let ready = match wanted {
        Socket::Readable => pg_sys::WL_SOCKET_READABLE,
        Socket::Writable => pg_sys::WL_SOCKET_WRITEABLE,
        Socket::Either => pg_sys::WL_SOCKET_READABLE | pg_sys::WL_SOCKET_WRITEABLE,
    };
    let events = ready | pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    let milliseconds = std::ffi::c_long::try_from(left.as_millis() + 1).unwrap_or(std::ffi::c_long::MAX);
    // SAFETY: MyLatch is this process' own latch; the caller's socket is open.
    unsafe {
        let latch = pg_sys::MyLatch;
        let happened = pg_sys::WaitLatchOrSocket(latch, events as i32, socket, milliseconds, pg_sys::PG_WAIT_EXTENSION);
        if happened as u32 & pg_sys::WL_LATCH_SET != 0 {
            pg_sys::ResetLatch(latch);
        }
    }
    pg_sys::check_for_interrupts!();
    true
}

/// Sleeps; a cancel, a timeout or a shutdown ends it with an error.
pub fn sleep(time: Duration) {
    let milliseconds = std::ffi::c_long::try_from(time.as_millis()).unwrap_or(std::ffi::c_long::MAX);
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: MyLatch is this process' own latch.
    unsafe {
        let latch = pg_sys::MyLatch;
        let happened = pg_sys::WaitLatch(latch, events as i32, milliseconds, pg_sys::PG_WAIT_EXTENSION);
        if happened as u32 & pg_sys::WL_LATCH_SET != 0 {
            pg_sys::ResetLatch(latch);
        }
    }
    pg_sys::check_for_interrupts!();
}
