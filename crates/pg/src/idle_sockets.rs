//! Shuts down sockets that a session does not use: after a while, or when another session of the server asks for one. It works whatever the
//! session does meanwhile, also if its client sends nothing.
//!
//! A session that waits for its client runs no code of an extension, except handlers of signals: of a timer of PostgreSQL, and of SIGUSR2, which
//! PostgreSQL's sessions ignore otherwise. A handler may do little: it shuts the sockets down, so that the other server ends its session. The
//! session closes them at its next use of them.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering, compiler_fence};
use std::time::Duration;

use crate::libpq::Link;
use crate::process;

/// Maximum number of sockets. Further ones stay open.
const MAX_SOCKETS: usize = 8;
const NONE: c_int = -1;

/// A socket that the handlers may shut down.
struct Watched {
    /// An open socket that the session does not use now; [`NONE`]; or the [`mark`] of one that was shut down.
    descriptor: AtomicI32,
    /// 1 if another session asks for the socket, in shared memory. NULL if none can.
    asked: AtomicPtr<AtomicU32>,
}

static SOCKETS: [Watched; MAX_SOCKETS] =
    [const { Watched { descriptor: AtomicI32::new(NONE), asked: AtomicPtr::new(std::ptr::null_mut()) } }; MAX_SOCKETS];
/// Whether the timer may shut the sockets down: since the end of a transaction the session has used none.
static IS_TIMED: AtomicBool = AtomicBool::new(false);

/// Returns the number that marks a socket as shut down. It is less than [`NONE`], and marks itself.
fn mark(descriptor: c_int) -> c_int {
    NONE - 1 - descriptor
}

/// PostgreSQL gives each number from its USER_TIMEOUT on, which differs between versions, a free number of an extension.
const ANY_NUMBER: c_int = 1000;
static TIMER: OnceLock<c_int> = OnceLock::new();

// pgrx has no bindings for timers. These functions raise no ERROR.
unsafe extern "C-unwind" {
    fn RegisterTimeout(number: c_int, handler: Option<unsafe extern "C" fn()>) -> c_int;
    fn enable_timeout_after(number: c_int, milliseconds: c_int);
}

/// Lets handlers shut down these sockets, each with the flag by which other sessions ask for it, until [`keep`] is called.
pub fn watch<'l>(links: impl Iterator<Item = (&'l Link, Option<&'static AtomicU32>)>) {
    for (place, (link, asked)) in SOCKETS.iter().zip(links) {
        place
            .asked
            .store(asked.map_or(std::ptr::null_mut(), |asked| std::ptr::from_ref(asked).cast_mut()), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        place.descriptor.store(link.descriptor(), Ordering::Relaxed);
    }
    // The signal may have come before.
    shut_down_asked();
}

/// Lets a timer shut down the watched sockets after a time, unless [`keep`] is called before.
pub fn shut_down_after(time: Duration) {
    let milliseconds = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX);
    IS_TIMED.store(true, Ordering::Relaxed);
    // SAFETY: registers a function of a library that is never unloaded, and starts a timer. After the end of a transaction an
    // error has stopped all timers, and no signal handler is running.
    unsafe {
        let timer = *TIMER.get_or_init(|| RegisterTimeout(ANY_NUMBER, Some(shut_down)));
        enable_timeout_after(timer, milliseconds);
    }
}

/// Keeps the watched sockets open from now on. Returns those that have been shut down already: their links must be closed.
pub fn keep() -> Vec<c_int> {
    IS_TIMED.store(false, Ordering::Relaxed);
    let watched: [c_int; MAX_SOCKETS] = std::array::from_fn(|at| SOCKETS[at].descriptor.swap(NONE, Ordering::Relaxed));
    compiler_fence(Ordering::SeqCst);
    watched.into_iter().filter(|descriptor| *descriptor < NONE).map(mark).collect()
}

/// The handler of the timer. It calls only what a signal handler may.
unsafe extern "C" fn shut_down() {
    if IS_TIMED.load(Ordering::Relaxed) {
        SOCKETS.iter().for_each(shut_down_one);
    }
}

fn shut_down_one(socket: &Watched) {
    let descriptor = socket.descriptor.load(Ordering::Relaxed);
    if descriptor > NONE {
        // SAFETY: the descriptor is open, because the session takes it out of the list before it closes it.
        unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
        socket.descriptor.store(mark(descriptor), Ordering::Relaxed);
    }
}

/// The handler of SIGUSR2. It calls only what a signal handler may.
unsafe extern "C" fn asked(_signal: c_int) {
    // SAFETY: the variable of this thread.
    let errno = unsafe { *libc::__errno_location() };
    shut_down_asked();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Shuts down the sockets that other sessions ask for.
fn shut_down_asked() {
    for socket in &SOCKETS {
        // SAFETY: NULL, or a flag in shared memory, which lives until the process ends.
        if unsafe { socket.asked.load(Ordering::Relaxed).as_ref() }
            .is_some_and(|asked| asked.load(Ordering::Relaxed) == 1)
        {
            shut_down_one(socket);
        }
    }
}

/// Returns whether other sessions can ask this one for sockets: SIGUSR2 is free, and from now on has the handler for that.
pub fn can_be_asked() -> bool {
    static CAN_BE_ASKED: OnceLock<bool> = OnceLock::new();
    *CAN_BE_ASKED.get_or_init(|| {
        // SAFETY: zero is a valid value, and both calls read and write only their arguments. The handler is a function of a library that is
        // never unloaded.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGUSR2, std::ptr::null(), &raw mut action) != 0
                || action.sa_sigaction != libc::SIG_IGN
            {
                return false;
            }
            let handler: unsafe extern "C" fn(c_int) = asked;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) == 0
        }
    })
}

/// Has a process shut down the sockets for whose flags it was set, unless it uses them. The process must have called [`can_be_asked`], and
/// must not have ended.
pub fn ask(number: u32) {
    if let Some(pid) = process::pid(number) {
        // SAFETY: sends a signal for which the process has a handler.
        unsafe { libc::kill(pid, libc::SIGUSR2) };
    }
}
