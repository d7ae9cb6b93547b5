//! Waits for events outside of this server.

use std::ffi::{c_int, c_long};
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

// The bindings of pgrx do not have this function.
unsafe extern "C-unwind" {
    /// Returns whether the client's connection is open.
    fn pq_check_connection() -> bool;
}

/// The readiness of a socket to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    Readable,
    Writable,
    Either,
}

impl Socket {
    fn events(self) -> u32 {
        match self {
            Socket::Readable => pg_sys::WL_SOCKET_READABLE,
            Socket::Writable => pg_sys::WL_SOCKET_WRITEABLE,
            Socket::Either => pg_sys::WL_SOCKET_READABLE | pg_sys::WL_SOCKET_WRITEABLE,
        }
    }
}

/// A wait event set that is kept for many waits. Setting it up costs five system calls each time.
pub struct WaitSet {
    set: NonNull<pg_sys::WaitEventSet>,
    /// The position of the socket in the set.
    position: c_int,
    wanted: Socket,
}

impl WaitSet {
    /// The socket must stay open while the set is used.
    pub fn new(socket: c_int) -> Self {
        const EVENTS: c_int = 3;
        let wanted = Socket::Readable;
        // SAFETY: the set has room for the added events; its creation raises an error on failure. MyLatch is this
        // process' own latch, as long as it has transactions.
        unsafe {
            #[cfg(any(feature = "pg15", feature = "pg16"))]
            let set = pg_sys::CreateWaitEventSet(pg_sys::TopMemoryContext, EVENTS);
            #[cfg(not(any(feature = "pg15", feature = "pg16")))]
            let set = pg_sys::CreateWaitEventSet(null_mut(), EVENTS);
            let mut waiter = WaitSet { set: NonNull::new_unchecked(set), position: 0, wanted };
            let add = |events, socket, latch| pg_sys::AddWaitEventToSet(set, events, socket, latch, null_mut());
            add(pg_sys::WL_LATCH_SET, NO_SOCKET, pg_sys::MyLatch);
            add(pg_sys::WL_EXIT_ON_PM_DEATH, NO_SOCKET, null_mut());
            waiter.position = add(wanted.events(), socket, null_mut());
            waiter
        }
    }

    /// Like [`wait_for_socket`].
    pub fn wait(&mut self, wanted: Socket, deadline: Instant) -> bool {
        pg_sys::check_for_interrupts!();
        let Some(milliseconds) = milliseconds_until(deadline) else { return false };
        // SAFETY: the set belongs to this value, and there is room for the one event.
        unsafe {
            let set = self.set.as_ptr();
            if self.wanted != wanted {
                pg_sys::ModifyWaitEvent(set, self.position, wanted.events(), null_mut());
                self.wanted = wanted;
            }
            let mut event = pg_sys::WaitEvent::default();
            let happened = pg_sys::WaitEventSetWait(set, milliseconds, &mut event, 1, pg_sys::PG_WAIT_EXTENSION);
            if happened > 0 && event.events & pg_sys::WL_LATCH_SET != 0 {
                pg_sys::ResetLatch(pg_sys::MyLatch);
            }
        }
        pg_sys::check_for_interrupts!();
        true
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        // SAFETY: made by this value, freed once.
        unsafe { pg_sys::FreeWaitEventSet(self.set.as_ptr()) };
    }
}

const NO_SOCKET: c_int = -1;

/// Returns `None` if the deadline has passed.
fn milliseconds_until(deadline: Instant) -> Option<c_long> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    (!remaining.is_zero()).then(|| c_long::try_from(remaining.as_millis() + 1).unwrap_or(c_long::MAX))
}

/// Waits for a socket. A cancel, a timeout or a shutdown ends the wait with an error. It may return early. Returns
/// false if the deadline has passed.
pub fn wait_for_socket(socket: c_int, wanted: Socket, deadline: Instant) -> bool {
    pg_sys::check_for_interrupts!();
    let Some(milliseconds) = milliseconds_until(deadline) else { return false };
    let events = wanted.events() | pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
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

/// Sleeps. A cancel, a timeout or a shutdown ends the sleep with an error.
pub fn sleep(time: Duration) {
    let milliseconds = c_long::try_from(time.as_millis()).unwrap_or(c_long::MAX);
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

/// Like [`sleep`]. The end of the client's connection ends this process, too. PostgreSQL itself notices that end only when it writes an answer,
/// unless `client_connection_check_interval` is set.
pub fn sleep_for_client(time: Duration) {
    sleep(time);
    // SAFETY: reads and sets variables of this process. A process with a client has a socket, and the set of events to wait for on it.
    unsafe {
        let has_client = !pg_sys::MyProcPort.is_null() && pg_sys::WaitEventSetCanReportClosed();
        if has_client && !pg_guard_ffi_boundary(|| pq_check_connection()) {
            pg_sys::ClientConnectionLost = 1;
            pg_sys::InterruptPending = 1;
        }
    }
    pg_sys::check_for_interrupts!();
}
