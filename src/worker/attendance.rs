//! A worker of one database: its jobs and their times.
//!
//! It works in short transactions, as the extension's owner. It has none open while it sleeps or waits for the service,
//! except while a verification compares a range that differs ([`slice`]). A failed job is rolled back, recorded in
//! `claims.passes`, and repeated later.

use std::sync::atomic::Ordering;
use std::time::Duration;

use claims_model::epoch::NOTE_INTERVAL;
use pgrx::pg_sys::Oid;

use super::errors::{Hindrance, log_failed_pass, log_forgotten_service, log_waiting};
use super::feed_holders::FeedHolders;
use super::own_transactions::{self, OwnTransactions};
use super::recorder::Recorder;
use super::schedule::{Job, Schedule};
use super::service_workers::{self, ServiceWorkers};
use super::update::Updates;
use super::{WORKER, committed_leases, first_due, purge};
use crate::cell::attended_cells::{self, Attended};
use crate::cell::claimed::declared;
use crate::cell::client::Service;
use crate::cell::epoch;
use crate::cell::ids::refill;
use crate::cell::recovery::reconcile::{self, RecoveryTally};
use crate::cell::recovery::remaining;
use crate::cell::transactions::Transactions;
use crate::cell::verify::slice;
use crate::cell::wakeup::take_wakeup_slot;
use crate::cell::workers::{self, Duty};
use crate::kernel::call::Call;
use crate::kernel::pass_log::{Failure, Pass};
use crate::kernel::settings::Audit;
use crate::kernel::{schema, settings, tables, version};
use crate::service::audit::audit_log;
use pg::background::{self, transaction};
use pg::spi::{self, Connection};
use pg::{activity, extension};

/// How often the worker checks whether the extension is installed.
const INSTALL_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How often the worker searches for committed leases while there are some.
const SETTLE_INTERVAL: Duration = Duration::from_millis(300);
/// How often the worker looks how many ids are left, while there are sequences that draw from ranges.
const IDS_INTERVAL: Duration = Duration::from_secs(5);
const PURGE_INTERVAL: Duration = Duration::from_secs(600);
/// The interval of merging search keys. Histories read those that are not merged one by one.
const INDEX_INTERVAL: Duration = Duration::from_secs(60);
/// How often the worker searches if no slot for wake-ups is free, so that no commit wakes it.
const UNWOKEN_INTERVAL: Duration = Duration::from_secs(1);
/// How often the verifying worker checks for other cells, since no commit wakes it.
const CELLS_INTERVAL: Duration = Duration::from_secs(5);

/// Runs a worker until its process ends. Returns at once if another process has this duty in this database. With the foreign server of a
/// service it does the jobs of that service only, and returns when the service needs no worker of its own any more.
pub fn run(duty: Duty, server: Option<Oid>, database: &str) {
    if !workers::take_slot(duty, server, database) {
        return;
    }
    let (slot, unwoken_interval) = match duty {
        Duty::Recovery => (take_wakeup_slot(), UNWOKEN_INTERVAL),
        Duty::Verification => (None, CELLS_INTERVAL),
    };
    own_transactions::before_steps(committed_leases::settle);
    let mut schedule = Schedule::default();
    let mut logged = None;
    let has_database = duty == Duty::Recovery && server.is_none();
    let mut recorder = has_database.then(Recorder::new);
    let mut service_workers = has_database.then(ServiceWorkers::default);
    let mut updates = has_database.then(Updates::new);
    let mut feed_holders = has_database.then(FeedHolders::new);
    loop {
        // From here on a commit wakes the worker, so commits during this round are not missed.
        slot.inspect(|slot| slot.is_idle.store(1, Ordering::Release));
        let pause = match transaction(readiness) {
            Readiness::Ready { owner, mut cells } => {
                let until_check =
                    service_workers.as_mut().and_then(|workers| workers.attend_to(&mut cells, WORKER, database));
                if let Some(server) = server {
                    service_workers::retain_served(&mut cells, server);
                    if cells.is_empty() {
                        return;
                    }
                }
                if duty == Duty::Recovery {
                    committed_leases::attend(&cells, slot);
                }
                round(owner, jobs(duty, has_database, &cells), &mut schedule);
                // attend() wakes the worker. A restore that writes the same rows does not.
                let until_recovery = settings::reconcile_interval();
                let until_record = recorder.as_mut().and_then(|recorder| recorder.record(owner));
                let until_look = feed_holders.as_mut().and_then(FeedHolders::end_idle);
                [schedule.next(), until_record, until_check, until_look, Some(until_recovery)]
                    .into_iter()
                    .flatten()
                    .min()
            }
            _ if server.is_some() => return,
            Readiness::Outdated(installed) => match &mut updates {
                Some(updates) => Some(updates.attempt(&installed)),
                None => Some(INSTALL_CHECK_INTERVAL),
            },
            Readiness::Hindered(hindrance) => {
                if logged.as_ref() != Some(&hindrance) {
                    log_waiting(&hindrance);
                    logged = Some(hindrance);
                }
                Some(INSTALL_CHECK_INTERVAL)
            }
            Readiness::Nothing => Some(INSTALL_CHECK_INTERVAL),
        };
        activity::show(None);
        // A commit during the round has set the latch, and waiting for the service may have reset it. The slot shows
        // the commit, too.
        let is_called = || slot.is_some_and(|slot| slot.is_idle.load(Ordering::Acquire) == 0);
        if !is_called() {
            background::sleep(if slot.is_none() {
                Some(pause.map_or(unwoken_interval, |pause| pause.min(unwoken_interval)))
            } else {
                pause
            });
        }
        // A commit woke the worker. The session that committed gets a moment to settle its lease itself.
        if is_called() {
            background::sleep(Some(SETTLE_INTERVAL));
            schedule.something_committed();
        }
    }
}

enum Readiness {
    Ready {
        owner: Oid,
        cells: Vec<Attended>,
    },
    /// The extension is of this version, older than the library, and the worker of the database updates it.
    Outdated(String),
    Hindered(Hindrance),
    Nothing,
}

fn readiness() -> Readiness {
    match extension::installed_version(c"claims") {
        None => Readiness::Nothing,
        Some(_) if version::is_same() && !tables::are_usable() => Readiness::Hindered(Hindrance::DistributedTables),
        Some(_) if version::is_same() => spi::connect(|connection| match schema::owner(connection) {
            Some(owner) => Readiness::Ready { owner, cells: attended_cells::attended(connection) },
            None => Readiness::Nothing,
        }),
        Some(other) if settings::auto_update() && version::are_tables_older() && !extension::is_in_pg_upgrade() => {
            Readiness::Outdated(other)
        }
        Some(other) => Readiness::Hindered(Hindrance::OtherVersion(other)),
    }
}

/// Returns the jobs of a worker. The worker of the whole database also purges.
fn jobs(duty: Duty, has_database: bool, cells: &[Attended]) -> Vec<Job> {
    match duty {
        Duty::Recovery => {
            let is_audited = has_database && settings::audit() != Audit::Off;
            let of_database = [has_database.then_some(Job::Purge), is_audited.then_some(Job::Index)];
            recovery_jobs(cells).chain(of_database.into_iter().flatten()).collect()
        }
        Duty::Verification if cells.is_empty() || settings::verify_interval().is_none() => Vec::new(),
        Duty::Verification => verification_jobs(cells, &transaction(|| spi::connect(declared::source_types))),
    }
}

/// Does the jobs that are due, each in a transaction of its own.
fn round(owner: Oid, jobs: Vec<Job>, schedule: &mut Schedule) {
    schedule.retain(|job| jobs.contains(job));
    for job in jobs.iter().filter(|job| !schedule.has(job)).collect::<Vec<_>>() {
        schedule.begin(job.clone(), first_due::pause(job, interval(job)));
    }
    for job in jobs {
        if schedule.is_due(&job) {
            do_job(owner, job, schedule);
        }
    }
}

/// Returns the recovery jobs of cells. None of them runs code of table owners, which could delay the settling of committed
/// leases for any time. Ids come from the service of the types that are not named.
fn recovery_jobs(cells: &[Attended]) -> impl Iterator<Item = Job> {
    let of_cell = |cell: &Attended| {
        let job = |job: fn(i64, String) -> Job| job(cell.cell_id, cell.service.clone());
        let refill = (!cell.by_type).then(|| job(Job::Refill));
        [job(Job::Settle), job(Job::Reconcile), job(Job::Show)].into_iter().chain(refill)
    };
    cells.iter().flat_map(of_cell)
}

/// Returns the verification jobs in this database. Each service is asked for every source type: it may have claims of types that have
/// gone to another one.
fn verification_jobs(cells: &[Attended], source_types: &[String]) -> Vec<Job> {
    let of_cell = |cell: &Attended| {
        let job = |name: &String| Job::Verify(cell.cell_id, cell.service.clone(), name.clone());
        source_types.iter().map(job).collect::<Vec<_>>()
    };
    cells.iter().flat_map(of_cell).collect()
}

fn do_job(owner: Oid, job: Job, schedule: &mut Schedule) {
    if let Job::Show(cell_id, service) = &job {
        show(owner, *cell_id, service, schedule);
        schedule.done(job, NOTE_INTERVAL);
        return;
    }
    activity::show(Some(&job.to_string()));
    let transactions = OwnTransactions { owner };
    let interval = interval(&job);
    let (cell_id, source_type) = job.of();
    let pass = Pass::begin(job.kind(), cell_id, source_type, job.service());
    // Log only after the transaction has ended.
    match run_job(&transactions, &job) {
        Ok(done) => {
            if let (Some(tally), Job::Reconcile(cell_id, _)) = (done.recovery, &job) {
                tally.warn(*cell_id);
            }
            if job.logs_failures_only() && !schedule.is_known_good(&job) {
                record(&transactions, |connection| pass.recovered(connection));
            }
            schedule.done(job, done.again.unwrap_or(interval));
        }
        Err(failure) => {
            record(&transactions, |connection| pass.failed(connection, &failure));
            log_failed_pass(&job.to_string(), &failure);
            schedule.failed(job, interval);
        }
    }
}

/// Shows a service that this database still acts as the cell. A pass of recovery is due at once when the answer is another one than that to the
/// last pass: it reports that another database acts, or takes over from one that does not act any more.
fn show(owner: Oid, cell_id: i64, server: &str, schedule: &mut Schedule) {
    activity::show(Some("claims: show"));
    let pass = Job::Reconcile(cell_id, server.to_owned());
    let transactions = OwnTransactions { owner };
    let shown = transactions
        .in_database(|connection| Service::resolved(connection, server, cell_id))
        .and_then(|service| epoch::show(&transactions, &service));
    if let Ok(Some(is_followed)) = shown
        && is_followed != schedule.is_known_good(&pass)
    {
        schedule.hurry(&pass);
    }
}

/// Writes to the log of passes. A failure of that is written to the server's log.
fn record(transactions: &OwnTransactions, write: impl FnOnce(&Connection)) {
    let recorded = transactions.in_database(|connection| {
        write(connection);
        Ok(())
    });
    if let Err(failure) = recorded {
        log_failed_pass("claims: record of a pass", &failure);
    }
}

/// Returns the interval after a successful job. Commits wake the worker earlier.
fn interval(job: &Job) -> Duration {
    match job {
        Job::Settle(..) | Job::Reconcile(..) | Job::Refill(..) => settings::reconcile_interval(),
        Job::Show(..) => NOTE_INTERVAL,
        Job::Verify(..) => settings::verify_interval().unwrap_or(PURGE_INTERVAL),
        Job::Purge => PURGE_INTERVAL,
        Job::Index => INDEX_INTERVAL,
    }
}

struct RoundEnd {
    /// When there is more to do, if not after the usual interval.
    again: Option<Duration>,
    recovery: Option<RecoveryTally>,
}

impl RoundEnd {
    fn of(is_complete: bool) -> Self {
        RoundEnd { again: (!is_complete).then_some(SETTLE_INTERVAL), recovery: None }
    }
}

fn run_job(transactions: &OwnTransactions, job: &Job) -> Result<RoundEnd, Failure> {
    match job {
        Job::Settle(cell_id, service) => Ok(RoundEnd::of(remaining::settle(transactions, *cell_id, service)?)),
        Job::Reconcile(cell_id, service) => {
            if transactions
                .in_database(|connection| Ok(attended_cells::forget_dropped(connection, *cell_id, service)))?
            {
                log_forgotten_service(*cell_id, service);
                return Ok(RoundEnd::of(true));
            }
            let tally = reconcile::pass(transactions, *cell_id, service)?;
            Ok(RoundEnd { again: None, recovery: Some(tally) })
        }
        Job::Show(..) => Ok(RoundEnd::of(true)),
        Job::Refill(cell_id, service) => {
            let confirmed_for = i64::try_from(settings::reconcile_interval().as_secs()).unwrap_or(i64::MAX);
            let refilled = refill::refill(transactions, *cell_id, service, confirmed_for)?;
            Ok(RoundEnd { again: refilled.has_sequences.then_some(IDS_INTERVAL), recovery: None })
        }
        Job::Verify(cell_id, service, source_type) => {
            let correct = settings::verify_correct();
            let task = slice::SliceTask { cell_id: *cell_id, server: service, source_type, correct };
            Ok(RoundEnd::of(task.slice(transactions)?))
        }
        Job::Purge => transactions.in_database(|connection| Ok(RoundEnd::of(purge::purge(&Call::over(connection))))),
        Job::Index => transactions.in_database(|connection| {
            audit_log::merge_search_keys(connection);
            Ok(RoundEnd::of(true))
        }),
    }
}
