//! An attempt to connect, in a thread of its own.
//!
//! Some steps of libpq take as long as other machines want, and no signal ends them. It looks up host names, requests
//! Kerberos tickets, and computes as many iterations of SCRAM as the server asks for: up to two billion, which take an
//! hour. So a thread does these steps. The backend waits for the thread on its latch, with a deadline, as it waits for
//! a socket. When it cannot wait any longer, it abandons the thread, which closes the connection when libpq returns.
//!
//! PostgreSQL's code runs in one thread. These rules keep it so, and the process safe:
//! - The thread calls libpq, the allocator, and the functions it needs to report. It uses no memory context, error, log
//!   or latch of the server. No function in this file that uses a [`PqConnection`] in that thread may call `pg_sys`.
//! - A [`PqConnection`] has one owner. The thread creates it, and passes it on when it is open. Under this condition
//!   libpq is thread-safe, and so is OpenSSL since 1.1.0.
//! - All signals are blocked in the thread from its first instruction. Handlers run only in the backend's own thread.
//! - The thread has its own copy of the locale. The server calls setlocale(), which changes the locale of all threads
//!   without a copy.
//! - The thread uses the existing arena of malloc. A second one would reserve 64 MB, and hide growth from
//!   [`ProcessMemory`](super::memory::ProcessMemory).
//! - A process that exits while a thread is abandoned calls _exit(), after all callbacks of the server. exit() would
//!   run destructors of OpenSSL while the thread uses it, and a crash there restarts the server.

use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use pgrx::pg_sys;

use super::bindings::*;
use super::connection::{CountedFiles, PqConnection};
use super::link::Trouble;
use crate::wait::{Socket, sleep, wait_for_socket};

/// The file descriptors of an attempt: the connection's socket, and both ends of the socket pair by which the thread
/// wakes the process.
const FILES: u32 = 3;
/// The file descriptors of an abandoned thread. The process has closed its end of the pair.
const FILES_LEFT_BEHIND: u32 = 2;

/// The largest number of abandoned threads in a process. Each may use a CPU.
const MOST_LEFT_BEHIND: usize = 2;

/// How long an attempt waits for an earlier one. A cancel may have come during a step of some milliseconds.
const GRACE: Duration = Duration::from_millis(20);

const STACK_BYTES: usize = 1024 * 1024;

const STILL_BUSY: &str = "An earlier attempt of this session to connect has not ended: its server asked for a long computation, or the name of its host is still looked up.";

type Options = Vec<(CString, CString)>;

/// The state of a connection that is being made.
pub(super) enum AttemptState {
    /// The thread needs a wait for this socket.
    Wait(c_int, Socket),
    Open(PqConnection),
    /// The connection failed, with libpq's message.
    Failed(String),
}

/// A connecting thread, as the backend's own thread sees it.
pub(super) struct Attempt {
    options: Options,
    /// Makes the thread take the next step. `None` ends the thread.
    steps: Option<Sender<()>>,
    reports: Receiver<AttemptState>,
    /// The socket that becomes readable with each report.
    bell: UnixStream,
    /// Whether the thread has not yet reported on its last step.
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
    files: Option<CountedFiles>,
}

/// An abandoned thread.
struct LeftBehind {
    options: Options,
    thread: JoinHandle<()>,
    _files: CountedFiles,
}

thread_local! {
    /// Never dropped: the exit of the process ends the threads.
    static LEFT_BEHIND: ManuallyDrop<RefCell<Vec<LeftBehind>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

impl Attempt {
    pub(super) fn start(options: Options) -> Result<Attempt, Trouble> {
        let since = Instant::now();
        while is_one_left_behind(&options) {
            if since.elapsed() > GRACE {
                return Err(Trouble::Lost(STILL_BUSY.into()));
            }
            sleep(Duration::from_millis(1));
        }
        let files = CountedFiles::take(FILES).ok_or(Trouble::NoFiles)?;
        prepare_process();
        let no_thread =
            |error: std::io::Error| Trouble::Lost(format!("No thread could be started to connect: {error}"));
        let (bell, rope) = UnixStream::pair().map_err(no_thread)?;
        bell.set_nonblocking(true).map_err(no_thread)?;
        let locale = Locale::of_process().ok_or_else(|| Trouble::Lost("Out of memory.".into()))?;
        let ((steps, step), (report, reports)) = (channel(), channel());
        let of_thread = options.clone();
        let thread = {
            let _blocked = BlockedSignals::all();
            let named = Builder::new().name("claims connect".into()).stack_size(STACK_BYTES);
            let work = move || {
                let _locale = locale.enter();
                connect(&of_thread, &step, &report, rope);
            };
            named.spawn(work).map_err(no_thread)?
        };
        RUNNING.fetch_add(1, Relaxed);
        Ok(Attempt {
            options,
            steps: Some(steps),
            reports,
            bell,
            is_busy: true,
            thread: Some(thread),
            files: Some(files),
        })
    }

    /// Makes the thread take the next step, after the wait that it needed.
    pub(super) fn step(&mut self) {
        self.is_busy = self.steps.as_ref().is_some_and(|steps| steps.send(()).is_ok());
    }

    /// Waits for the next report. A cancel, a timeout or a shutdown of this session ends the wait with an error.
    pub(super) fn report(&mut self, deadline: Instant) -> Result<AttemptState, Trouble> {
        loop {
            match self.bell.read(&mut [0]) {
                Ok(1) => {
                    self.is_busy = false;
                    return self
                        .reports
                        .recv()
                        .map_err(|_| Trouble::Lost("The thread that connects has ended.".into()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                _ => {
                    self.is_busy = false;
                    return Err(Trouble::Lost("The thread that connects has ended.".into()));
                }
            }
            if !wait_for_socket(self.bell.as_raw_fd(), Socket::Readable, deadline) {
                return Err(Trouble::OutOfTime);
            }
        }
    }

    /// Ends the thread after it has passed the connection on. The connection's own file descriptor stays counted.
    pub(super) fn over(mut self) -> Option<CountedFiles> {
        self.end_thread();
        let mut files = self.files.take()?;
        files.keep(1);
        Some(files)
    }

    /// Ends the thread, which must not be busy, so that it ends at once.
    fn end_thread(&mut self) {
        self.steps = None;
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_busy {
            return self.end_thread();
        }
        self.steps = None;
        if let (Some(thread), Some(mut files)) = (self.thread.take(), self.files.take()) {
            files.keep(FILES_LEFT_BEHIND);
            let options = std::mem::take(&mut self.options);
            LEFT_BEHIND.with(|all| all.borrow_mut().push(LeftBehind { options, thread, _files: files }));
        }
    }
}

/// Returns whether an abandoned thread still connects with these options, or the limit of abandoned threads is reached.
/// Joins those that have ended.
fn is_one_left_behind(options: &Options) -> bool {
    LEFT_BEHIND.with(|all| {
        let mut all = all.borrow_mut();
        all.extract_if(.., |left| left.thread.is_finished()).for_each(|left| join(left.thread));
        all.len() >= MOST_LEFT_BEHIND || all.iter().any(|left| left.options == *options)
    })
}

fn join(thread: JoinHandle<()>) {
    // A thread that has panicked has closed its connection, too.
    let _ = thread.join();
    RUNNING.fetch_sub(1, Relaxed);
}

// --- in the thread ------------------------------------------------------------------------------------------------------

/// Connects step by step, until the connection is open or has failed, or the attempt was abandoned.
fn connect(options: &Options, step: &Receiver<()>, report: &Sender<AttemptState>, mut rope: UnixStream) {
    // A report that is not received is dropped, and a connection in it is closed. Then nothing reads the bell either.
    let mut tell = |said: AttemptState| report.send(said).is_ok() && rope.write_all(&[1]).is_ok();
    let Some(connection) = PqConnection::start(options) else {
        tell(AttemptState::Failed("Out of memory.".into()));
        return;
    };
    // The first wait is for a writable socket, before any poll.
    let mut state = if connection.is_broken() { POLLING_FAILED } else { POLLING_WRITING };
    loop {
        let wanted = match state {
            POLLING_OK => break,
            POLLING_FAILED => {
                tell(AttemptState::Failed(connection.last_message()));
                return;
            }
            POLLING_WRITING => Socket::Writable,
            _ => Socket::Readable,
        };
        if !tell(AttemptState::Wait(connection.socket(), wanted)) || step.recv().is_err() {
            return;
        }
        // SAFETY: the connection is being made, and belongs to this thread.
        state = unsafe { PQconnectPoll(connection.raw()) };
        connection.drop_early_notifications();
    }
    tell(AttemptState::Open(connection));
}

/// A copy of the locale of the process.
struct Locale(libc::locale_t);

// SAFETY: the copy has one owner, and can be used in any thread.
unsafe impl Send for Locale {}

/// `LC_GLOBAL_LOCALE`, which the libc crate does not define on every platform.
const GLOBAL_LOCALE: libc::locale_t = -1_isize as libc::locale_t;

impl Locale {
    /// Copies the locale of the process, in the thread that changes it. Returns `None` if there is no memory.
    fn of_process() -> Option<Self> {
        // SAFETY: the constant names the locale of the process.
        let copy = unsafe { libc::duplocale(GLOBAL_LOCALE) };
        (!copy.is_null()).then_some(Locale(copy))
    }

    /// Sets the locale of this thread.
    fn enter(self) -> EnteredLocale {
        // SAFETY: the locale lives until the thread has left it.
        unsafe { libc::uselocale(self.0) };
        EnteredLocale(self)
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: made by duplocale(), freed once, and used by no thread.
        unsafe { libc::freelocale(self.0) };
    }
}

/// A guard: this thread uses the locale until it is dropped. It is not Send.
struct EnteredLocale(#[expect(dead_code, reason = "freed with this value")] Locale);

impl Drop for EnteredLocale {
    fn drop(&mut self) {
        // SAFETY: the constant names the locale of the process.
        unsafe { libc::uselocale(GLOBAL_LOCALE) };
    }
}

// --- for the process ----------------------------------------------------------------------------------------------------

/// The number of threads that were started and not joined.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static EXIT_CODE: AtomicI32 = AtomicI32::new(0);

/// Prepares a process for threads.
fn prepare_process() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        // SAFETY: called before there is a second thread.
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
        // SAFETY: registers a function of a library that is never unloaded.
        unsafe { pg_sys::on_proc_exit(Some(at_end), pg_sys::Datum::from(0)) };
    });
}

/// Runs among the last callbacks of PostgreSQL, when shared memory is detached. The function that it registers is the
/// first one that exit() runs, because it is the last one to be registered.
unsafe extern "C-unwind" fn at_end(code: c_int, _: pg_sys::Datum) {
    // A negative code means that exit() was called instead of proc_exit(), and the exit code is unknown.
    if RUNNING.load(Relaxed) > 0 && code >= 0 {
        EXIT_CODE.store(code, Relaxed);
        // SAFETY: registers a function of a library that is never unloaded.
        unsafe { libc::atexit(leave) };
    }
}

extern "C" fn leave() {
    // SAFETY: ends the process, with its threads.
    unsafe { libc::_exit(EXIT_CODE.load(Relaxed)) }
}

/// A guard that blocks all signals in this thread, and in threads that it starts, until it is dropped.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn all() -> Self {
        // SAFETY: zero is valid for the struct, and both sets are filled in before they are read.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            BlockedSignals { before }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: restores the previous set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
