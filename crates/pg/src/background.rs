//! Background workers: a launcher, which connects to no database, workers for each database that the launcher knows, and
//! workers that those start.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, BackgroundWorkerStatus, DynamicBackgroundWorker};
use pgrx::{pg_guard, pg_sys};
use zerocopy::FromBytes;

use super::{roles, settings};

const LIBRARY: &str = "claims";

/// The main functions of the processes. They return only to end the process.
pub struct Mains {
    pub launcher: fn(),
    /// Its arguments are the name with which the worker was started, and that of the database that it is connected to.
    pub worker: fn(&str, &str),
    /// The main function of the workers that another worker starts for its database. Its arguments are the number with which the worker
    /// was started, and the name of the database.
    pub helper: fn(u32, &str),
}

static MAINS: OnceLock<Mains> = OnceLock::new();

static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// Returns whether this process is a worker of this extension.
pub fn is_worker() -> bool {
    IS_WORKER.load(Ordering::Relaxed)
}

/// Returns the id of this process; never 0.
pub fn own_process() -> u32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyProcPid }.unsigned_abs()
}

/// Makes the server run the launcher as soon as recovery ends. Called once, while the library is being preloaded.
pub fn register(mains: Mains, launcher: &str) {
    if MAINS.set(mains).is_err() {
        return;
    }
    BackgroundWorkerBuilder::new(launcher)
        .set_type(launcher)
        .set_library(LIBRARY)
        .set_function("claims_launcher_main")
        .enable_spi_access()
        .set_restart_time(Some(Duration::from_secs(5)))
        .load();
}

#[pg_guard]
#[unsafe(no_mangle)]
extern "C-unwind" fn claims_launcher_main(_argument: pg_sys::Datum) {
    obey_signals();
    // Connected to no database, so that pg_stat_activity shows the launcher.
    BackgroundWorker::connect_worker_to_spi(None, None);
    if let Some(mains) = MAINS.get() {
        (mains.launcher)();
    }
}

#[pg_guard]
#[unsafe(no_mangle)]
extern "C-unwind" fn claims_worker_main(_argument: pg_sys::Datum) {
    obey_signals();
    IS_WORKER.store(true, Ordering::Relaxed);
    let database = BackgroundWorker::get_extra().to_owned();
    // Connected as the bootstrap superuser, because the extension's owner may not be allowed to log in. See
    // `owner::as_role`.
    BackgroundWorker::connect_worker_to_spi(Some(&database), None);
    set_own_settings();
    if let Some(mains) = MAINS.get() {
        (mains.worker)(BackgroundWorker::get_name(), &database);
    }
}

#[pg_guard]
#[unsafe(no_mangle)]
extern "C-unwind" fn claims_helper_main(_argument: pg_sys::Datum) {
    obey_signals();
    IS_WORKER.store(true, Ordering::Relaxed);
    let extra = BackgroundWorker::get_extra().to_owned();
    let Some((number, database)) = extra.split_once(' ') else { return };
    let Ok(number) = number.parse() else { return };
    BackgroundWorker::connect_worker_to_spi(Some(database), None);
    set_own_settings();
    if let Some(mains) = MAINS.get() {
        (mains.helper)(number, database);
    }
}

/// The settings under which workers do their work. ALTER DATABASE, ALTER ROLE and the server's configuration may set others, which
/// sessions of applications want and workers do not.
const OWN_SETTINGS: &[(&CStr, &CStr)] = &[
    (c"role", c"none"),
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    (c"default_transaction_deferrable", c"off"),
    (c"session_replication_role", c"origin"),
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"statement_timeout", c"0"),
    (c"lock_timeout", c"0"),
    // Since PostgreSQL 17.
    (c"transaction_timeout", c"0"),
    (c"row_security", c"on"),
    (c"transform_null_equals", c"off"),
    (c"standard_conforming_strings", c"on"),
    (c"array_nulls", c"on"),
    (c"quote_all_identifiers", c"off"),
    // Since the minor releases of August 2024.
    (c"restrict_nonsystem_relation_kind", c""),
];

/// Gives this process, which is connected to a database and has no transaction open, the rights of the cluster's first superuser and its
/// [`OWN_SETTINGS`].
fn set_own_settings() {
    transaction(|| {
        let superuser = roles::name(pg_sys::Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID));
        settings::set_for_process(c"session_authorization", &CString::new(superuser).unwrap_or_default());
        for (setting, value) in OWN_SETTINGS {
            settings::set_for_process(setting, value);
        }
    });
}

/// Installs signal handlers. A shutdown ends the process at its next check for interrupts, also within a statement, as
/// it does in a session.
fn obey_signals() {
    // SAFETY: installs PostgreSQL's handlers in a process that has just begun.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        {
            pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(die));
            pg_sys::pqsignal(pg_sys::SIGHUP as i32, Some(SignalHandlerForConfigReload));
        }
        #[cfg(feature = "pg18")]
        {
            pg_sys::pqsignal_be(pg_sys::SIGTERM as i32, Some(die));
            pg_sys::pqsignal_be(pg_sys::SIGHUP as i32, Some(SignalHandlerForConfigReload));
        }
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

// Declared here, because the bindings of pgrx would catch errors, which a signal handler must not do.
unsafe extern "C-unwind" {
    fn die(signal: std::ffi::c_int);
    fn SignalHandlerForConfigReload(signal: std::ffi::c_int);
}

unsafe extern "C" {
    fn kill(pid: std::ffi::c_int, signal: std::ffi::c_int) -> std::ffi::c_int;
}

pub fn own_pid() -> i32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyProcPid }
}

/// Ends a process of this server, as pg_terminate_backend() does. Does nothing if there is no such process.
pub fn terminate(pid: i32) {
    // SAFETY: reads shared memory under a lock of PostgreSQL. Only a process of this server gets the signal.
    unsafe {
        if !pg_sys::BackendPidGetProc(pid).is_null() {
            kill(pid, pg_sys::SIGTERM as std::ffi::c_int);
        }
    }
}

/// The callbacks that run when this process ends.
static AT_EXIT: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Registers a callback that runs when this process ends, unless the whole server crashes with it. Its transaction has
/// ended by then, so the callback may only change shared memory. Call it once for each callback.
pub fn at_exit(callback: fn()) {
    let Ok(mut callbacks) = AT_EXIT.lock() else { return };
    callbacks.push(callback);
    if callbacks.len() == 1 {
        // SAFETY: the callback below is there as long as the process.
        unsafe { pg_sys::on_shmem_exit(Some(run_at_exit), pg_sys::Datum::from(0)) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn run_at_exit(_code: std::ffi::c_int, _argument: pg_sys::Datum) {
    let callbacks = AT_EXIT.lock().map(|callbacks| callbacks.clone()).unwrap_or_default();
    callbacks.into_iter().for_each(|callback| callback());
}

/// A worker that was started for a database.
pub struct Worker(DynamicBackgroundWorker);

impl Worker {
    /// Starts a worker. Returns `None` if the server has no free slot for another background worker
    /// (`max_worker_processes`). The server sets the launcher's latch when the worker begins and when it ends.
    pub fn start(name: &str, database: &str) -> Option<Worker> {
        Self::start_main(name, "claims_worker_main", database)
    }

    /// Like [`Worker::start`], for a worker that runs [`Mains::helper`] with a number. It notifies the process that calls this.
    pub fn start_helper(name: &str, database: &str, number: u32) -> Option<Worker> {
        Self::start_main(name, "claims_helper_main", &format!("{number} {database}"))
    }

    fn start_main(name: &str, main: &str, argument: &str) -> Option<Worker> {
        BackgroundWorkerBuilder::new(name)
            .set_type(name)
            .set_library(LIBRARY)
            .set_function(main)
            .enable_spi_access()
            .set_extra(argument)
            // SAFETY: reads a variable of the process.
            .set_notify_pid(unsafe { pg_sys::MyProcPid })
            .load_dynamic()
            .ok()
            .map(Worker)
    }

    pub fn has_ended(&self) -> bool {
        !matches!(self.0.pid(), Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted))
    }

    pub fn stop(self) {
        self.0.terminate();
    }
}

/// Sleeps outside of any transaction, until the latch is set or the time has passed, and reloads the configuration if
/// asked to. A shutdown ends the process here.
pub fn sleep(at_most: Option<Duration>) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH | at_most.map_or(0, |_| pg_sys::WL_TIMEOUT);
    let milliseconds =
        at_most.map_or(-1, |time| std::ffi::c_long::try_from(time.as_millis()).unwrap_or(std::ffi::c_long::MAX));
    // SAFETY: MyLatch is this process' own latch; the configuration is read outside of a transaction, as PostgreSQL
    // requires.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, milliseconds, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
        pg_sys::check_for_interrupts!();
        if (&raw const pg_sys::ConfigReloadPending).read_volatile() != 0 {
            (&raw mut pg_sys::ConfigReloadPending).write_volatile(0);
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// Runs `body` in a transaction of its own, in a process that has none open.
pub fn transaction<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: a background worker that is connected to a database; an error ends the process.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        // SPI needs an active snapshot.
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = body();
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        pg_sys::pgstat_report_stat(true);
        result
    }
}

/// A process that other processes can wake. It is stored in shared memory.
#[derive(Default, FromBytes)]
pub struct Sleeper {
    /// The index of its PGPROC in the server's array, plus 1; 0 if there is no process.
    process: AtomicU32,
}

impl Sleeper {
    /// Makes this process the one that is woken.
    pub fn become_this_process(&self) {
        self.process.store(own_sleeper(), Ordering::Release);
    }

    /// Wakes the process, if there is one. Allocates nothing and raises no error, so it may be called while a
    /// transaction commits.
    pub fn wake(&self) {
        wake_sleeper(self.process.load(Ordering::Acquire));
    }
}

/// Returns the number by which other processes wake this one: the index of its PGPROC in the server's array, plus 1.
pub fn own_sleeper() -> u32 {
    // SAFETY: reads variables of the process, whose PGPROC stays in that array until it ends.
    let at = unsafe { pg_sys::MyProc.offset_from((*pg_sys::ProcGlobal).allProcs) };
    u32::try_from(at + 1).unwrap_or(0)
}

/// Wakes the process with the number that [`own_sleeper`] has returned there; 0 is none. Allocates nothing and raises no error.
pub fn wake_sleeper(number: u32) {
    let Some(at) = number.checked_sub(1) else { return };
    // SAFETY: the array lives as long as the server, and the index is within it. If the process has ended since,
    // its latch belongs to no process or to another one, which is then woken without need.
    unsafe {
        if at < (*pg_sys::ProcGlobal).allProcCount {
            pg_sys::SetLatch(&raw mut (*(*pg_sys::ProcGlobal).allProcs.add(at as usize)).procLatch);
        }
    }
}

/// Returns the database that this process is connected to.
pub fn own_database() -> u32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyDatabaseId }.to_u32()
}

/// Returns the name of the database that this process is connected to.
pub fn database_name() -> String {
    // SAFETY: looks a catalog up; the name is a C string in this transaction's memory, or NULL.
    unsafe {
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Returns the identity of the database that this process is connected to. A physical copy has the same, a restored dump another one.
pub fn database_identity() -> String {
    // SAFETY: reads shared memory that does not change while the server runs.
    format!("{}/{}", unsafe { pg_sys::GetSystemIdentifier() }, own_database())
}

/// A task that a background worker does while the caller waits, so that it commits before the caller does.
pub struct Errand<'e> {
    /// The name in pg_stat_activity.
    pub name: &'e str,
    /// The argument, of at most 100 bytes.
    pub message: &'e str,
}

static ERRAND: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that errands call. Called once, when the library is loaded.
pub fn register_errand(main: fn(&str)) {
    let _ = ERRAND.set(main);
}

/// How long to wait for a free slot for another background worker.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(5);

impl Errand<'_> {
    /// Waits until the worker has ended, successfully or not; the caller checks the effect itself. Returns false if the
    /// server has no free slot for another background worker (`max_worker_processes`).
    pub fn run(&self) -> bool {
        let database = own_database();
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        loop {
            let worker = BackgroundWorkerBuilder::new(self.name)
                .set_type(self.name)
                .set_library(LIBRARY)
                .set_function("claims_errand_main")
                .enable_spi_access()
                .set_extra(&format!("{database} {}", self.message))
                // SAFETY: reads a variable of the process.
                .set_notify_pid(unsafe { pg_sys::MyProcPid })
                .load_dynamic();
            match worker {
                Ok(worker) => return worker.wait_for_shutdown().is_ok(),
                Err(_) if Instant::now() >= deadline => return false,
                // Parallel queries occupy slots for short times.
                Err(_) => super::wait::sleep(Duration::from_millis(50)),
            }
        }
    }
}

#[pg_guard]
#[unsafe(no_mangle)]
extern "C-unwind" fn claims_errand_main(_argument: pg_sys::Datum) {
    obey_signals();
    let extra = BackgroundWorker::get_extra().to_owned();
    let Some((database, message)) = extra.split_once(' ') else { return };
    let Ok(database) = database.parse::<u32>() else { return };
    // Connected as the bootstrap superuser, because the extension's owner may not be allowed to log in. See
    // `owner::as_role`.
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    set_own_settings();
    if let Some(errand) = ERRAND.get() {
        errand(message);
    }
}
