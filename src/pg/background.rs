//! Background workers: a launcher, which knows no database, and one worker for each database that the launcher was told of.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, BackgroundWorkerStatus, DynamicBackgroundWorker};
use pgrx::pg_guard;
use pgrx::pg_sys;

const LIBRARY: &str = "claims";

/// What the processes do. Each returns never, or to end its process.
pub struct Mains {
    pub launcher: fn(),
    /// Given the name of the database that it is connected to.
    pub worker: fn(&str),
}

static MAINS: OnceLock<Mains> = OnceLock::new();

/// Has the server run the launcher, from the end of recovery on. Called once, while the library is being preloaded.
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
    // To no database: so that pg_stat_activity shows it.
    BackgroundWorker::connect_worker_to_spi(None, None);
    if let Some(mains) = MAINS.get() {
        (mains.launcher)();
    }
}

#[pg_guard]
#[unsafe(no_mangle)]
extern "C-unwind" fn claims_worker_main(_argument: pg_sys::Datum) {
    obey_signals();
    let database = BackgroundWorker::get_extra().to_owned();
    // As the first superuser: the extension's owner may not be allowed to log in. See `owner::as_role`.
    BackgroundWorker::connect_worker_to_spi(Some(&database), None);
    if let Some(mains) = MAINS.get() {
        (mains.worker)(&database);
    }
}

/// A shutdown ends the process at its next look for interrupts, also in the middle of a statement, as it does for a session.
fn obey_signals() {
    // SAFETY: Postgres' own handlers, in a process that has just begun.
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

// Declared here as they are: the bindings' own would catch errors, for which a signal handler is no place.
unsafe extern "C-unwind" {
    fn die(signal: std::ffi::c_int);
    fn SignalHandlerForConfigReload(signal: std::ffi::c_int);
}

/// A worker that was started for a database.
pub struct Worker(DynamicBackgroundWorker);

impl Worker {
    /// Asks for one. `None`: the server has no place for another background worker (`max_worker_processes`). The launcher's
    /// latch is set when it begins and when it ends.
    pub fn start(name: &str, database: &str) -> Option<Worker> {
        BackgroundWorkerBuilder::new(name)
            .set_type(name)
            .set_library(LIBRARY)
            .set_function("claims_worker_main")
            .enable_spi_access()
            .set_extra(database)
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

/// Sleeps until the latch is set or the time is over, outside of any transaction, and takes in new settings. A shutdown
/// ends the process here.
pub fn sleep(at_most: Option<Duration>) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH | at_most.map_or(0, |_| pg_sys::WL_TIMEOUT);
    let milliseconds =
        at_most.map_or(-1, |time| std::ffi::c_long::try_from(time.as_millis()).unwrap_or(std::ffi::c_long::MAX));
    // SAFETY: MyLatch is this process' own latch; the configuration is read outside of a transaction, as Postgres wants it.
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
        // SPI wants one around it.
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = body();
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        pg_sys::pgstat_report_stat(true);
        result
    }
}

/// A process that can be woken by another one. Lies in shared memory.
#[derive(Default)]
pub struct Sleeper(AtomicPtr<pg_sys::Latch>);

impl Sleeper {
    /// From now on it is this process that is woken.
    pub fn become_it(&self) {
        // SAFETY: reads a variable of the process; its latch is in shared memory, at the same address for all.
        self.0.store(unsafe { pg_sys::MyLatch }, Ordering::Release);
    }

    /// Wakes it, if there is one. Allocates nothing and raises nothing: it may be called while a transaction commits.
    pub fn wake(&self) {
        let latch = self.0.load(Ordering::Acquire);
        if !latch.is_null() {
            // SAFETY: a latch of shared memory is there as long as the server. Whose process has ended since belongs to
            // nobody or to another one, which is woken for nothing.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }
}

// SAFETY: an atomic; the pointer leads to shared memory, which all processes have at the same address. NULL is nobody.
unsafe impl super::shared::Shareable for Sleeper {}

/// The database that this process is connected to.
pub fn own_database() -> u32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyDatabaseId }.to_u32()
}

/// Something that a process of its own does while the caller waits: to commit it before the caller does.
pub struct Errand<'e> {
    /// As it stands in pg_stat_activity.
    pub name: &'e str,
    /// What it is told, of at most 100 bytes.
    pub message: &'e str,
}

static ERRAND: OnceLock<fn(&str)> = OnceLock::new();

/// What errands do. Called once, when the library is loaded.
pub fn register_errand(main: fn(&str)) {
    let _ = ERRAND.set(main);
}

/// How long to wait for a place for another background worker.
const PATIENCE_FOR_A_PLACE: Duration = Duration::from_secs(5);

impl Errand<'_> {
    /// Waits until it is done, or has failed: whoever sent it looks at what it was to do. `false`: the server has no place for
    /// another background worker (`max_worker_processes`).
    pub fn run(&self) -> bool {
        let database = own_database();
        let deadline = Instant::now() + PATIENCE_FOR_A_PLACE;
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
                // Parallel queries take places for a moment.
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
    // As the first superuser: the extension's owner may not be allowed to log in. See `as_role`.
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    if let Some(errand) = ERRAND.get() {
        errand(message);
    }
}
