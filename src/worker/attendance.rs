//! The worker of one database: what it does, and when.
//!
//! It works in short transactions, as the extension's owner, and has none open while it sleeps or waits for the service, but where a
//! verification compares what differs ([`slice`]). What fails is rolled back, left in `claims.passes`, and tried again later.

use std::sync::atomic::Ordering;
use std::time::Duration;

use claims_model::mode::Need;
use pgrx::pg_sys::Oid;

use super::ground::OwnTransactions;
use super::schedule::{Job, Schedule};
use crate::cell::recovery::ground::Ground;
use crate::cell::recovery::left;
use crate::cell::recovery::reconcile::{self, RecoveryTally};
use crate::cell::verify::slice;
use crate::cell::wakeup::take_post;
use crate::error::{self, Failure, Hindrance};
use crate::passes::Pass;
use crate::pg::activity;
use crate::pg::background::{self, transaction};
use crate::pg::extension;
use crate::pg::spi::{self, Connection};
use crate::service::{admission, feed};
use crate::settings;
use crate::store::catalog;
use crate::store::cell::tracked;
use crate::store::service::leases;
use crate::store::worker::{self as store, Attended};
use crate::{distribution, version};

/// How often to look whether the extension is there.
const UNTIL_INSTALLED: Duration = Duration::from_secs(5);
/// How often to look for committed leases, while there are some.
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);
/// How often to purge.
const BETWEEN_PURGES: Duration = Duration::from_secs(600);
/// Rows that one transaction purges, of each kind.
const PURGED_AT_ONCE: i64 = 10_000;
/// How often to look if nothing wakes the worker, because all posts are taken.
const WITHOUT_POST: Duration = Duration::from_secs(1);

/// Main function of a worker. Ends with its process.
pub fn run(_database: &str) {
    let post = take_post();
    let mut schedule = Schedule::default();
    let mut told = None;
    loop {
        // From here on a commit wakes it: so commits during this round are not missed.
        post.inspect(|post| post.is_idle.store(true, Ordering::Release));
        let pause = match transaction(found) {
            Readiness::Ready { owner, cells } => {
                round(owner, &cells, &mut schedule);
                schedule.next()
            }
            Readiness::Hindered(hindrance) => {
                if told.as_ref() != Some(&hindrance) {
                    error::log_waiting(&hindrance);
                    told = Some(hindrance);
                }
                Some(UNTIL_INSTALLED)
            }
            Readiness::Nothing => Some(UNTIL_INSTALLED),
        };
        activity::show(None);
        // A commit during the round has set the latch, and what waits for the service may have taken that away: the post tells, too.
        let is_called = || post.is_some_and(|post| !post.is_idle.load(Ordering::Acquire));
        if !is_called() {
            background::sleep(if post.is_none() {
                Some(pause.map_or(WITHOUT_POST, |pause| pause.min(WITHOUT_POST)))
            } else {
                pause
            });
        }
        // Called by a commit: the session that committed has a moment to settle its lease itself.
        if is_called() {
            background::sleep(Some(BETWEEN_LOOKS));
            schedule.something_committed();
        }
    }
}

enum Readiness {
    Ready { owner: Oid, cells: Vec<Attended> },
    Hindered(Hindrance),
    Nothing,
}

fn found() -> Readiness {
    match extension::installed_version(c"claims") {
        None => Readiness::Nothing,
        Some(_) if version::is_same() && !distribution::has_own_tables() => {
            Readiness::Hindered(Hindrance::DistributedTables)
        }
        Some(_) if version::is_same() => spi::connect(|connection| match store::owner(connection) {
            Some(owner) => Readiness::Ready { owner, cells: store::attended(connection) },
            None => Readiness::Nothing,
        }),
        Some(other) => Readiness::Hindered(Hindrance::OtherVersion(other)),
    }
}

/// Does what is due, each job in a transaction of its own.
fn round(owner: Oid, cells: &[Attended], schedule: &mut Schedule) {
    let source_types = match settings::verify_interval() {
        Some(_) if !cells.is_empty() => transaction(|| spi::connect(store::source_types)),
        _ => Vec::new(),
    };
    let jobs = jobs(cells, &source_types);
    schedule.retain(|job| jobs.iter().any(|(wanted, _)| wanted == job));
    for (job, service) in jobs {
        if schedule.is_due(&job) {
            do_job(owner, job, service, schedule);
        }
    }
}

/// What is to be done in this database, and through which service.
fn jobs<'a>(cells: &'a [Attended], source_types: &[String]) -> Vec<(Job, &'a str)> {
    let mut jobs = Vec::new();
    for Attended { cell_id, service } in cells {
        jobs.push((Job::Settle(*cell_id), service.as_str()));
        jobs.push((Job::Reconcile(*cell_id), service.as_str()));
        jobs.extend(source_types.iter().map(|name| (Job::Verify(*cell_id, name.clone()), service.as_str())));
    }
    jobs.push((Job::Purge, ""));
    jobs
}

fn do_job(owner: Oid, job: Job, service: &str, schedule: &mut Schedule) {
    activity::show(Some(&job.to_string()));
    let ground = OwnTransactions { owner };
    let interval = interval(&job);
    let (cell_id, source_type) = job.of();
    let pass = Pass::begin(job.kind(), cell_id, source_type);
    // Log only after the transaction has ended.
    match run_job(&ground, &job, service) {
        Ok(done) => {
            if let (Some(tally), Job::Reconcile(cell_id)) = (done.recovery, &job) {
                tally.warn(*cell_id);
            }
            schedule.done(job, if done.wholly { interval } else { BETWEEN_LOOKS });
        }
        Err(failure) => {
            let recorded = ground.here(|connection| {
                pass.failed(connection, &failure);
                Ok(())
            });
            error::log_failed_pass(&job.to_string(), &failure);
            if let Err(failure) = recorded {
                error::log_failed_pass("claims: record of a pass", &failure);
            }
            schedule.failed(job, interval);
        }
    }
}

/// The interval after a successful job. Commits wake the worker earlier.
fn interval(job: &Job) -> Duration {
    match job {
        Job::Settle(_) | Job::Reconcile(_) => settings::reconcile_interval(),
        Job::Verify(..) => settings::verify_interval().unwrap_or(BETWEEN_PURGES),
        Job::Purge => BETWEEN_PURGES,
    }
}

struct RoundEnd {
    /// Otherwise there is more to do, or will be in a moment.
    wholly: bool,
    recovery: Option<RecoveryTally>,
}

impl RoundEnd {
    fn of(wholly: bool) -> Self {
        RoundEnd { wholly, recovery: None }
    }
}

fn run_job(ground: &OwnTransactions, job: &Job, service: &str) -> Result<RoundEnd, Failure> {
    match job {
        Job::Settle(cell_id) => Ok(RoundEnd::of(left::settle(ground, *cell_id, service)?)),
        Job::Reconcile(cell_id) => {
            let tally = reconcile::pass(ground, *cell_id, service)?;
            Ok(RoundEnd { wholly: true, recovery: Some(tally) })
        }
        Job::Verify(cell_id, source_type) => {
            let correct = settings::verify_correct();
            let task = slice::SliceTask { cell_id: *cell_id, server: service, source_type, correct };
            Ok(RoundEnd::of(task.slice(ground)?))
        }
        Job::Purge => ground.here(|connection| Ok(RoundEnd::of(purge(connection)))),
    }
}

/// Drops at most `limit` rows of a kind that are older than its retention; returns how many.
type Purger = fn(&Connection, limit: i64) -> usize;

/// What is dropped when it is old, on either side, by the names that `claims.passes` counts it under. The log of passes drops its own.
const PURGED: [(&str, Purger); 3] =
    [("outcomes", purge_outcomes), ("changes", purge_changes), ("fences", purge_fences)];

/// Not where everybody may only read: what is dropped then might be missed when that is over.
fn may_drop(connection: &Connection) -> bool {
    admission::admit_everybody(&catalog::current(connection), Need::Settle).is_ok()
}

fn purge_outcomes(connection: &Connection, limit: i64) -> usize {
    if may_drop(connection) { leases::purge_outcomes(connection, settings::outcome_retention(), limit) } else { 0 }
}

fn purge_changes(connection: &Connection, limit: i64) -> usize {
    let retention = settings::change_retention().filter(|_| may_drop(connection));
    retention.map_or(0, |retention| feed::drop_old(connection, retention, limit))
}

fn purge_fences(connection: &Connection, limit: i64) -> usize {
    // Cells have databases of their own where the tables of the service are spread.
    if distribution::is_spread() { 0 } else { tracked::purge_fences(connection, settings::outcome_retention(), limit) }
}

/// Drops a portion of what is old; returns whether that was all.
fn purge(connection: &Connection) -> bool {
    let pass = Pass::begin("purge", None, None);
    let drop = |(name, purger): &(&'static str, Purger)| (*name, purger(connection, PURGED_AT_ONCE) as i64);
    let counts: Vec<_> = PURGED.iter().map(drop).collect();
    let all = counts.iter().all(|(_, count)| *count < PURGED_AT_ONCE);
    pass.succeeded(connection, &counts);
    all
}
