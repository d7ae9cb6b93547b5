//! The settings of `claims`. None of them decides about the caller's identity.

use std::ffi::{CStr, CString};
use std::time::Duration;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

static MAX_BATCH_SIZE: GucSetting<i32> = GucSetting::<i32>::new(2000);
static WAIT_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(0);
static OUTCOME_RETENTION: GucSetting<i32> = GucSetting::<i32>::new(7 * 24 * 60 * 60);
static CHANGE_FEED: GucSetting<bool> = GucSetting::<bool>::new(false);
static NOTIFY_CHANGES: GucSetting<bool> = GucSetting::<bool>::new(false);
static CHANGE_RETENTION: GucSetting<i32> = GucSetting::<i32>::new(7 * 24 * 60 * 60);

static SERVICE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(250);
static KEEP_SERVICE_CONNECTION: GucSetting<bool> = GucSetting::<bool>::new(true);
static BREAKER_FAILURES: GucSetting<i32> = GucSetting::<i32>::new(5);
static BREAKER_PAUSE: GucSetting<i32> = GucSetting::<i32>::new(1000);
static BREAKER_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(250);
static DATABASES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static RECONCILE_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(60);
static VERIFY_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(0);
static VERIFY_CORRECT: GucSetting<bool> = GucSetting::<bool>::new(false);

static REQUIRE_SYNCHRONOUS: GucSetting<bool> = GucSetting::<bool>::new(false);
static NOTIFY_REQUESTS: GucSetting<bool> = GucSetting::<bool>::new(true);

struct Integer {
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    min: i32,
    max: i32,
    context: GucContext,
    unit: GucFlags,
}

const INTEGERS: [Integer; 10] = [
    Integer {
        name: c"claims.max_batch_size",
        short: c"Largest number of records, creates and destroys together, that one batch may have.",
        long: c"A larger batch is refused with SQLSTATE 54000 before anything is locked.",
        setting: &MAX_BATCH_SIZE,
        min: 1,
        max: 100_000,
        context: GucContext::Suset,
        unit: GucFlags::empty(),
    },
    Integer {
        name: c"claims.wait_timeout",
        short: c"How long a call waits, in total, for other open transactions before it reports a temporary conflict.",
        long: c"0 means not to wait: what another open transaction holds is reported as in_flight within milliseconds.",
        setting: &WAIT_TIMEOUT,
        min: 0,
        max: i32::MAX,
        context: GucContext::Userset,
        unit: GucFlags::UNIT_MS,
    },
    Integer {
        name: c"claims.outcome_retention",
        short: c"How long the outcome of a settled lease can be asked for.",
        long: c"claims.purge_outcomes() drops older ones. A cell must have recovered its leases within this time.",
        setting: &OUTCOME_RETENTION,
        min: 0,
        max: i32::MAX,
        context: GucContext::Suset,
        unit: GucFlags::UNIT_S,
    },
    Integer {
        name: c"claims.change_retention",
        short: c"How far back the background worker lets the change feed reach.",
        long: c"-1 means that it drops none. A reader that is further behind must start again. claims.purge_changes() drops changes of any age.",
        setting: &CHANGE_RETENTION,
        min: -1,
        max: i32::MAX,
        context: GucContext::Suset,
        unit: GucFlags::UNIT_S,
    },
    Integer {
        name: c"claims.service_timeout",
        short: c"How long a cell's transaction waits for the claims service to answer.",
        long: c"A service that has not answered by then makes begin_pending() fail with SQLSTATE 57014, and the transaction with it.",
        setting: &SERVICE_TIMEOUT,
        min: 1,
        max: i32::MAX,
        context: GucContext::Userset,
        unit: GucFlags::UNIT_MS,
    },
    Integer {
        name: c"claims.breaker_failures",
        short: c"Consecutive failures to reach the claims service, or to get its answer, after which calls fail at once.",
        long: c"0 means never. claims.service_state shows the current state.",
        setting: &BREAKER_FAILURES,
        min: 0,
        max: 1_000_000,
        context: GucContext::Suset,
        unit: GucFlags::empty(),
    },
    Integer {
        name: c"claims.breaker_pause",
        short: c"How long calls fail at once before one of them tries to reach the claims service again.",
        long: c"Doubles with each try that fails, up to 30 seconds.",
        setting: &BREAKER_PAUSE,
        min: 1,
        max: 30_000,
        context: GucContext::Suset,
        unit: GucFlags::UNIT_MS,
    },
    Integer {
        name: c"claims.breaker_timeout",
        short: c"How long the claims service must have had to answer, for its silence to count as a failure.",
        long: c"The failure of a call that waited for less does not count. Calls that send much data must have waited longer.",
        setting: &BREAKER_TIMEOUT,
        min: 1,
        max: 60_000,
        context: GucContext::Suset,
        unit: GucFlags::UNIT_MS,
    },
    Integer {
        name: c"claims.reconcile_interval",
        short: c"How often the background worker recovers the leases of each cell that it attends to.",
        long: c"It settles leases of committed transactions within a second. This interval is for leases without a record in this database.",
        setting: &RECONCILE_INTERVAL,
        min: 1,
        max: 24 * 60 * 60,
        context: GucContext::Sighup,
        unit: GucFlags::UNIT_S,
    },
    Integer {
        name: c"claims.verify_interval",
        short: c"How often a second background worker verifies each source type of each cell that is attended to.",
        long: c"0 means never. See claims.verify_correct.",
        setting: &VERIFY_INTERVAL,
        min: 0,
        max: i32::MAX,
        context: GucContext::Sighup,
        unit: GucFlags::UNIT_S,
    },
];

/// Defines every setting. Called once, when the library is loaded.
pub fn define() {
    for integer in INTEGERS {
        let Integer { name, short, long, setting, min, max, context, unit } = integer;
        GucRegistry::define_int_guc(name, short, long, setting, min, max, context, unit);
    }
    GucRegistry::define_bool_guc(
        c"claims.notify_requests",
        c"Whether recorded requests are announced with NOTIFY on channel claims_requests.",
        c"All commits that notify wait for each other: where back ends ask often anyway, off lets front ends commit side by side.",
        &NOTIFY_REQUESTS,
        GucContext::Userset,
        GucFlags::empty(),
    );
    GucRegistry::define_bool_guc(
        c"claims.change_feed",
        c"Whether each change of an owned claim is recorded in claims.changes.",
        c"Set it for the whole database: a session that has it off leaves a gap. On costs a commit about a tenth, off nothing.",
        &CHANGE_FEED,
        GucContext::Suset,
        GucFlags::empty(),
    );
    GucRegistry::define_bool_guc(
        c"claims.notify_changes",
        c"Whether recorded changes are announced with NOTIFY on channel claims_changes.",
        c"All commits that notify wait for each other, and a transaction that did cannot be prepared: where readers ask often anyway, leave it off.",
        &NOTIFY_CHANGES,
        GucContext::Suset,
        GucFlags::empty(),
    );
    GucRegistry::define_bool_guc(
        c"claims.keep_service_connection",
        c"Whether a session keeps its connection to the claims service between transactions.",
        c"Off closes it at the end of each transaction: for services that have fewer connections than the cell has sessions.",
        &KEEP_SERVICE_CONNECTION,
        GucContext::Userset,
        GucFlags::empty(),
    );
    GucRegistry::define_bool_guc(
        c"claims.verify_correct",
        c"Whether the verifying background worker corrects the discrepancies that it finds.",
        c"Off only counts the discrepancies, in claims.passes.",
        &VERIFY_CORRECT,
        GucContext::Sighup,
        GucFlags::empty(),
    );
    GucRegistry::define_bool_guc(
        c"claims.require_synchronous",
        c"Whether leases are begun and settled only with a synchronous standby.",
        c"Without one in synchronous_standby_names they are refused. COMMIT waits for the standbys, whatever synchronous_commit the session has set.",
        &REQUIRE_SYNCHRONOUS,
        GucContext::Suset,
        GucFlags::empty(),
    );
    GucRegistry::define_string_guc(
        c"claims.databases",
        c"The databases that have a background worker of their own.",
        c"A list of names, separated by commas; quote those with capital letters. Has an effect only where the library is in shared_preload_libraries.",
        &DATABASES,
        GucContext::Sighup,
        GucFlags::empty(),
    );
    crate::pg::settings::reserve_prefix();
}

/// Returns the databases that have a worker, each once. Returns none if the list cannot be parsed.
pub fn databases() -> Vec<String> {
    let list = DATABASES.get().unwrap_or_default();
    let mut databases = crate::pg::settings::names(&list).unwrap_or_default();
    let mut seen = std::collections::HashSet::new();
    databases.retain(|name| seen.insert(name.clone()));
    databases
}

pub fn reconcile_interval() -> Duration {
    Duration::from_secs(RECONCILE_INTERVAL.get().unsigned_abs().into())
}

/// Returns `None` if the worker does not verify.
pub fn verify_interval() -> Option<Duration> {
    let seconds = VERIFY_INTERVAL.get().unsigned_abs();
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

pub fn verify_correct() -> bool {
    VERIFY_CORRECT.get()
}

pub fn max_batch_size() -> usize {
    usize::try_from(MAX_BATCH_SIZE.get()).unwrap_or(0)
}

/// Returns milliseconds; 0 means not to wait.
pub fn wait_timeout() -> i64 {
    WAIT_TIMEOUT.get().into()
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
    let seconds: i64 = CHANGE_RETENTION.get().into();
    (seconds >= 0).then_some(seconds)
}

/// Returns milliseconds.
pub fn service_timeout() -> i64 {
    SERVICE_TIMEOUT.get().into()
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
