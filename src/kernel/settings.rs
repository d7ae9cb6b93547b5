//! The settings of `claims`. None of them decides about the caller's identity.

use std::ffi::CString;
use std::time::Duration;

use pgrx::PostgresGucEnum;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

const NO_UNIT: GucFlags = GucFlags::empty();

/// Defines a setting when the library is loaded.
macro_rules! define {
    (define_line_guc: $name:expr, $short:expr, $long:expr, $variable:ident, [], Userset, $unit:expr) => {
        pg::settings::define_line([$name, $short, $long], &$variable)
    };
    ($define:ident: $name:expr, $short:expr, $long:expr, $variable:ident, [$($limit:expr),*], $context:ident, $unit:expr) => {
        GucRegistry::$define($name, $short, $long, &$variable, $($limit,)* GucContext::$context, $unit)
    };
}

/// Declares each setting: a function of pgrx, or define_line_guc, the variable, its default, the limits of an integer, who may change it, its unit, and
/// the name and texts that users see.
macro_rules! settings {
    ($(
        $define:ident $variable:ident: $type:ty = $default:expr, [$($limit:expr),*], $context:ident, $unit:expr,
        $name:literal, $short:literal, $long:literal;
    )+) => {
        $(static $variable: GucSetting<$type> = GucSetting::<$type>::new($default);)+

        /// Defines every setting. Called once, when the library is loaded.
        pub fn define() {
            $(define!($define: $name, $short, $long, $variable, [$($limit),*], $context, $unit);)+
        }
    };
}

/// The events that the service records in `claims.audit_log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, PostgresGucEnum)]
pub enum Audit {
    #[name = c"off"]
    Off,
    /// The settled leases.
    #[name = c"settled"]
    Settled,
    /// Also begins that were refused, fences and denials.
    #[name = c"all"]
    All,
}

settings! {
    define_int_guc MAX_BATCH_SIZE: i32 = 2000, [1, 100_000], Suset, NO_UNIT,
        c"claims.max_batch_size",
        c"Largest number of records, creates and destroys together, that one batch may have.",
        c"A larger batch is refused with SQLSTATE 54000 before anything is locked.";
    define_int_guc WAIT_TIMEOUT: i32 = 0, [0, i32::MAX], Userset, GucFlags::UNIT_MS,
        c"claims.wait_timeout",
        c"How long a call waits, in total, for other open transactions before it reports a temporary conflict.",
        c"0 means not to wait: what another open transaction holds is reported as in_flight within milliseconds.";
    define_int_guc LEASE_WAIT: i32 = -1, [-1, 60_000], Userset, GucFlags::UNIT_MS,
        c"claims.lease_wait",
        c"How long a begin waits for names that other leases hold, while all its conflicts are temporary.",
        c"0 means not to wait, and -1 that only saves of cells wait, for 100 ms: automatic mode and begin_pending(). They hand it to the service, within claims.service_timeout. A waiting call holds nothing.";
    define_int_guc LEASE_PRIORITY: i32 = 0, [-10, 10], Userset, NO_UNIT,
        c"claims.lease_priority",
        c"The priority among the calls that wait for a name.",
        c"A priority of one counts like waiting for a second. Above 0 only as far as claims.set_cell_limits() allows the cell.";
    define_line_guc CONTEXT: Option<CString> = None, [], Userset, NO_UNIT,
        c"claims.context",
        c"What the application says about who acts and why, for example user 42 via /admin, request 7f3.",
        c"At most 256 bytes without control characters. Kept with each lease, in claims.audit_log and in the change feed. It is the client's word, and no identity.";
    define_line_guc CELL_ROLE: Option<CString> = None, [], Userset, NO_UNIT,
        c"claims.cell_role",
        c"What a cell says about which role of its own database acts, for calls that reach the service.",
        c"Cells with the extension send the role that has logged in by themselves. At most 256 bytes without control characters. It is the client's word, and no identity.";
    define_int_guc MAX_LEASE_WAITERS: i32 = 1024, [0, 1024], Sighup, NO_UNIT,
        c"claims.max_lease_waiters",
        c"How many calls of this server wait for names at the same time.",
        c"More calls answer at once, as with claims.lease_wait 0. Only if the library is preloaded.";
    define_int_guc OUTCOME_RETENTION: i32 = 7 * 24 * 60 * 60, [0, i32::MAX], Suset, GucFlags::UNIT_S,
        c"claims.outcome_retention",
        c"How long the outcome of a settled lease can be asked for.",
        c"claims.purge_outcomes() drops older ones. A cell must have recovered its leases within this time.";
    define_bool_guc CHANGE_FEED: bool = false, [], Suset, NO_UNIT,
        c"claims.change_feed",
        c"Whether each change of an owned claim is recorded in claims.changes.",
        c"Set it for the whole database: a session that has it off leaves a gap. On costs a commit about a tenth, off nothing.";
    define_bool_guc NOTIFY_CHANGES: bool = false, [], Suset, NO_UNIT,
        c"claims.notify_changes",
        c"Whether recorded changes are announced with NOTIFY on channel claims_changes.",
        c"All commits that notify wait for each other, and a transaction that did cannot be prepared: where readers ask often anyway, leave it off.";
    define_int_guc CHANGE_RETENTION: i32 = 7 * 24 * 60 * 60, [-1, i32::MAX], Suset, GucFlags::UNIT_S,
        c"claims.change_retention",
        c"How far back the background worker lets the change feed reach.",
        c"-1 means that it drops none. A reader that is further behind must start again. claims.purge_changes() drops changes of any age.";
    define_int_guc CHANGE_FEED_IDLE_TIMEOUT: i32 = 0, [0, i32::MAX / 1000], Sighup, GucFlags::UNIT_S,
        c"claims.change_feed_idle_timeout",
        c"How long a session may be idle in a transaction that holds back the change feed.",
        c"Then the background worker ends it, in whatever database it is. 0 means that it ends none. No role can change it for itself.";
    define_int_guc REQUEST_RETENTION: i32 = 30 * 24 * 60 * 60, [-1, i32::MAX], Suset, GucFlags::UNIT_S,
        c"claims.request_retention",
        c"How old a settled request must be for the background worker to delete it.",
        c"-1 means that it deletes none. claims.purge_requests() deletes requests of any age.";
    define_int_guc ADMIN_LOG_RETENTION: i32 = 366 * 24 * 60 * 60, [-1, i32::MAX], Suset, GucFlags::UNIT_S,
        c"claims.admin_log_retention",
        c"How old a row of claims.admin_log must be for the background worker to delete it.",
        c"-1 means that it deletes none. claims.purge_admin_log() deletes rows of any age.";
    define_int_guc TRANSFER_RETENTION: i32 = 30 * 24 * 60 * 60, [-1, i32::MAX], Suset, GucFlags::UNIT_S,
        c"claims.transfer_retention",
        c"How long after the end of a transfer the background worker deletes the list of its subjects.",
        c"-1 means that it deletes none. The row of the transfer stays. claims.purge_transfer_subjects() deletes lists of any age.";
    define_int_guc OBSERVATION_RETENTION: i32 = 90 * 24 * 60 * 60, [-1, i32::MAX], Suset, GucFlags::UNIT_S,
        c"claims.observation_retention",
        c"How long ago an observation must have occurred last for the background worker to delete it.",
        c"-1 means that it deletes none. claims.purge_observations() deletes observations of any age.";
    define_enum_guc AUDIT: Audit = Audit::Off, [], Suset, NO_UNIT,
        c"claims.audit",
        c"Which events are recorded in claims.audit_log: off, settled or all.",
        c"settled: each settled lease, in the transaction that settles it. all: also refused begins, fences and denials. Set it for the whole database.";
    define_int_guc AUDIT_RETENTION: i32 = 30 * 24 * 60 * 60, [-1, i32::MAX], Suset, GucFlags::UNIT_S,
        c"claims.audit_retention",
        c"How old a row of claims.audit_log must be for the background worker to delete it.",
        c"-1 means that it deletes none. claims.purge_audit() deletes rows of any age.";
    define_int_guc SERVICE_TIMEOUT: i32 = 250, [1, i32::MAX], Userset, GucFlags::UNIT_MS,
        c"claims.service_timeout",
        c"How long a cell's transaction waits for the claims service to answer.",
        c"A service that has not answered by then makes begin_pending() fail with SQLSTATE 57014, and the transaction with it.";
    define_int_guc OBSERVE_TIMEOUT: i32 = 50, [1, 60_000], Userset, GucFlags::UNIT_MS,
        c"claims.observe_timeout",
        c"How long a cell waits for the claims service where it can do without an answer: for observed names, and in is_available().",
        c"What the service has not answered by then is not claimed, and counted in claims.observations; is_available() returns NULL. No save fails because of it.";
    define_bool_guc KEEP_SERVICE_CONNECTION: bool = true, [], Userset, NO_UNIT,
        c"claims.keep_service_connection",
        c"Whether a session keeps its connection to the claims service between transactions.",
        c"Off closes it at the end of each transaction: for services that have fewer connections than the cell has sessions.";
    define_int_guc MAX_SERVICE_CALLS: i32 = 300, [0, 100_000], Sighup, NO_UNIT,
        c"claims.max_service_calls",
        c"How many calls the sessions of this server make to one claims service at the same time.",
        c"More wait for their turns, in the order of their arrival, within claims.service_timeout. 0 means no limit. Has an effect only where the library is in shared_preload_libraries.";
    define_int_guc SERVICE_IDLE_TIMEOUT: i32 = 5 * 60, [0, i32::MAX / 1000], Userset, GucFlags::UNIT_S,
        c"claims.service_idle_timeout",
        c"How long a session keeps a connection to the claims service that it does not use.",
        c"It opens another one for its next call. 0 means that it keeps the connection until the session ends.";
    define_int_guc BREAKER_FAILURES: i32 = 5, [0, 1_000_000], Suset, NO_UNIT,
        c"claims.breaker_failures",
        c"Consecutive failures to reach the claims service, or to get its answer, after which calls fail at once.",
        c"0 means never. claims.service_state shows the current state.";
    define_int_guc BREAKER_PAUSE: i32 = 1000, [1, 30_000], Suset, GucFlags::UNIT_MS,
        c"claims.breaker_pause",
        c"How long calls fail at once before one of them tries to reach the claims service again.",
        c"Doubles with each try that fails, up to 30 seconds.";
    define_int_guc BREAKER_TIMEOUT: i32 = 250, [1, 60_000], Suset, GucFlags::UNIT_MS,
        c"claims.breaker_timeout",
        c"How long the claims service must have had to answer, for its silence to count as a failure.",
        c"The failure of a call that waited for less does not count. Calls that send much data must have waited longer.";
    define_string_guc DATABASES: Option<CString> = None, [], Sighup, NO_UNIT,
        c"claims.databases",
        c"The databases that have a background worker of their own.",
        c"A list of names, separated by commas; quote those with capital letters. Has an effect only where the library is in shared_preload_libraries.";
    define_bool_guc AUTO_UPDATE: bool = false, [], Suset, NO_UNIT,
        c"claims.auto_update",
        c"Whether the background worker of a database updates an extension that is older than the library.",
        c"Calls wait for that, up to claims.service_timeout, but at least two seconds. Off leaves ALTER EXTENSION claims UPDATE to an administrator, and until then calls fail.";
    define_int_guc RECONCILE_INTERVAL: i32 = 60, [1, 24 * 60 * 60], Sighup, GucFlags::UNIT_S,
        c"claims.reconcile_interval",
        c"How often the background worker recovers the leases of each cell that it attends to.",
        c"It settles leases of committed transactions within a second. This interval is for leases without a record in this database.";
    define_int_guc STALE_AFTER: i32 = 600, [0, i32::MAX], Userset, GucFlags::UNIT_S,
        c"claims.stale_after",
        c"Age from which recovery fences and rolls back a lease whose local transaction is unknown.",
        c"For the background worker, and the default of the argument stale_after.";
    define_int_guc VERIFY_RECENT: i32 = 3600, [0, i32::MAX], Userset, GucFlags::UNIT_S,
        c"claims.verify_recent",
        c"Age up to which verification leaves claims alone.",
        c"For the background worker, and the default of the argument recent.";
    define_int_guc VERIFICATION_SLOTS: i32 = 2, [0, 1000], Sighup, NO_UNIT,
        c"claims.verification_slots",
        c"How many cells' background workers verify at this service at the same time.",
        c"The others try again later. 0 means no limit.";
    define_int_guc VERIFY_INTERVAL: i32 = 0, [0, i32::MAX], Sighup, GucFlags::UNIT_S,
        c"claims.verify_interval",
        c"How often a second background worker verifies each source type of each cell that is attended to.",
        c"0 means never. See claims.verify_correct.";
    define_bool_guc VERIFY_CORRECT: bool = false, [], Sighup, NO_UNIT,
        c"claims.verify_correct",
        c"Whether the verifying background worker corrects the discrepancies that it finds.",
        c"Off only counts the discrepancies, in claims.passes.";
    define_bool_guc REQUIRE_SYNCHRONOUS: bool = false, [], Suset, NO_UNIT,
        c"claims.require_synchronous",
        c"Whether leases are begun and settled only with a synchronous standby.",
        c"Without one in synchronous_standby_names they are refused. COMMIT waits for the standbys, whatever synchronous_commit the session has set.";
    define_bool_guc NOTIFY_REQUESTS: bool = true, [], Userset, NO_UNIT,
        c"claims.notify_requests",
        c"Whether recorded requests are announced with NOTIFY on channel claims_requests.",
        c"All commits that notify wait for each other: where back ends ask often anyway, off lets front ends commit side by side.";
}

/// Returns the databases that have a worker, each once. Returns none if the list cannot be parsed.
pub fn databases() -> Vec<String> {
    let list = DATABASES.get().unwrap_or_default();
    let mut databases = pg::settings::names(&list).unwrap_or_default();
    let mut seen = std::collections::HashSet::new();
    databases.retain(|name| seen.insert(name.clone()));
    databases
}

/// Returns whether the worker updates an extension that is older than the library.
pub fn auto_update() -> bool {
    AUTO_UPDATE.get()
}

pub fn reconcile_interval() -> Duration {
    Duration::from_secs(RECONCILE_INTERVAL.get().unsigned_abs().into())
}

/// Returns `None` if the worker does not verify.
pub fn verify_interval() -> Option<Duration> {
    let seconds = VERIFY_INTERVAL.get().unsigned_abs();
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

pub fn stale_after() -> Duration {
    Duration::from_secs(STALE_AFTER.get().unsigned_abs().into())
}

pub fn verify_recent() -> Duration {
    Duration::from_secs(VERIFY_RECENT.get().unsigned_abs().into())
}

/// Returns 0 if there is no limit.
pub fn verification_slots() -> i64 {
    VERIFICATION_SLOTS.get().into()
}

pub fn verify_correct() -> bool {
    VERIFY_CORRECT.get()
}

pub fn max_batch_size() -> usize {
    usize::try_from(MAX_BATCH_SIZE.get()).unwrap_or(0)
}

/// Returns how long a call waits for locks; 0 means not to wait.
pub fn wait_timeout() -> Duration {
    Duration::from_millis(WAIT_TIMEOUT.get().unsigned_abs().into())
}

/// Returns how long a direct call waits for names that other leases hold.
pub fn lease_wait() -> Duration {
    Duration::from_millis(LEASE_WAIT.get().max(0).unsigned_abs().into())
}

/// Returns how long a save of a cell waits for names that other leases hold, in automatic mode and begin_pending().
pub fn lease_wait_of_save() -> Duration {
    const DEFAULT: Duration = Duration::from_millis(100);
    if LEASE_WAIT.get() < 0 { DEFAULT } else { lease_wait() }
}

pub fn lease_priority() -> i32 {
    LEASE_PRIORITY.get()
}

/// Returns what the application says about who acts and why; `None` if nothing.
pub fn context() -> Option<CString> {
    CONTEXT.get().filter(|text| !text.is_empty())
}

/// Returns what a cell says about its role; `None` if nothing.
pub fn cell_role() -> Option<CString> {
    CELL_ROLE.get().filter(|text| !text.is_empty())
}

pub fn max_lease_waiters() -> usize {
    usize::try_from(MAX_LEASE_WAITERS.get()).unwrap_or(0)
}

/// Returns seconds.
pub fn outcome_retention() -> i64 {
    OUTCOME_RETENTION.get().into()
}

/// Returns whether changes of owners' claims are recorded.
pub fn change_feed() -> bool {
    CHANGE_FEED.get()
}

pub fn notify_changes() -> bool {
    NOTIFY_CHANGES.get()
}

/// Returns seconds, or `None` if changes are kept for ever.
pub fn change_retention() -> Option<i64> {
    unless_negative(CHANGE_RETENTION.get())
}

/// Returns seconds, or `None` if no session is ended.
pub fn change_feed_idle_timeout() -> Option<u32> {
    let seconds = CHANGE_FEED_IDLE_TIMEOUT.get().unsigned_abs();
    (seconds > 0).then_some(seconds)
}

/// Returns seconds, or `None` if settled requests are kept for ever.
pub fn request_retention() -> Option<i64> {
    unless_negative(REQUEST_RETENTION.get())
}

/// Returns seconds, or `None` if admin actions are kept for ever.
pub fn admin_log_retention() -> Option<i64> {
    unless_negative(ADMIN_LOG_RETENTION.get())
}

/// Returns seconds, or `None` if the subjects of transfers are kept for ever.
pub fn transfer_retention() -> Option<i64> {
    unless_negative(TRANSFER_RETENTION.get())
}

/// Returns seconds, or `None` if observations are kept for ever.
pub fn observation_retention() -> Option<i64> {
    unless_negative(OBSERVATION_RETENTION.get())
}

/// Returns the events that are recorded in the audit log.
pub fn audit() -> Audit {
    AUDIT.get()
}

/// Returns seconds, or `None` if the audit log is kept for ever.
pub fn audit_retention() -> Option<i64> {
    unless_negative(AUDIT_RETENTION.get())
}

fn unless_negative(seconds: i32) -> Option<i64> {
    (seconds >= 0).then_some(seconds.into())
}

pub fn service_timeout() -> Duration {
    Duration::from_millis(SERVICE_TIMEOUT.get().unsigned_abs().into())
}

pub fn observe_timeout() -> Duration {
    Duration::from_millis(OBSERVE_TIMEOUT.get().unsigned_abs().into())
}

/// Returns 0 if there is no limit.
pub fn max_service_calls() -> u32 {
    MAX_SERVICE_CALLS.get().unsigned_abs()
}

/// Returns `None` if connections stay open.
pub fn service_idle_timeout() -> Option<Duration> {
    let seconds = SERVICE_IDLE_TIMEOUT.get().unsigned_abs();
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

pub fn breaker_failures() -> u32 {
    BREAKER_FAILURES.get().unsigned_abs()
}

/// Returns milliseconds.
pub fn breaker_pause() -> i64 {
    BREAKER_PAUSE.get().into()
}

pub fn breaker_timeout() -> Duration {
    Duration::from_millis(BREAKER_TIMEOUT.get().unsigned_abs().into())
}

pub fn keep_service_connection() -> bool {
    KEEP_SERVICE_CONNECTION.get()
}

pub fn require_synchronous() -> bool {
    REQUIRE_SYNCHRONOUS.get()
}

pub fn notify_requests() -> bool {
    NOTIFY_REQUESTS.get()
}
