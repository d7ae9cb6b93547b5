//! `reconcile`: one pass of recovery.
//!
//! The order of the writes makes a crash at any point harmless: the service settles a lease first, then the tracked row is
//! deleted. A fence is committed by the end of the pass that wrote it, and only the next pass rolls a lease back because of it.
//! Both rules hold whether the pass is one transaction or each of its steps is one ([`Transactions`]).

use std::collections::HashSet;
use std::time::Duration;

use claims_model::judge::Verdict;
use uuid::Uuid;

use super::errors::{warn_of_failures, warn_of_orphans};
use super::judge::{JudgedLease, judge};
use super::orphans;
use crate::cell::client::settlement::Settled;
use crate::cell::client::{Service, unreachable};
use crate::cell::transactions::Transactions;
use crate::cell::{epoch, tracked};
use crate::kernel::error::ClaimsError;
use crate::kernel::pass_log::Pass;
use crate::kernel::{access, arguments, catalog, settings};
use pg::prelude::*;
use pg::spi;
use pg::xact;

/// The page size of the background worker.
const WORKERS_PAGE: i64 = 1000;

/// Timeout of a call to the service, after which the pass fails.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of leases that one pass lists. The next pass lists only what this one has not settled, so it makes progress.
const MAX_LISTED: i64 = 1_000_000;

/// Maximum number of fences that one pass deletes.
const PURGE_BATCH: i64 = 1000;

/// The counts of a pass.
#[derive(Default)]
pub struct RecoveryTally {
    processed: i64,
    committed: i64,
    rolled_back: i64,
    pending: i64,
    orphans: Vec<Uuid>,
    /// The orphans that the service does not know.
    unknown: Vec<Uuid>,
    /// Leases that the service could not settle, with its messages.
    failures: Vec<(Uuid, String)>,
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn reconcile(
    cell_id: Option<i64>,
    service: Option<String>,
    stale_after: default!(
        Option<Interval>,
        "COALESCE(NULLIF(pg_catalog.current_setting('claims.stale_after', true), ''), '10 minutes')::pg_catalog.interval"
    ),
    max_results: default!(Option<i32>, 100),
) -> Result<
    TableIterator<
        'static,
        (
            name!(processed, i64),
            name!(committed, i64),
            name!(rolled_back, i64),
            name!(pending, i64),
            name!(orphaned, i64),
        ),
    >,
    ErrorReport,
> {
    xact::must_be_writable(c"claims.reconcile()");
    let (cell_id, tally) = spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let server = arguments::required(service, "service")?;
        let stale_after = arguments::span(arguments::required(stale_after, "stale_after")?, "stale_after")?;
        let page = arguments::page_size(arguments::required(max_results, "max_results")?)? as i64;
        Ok::<_, ClaimsError>((cell_id, run_and_log(connection, cell_id, &server, stale_after, page)?))
    })?;
    // Raising a WARNING checks for interrupts, which can leave this function by an error: SPI must be closed before.
    tally.warn(cell_id);
    let RecoveryTally { processed, committed, rolled_back, pending, orphans, .. } = tally;
    Ok(TableIterator::once((processed, committed, rolled_back, pending, orphans.len() as i64)))
}

/// Runs one pass of the background worker. The caller must have checked that it may act for the cell.
pub fn pass<G: Transactions>(transactions: &G, cell_id: i64, server: &str) -> Result<RecoveryTally, G::Error> {
    let stale_after = Interval::from_seconds(settings::stale_after().as_secs_f64());
    run_and_log(transactions, cell_id, server, stale_after, WORKERS_PAGE)
}

impl RecoveryTally {
    /// Raises WARNINGs for failures and orphans.
    pub fn warn(&self, cell_id: i64) {
        if !self.orphans.is_empty() {
            warn_of_orphans(cell_id, &self.orphans);
        }
        warn_of_failures(cell_id, &self.failures);
    }

    fn counts(&self) -> [(&'static str, i64); 5] {
        [
            ("processed", self.processed),
            ("committed", self.committed),
            ("rolled_back", self.rolled_back),
            ("pending", self.pending),
            ("orphaned", self.orphans.len() as i64),
        ]
    }
}

/// Runs a pass through a foreign server, and records it in claims.passes.
fn run_and_log<G: Transactions>(
    transactions: &G,
    cell_id: i64,
    server: &str,
    stale_after: Interval,
    page: i64,
) -> Result<RecoveryTally, G::Error> {
    let log = Pass::begin("reconcile", Some(cell_id), None, Some(server));
    let service = &transactions.in_database(|connection| Service::resolved(connection, server, cell_id))?;
    epoch::act_as(transactions, service)?;
    let tally = Recovery { transactions, service, stale_after, page }.run()?;
    transactions.in_database(|connection| {
        tracked::purge_fences(connection, settings::outcome_retention(), PURGE_BATCH);
        orphans::replace(connection, cell_id, server, &tally.orphans, &tally.unknown);
        log.succeeded(connection, &tally.counts());
        Ok(())
    })?;
    Ok(tally)
}

struct Recovery<'g, G> {
    transactions: &'g G,
    service: &'g Service<'g>,
    stale_after: Interval,
    page: i64,
}

impl<G: Transactions> Recovery<'_, G> {
    fn run(&self) -> Result<RecoveryTally, G::Error> {
        let mut tally = RecoveryTally::default();
        // Leases that this pass has listed and not seen settled.
        let mut open = HashSet::new();
        let mut cursor = None;
        loop {
            let after = cursor.take();
            let page = self.ask(|| self.service.list_leases(after, self.page, self.stale_after, ANSWER_TIMEOUT))?;
            let candidates: Vec<_> = page.leases.into_iter().map(JudgedLease::from).collect();
            // A page may be shorter than requested if payloads are long, so only an empty one is the end. MAX_LISTED stops a service
            // that lists without end.
            if candidates.is_empty() || tally.processed >= MAX_LISTED {
                break;
            }
            self.recover(&candidates, &mut tally, &mut open)?;
            cursor = page.last_cursor;
        }
        tally.pending = open.len() as i64;
        self.find_orphans(&mut tally, &open)?;
        Ok(tally)
    }

    fn ask<T>(&self, call: impl FnOnce() -> Result<T, ClaimsError>) -> Result<T, G::Error> {
        self.transactions.at_service(|| call().map_err(unreachable))
    }

    fn forget(&self, leases: &[Uuid]) -> Result<(), G::Error> {
        if leases.is_empty() {
            return Ok(());
        }
        self.transactions.in_database(|connection| {
            tracked::forget(connection, leases, Some(&[self.service.cell_id]));
            Ok(())
        })
    }

    /// Judges a page of leases, has the service settle them accordingly, and forgets those that the service has committed.
    fn recover(
        &self,
        page: &[JudgedLease],
        tally: &mut RecoveryTally,
        open: &mut HashSet<Uuid>,
    ) -> Result<(), G::Error> {
        let judged = self.transactions.in_database(|connection| Ok(judge(connection, page)))?;
        let with = |wanted: Verdict| -> Vec<Uuid> {
            judged.iter().filter(|(_, verdict)| *verdict == wanted).map(|(lease, _)| *lease).collect()
        };
        let (commits, rollbacks) = (with(Verdict::Commit), with(Verdict::Rollback));
        tally.processed += page.len() as i64;
        open.extend(judged.iter().map(|(lease, _)| *lease));
        let mut committed = Vec::new();
        for Settled { lease, outcome, by_this_call } in self.settle(&commits, &rollbacks, tally)? {
            match outcome.as_deref() {
                Some("committed") => {
                    tally.committed += i64::from(by_this_call);
                    committed.push(lease);
                }
                Some("rolled_back" | "fenced") => tally.rolled_back += i64::from(by_this_call),
                // Busy or damaged: the lease stays in `open`, and the next pass tries it again.
                // A lease without outcome is not outstanding any more: find_orphans asks for its outcome.
                Some(_) => continue,
                None => {}
            }
            open.remove(&lease);
        }
        // Only now has the service confirmed the commits.
        self.forget(&committed)
    }

    /// Has the service settle leases: all in one call, or each in a call of its own if that call fails.
    fn settle(
        &self,
        commits: &[Uuid],
        rollbacks: &[Uuid],
        tally: &mut RecoveryTally,
    ) -> Result<Vec<Settled>, G::Error> {
        if commits.is_empty() && rollbacks.is_empty() {
            return Ok(Vec::new());
        }
        if let Ok(settled) = self.try_settle(commits, rollbacks)? {
            return Ok(settled);
        }
        let mut settled = Vec::new();
        let alone = commits.iter().map(|lease| (lease, true)).chain(rollbacks.iter().map(|lease| (lease, false)));
        for (lease, commit) in alone {
            let list = std::slice::from_ref(lease);
            let (commits, rollbacks) = if commit { (list, [].as_slice()) } else { ([].as_slice(), list) };
            match self.try_settle(commits, rollbacks)? {
                Ok(answer) => settled.extend(answer),
                Err(message) => tally.failures.push((*lease, message)),
            }
        }
        Ok(settled)
    }

    /// Calls the service once. The inner error is the service's message.
    fn try_settle(&self, commits: &[Uuid], rollbacks: &[Uuid]) -> Result<Result<Vec<Settled>, String>, G::Error> {
        self.ask(|| match self.service.settle_leases(None, (commits, rollbacks), ANSWER_TIMEOUT) {
            Ok(settled) => Ok(Ok(settled)),
            Err(error) => error.refusal().map(|refusal| Err(refusal.message.clone())).ok_or(error),
        })
    }

    /// Asks for the outcomes of leases that are tracked here for the service and not outstanding there. Forgets those that are committed.
    /// Those that were rolled back or are unknown are orphans, and stay tracked.
    fn find_orphans(&self, tally: &mut RecoveryTally, open: &HashSet<Uuid>) -> Result<(), G::Error> {
        let mut after = Uuid::nil();
        loop {
            let tracked = self.transactions.in_database(|connection| {
                Ok(tracked::tracked_after(connection, self.service.cell_id, self.service.name(), after, self.page))
            })?;
            let closed: Vec<_> =
                tracked.iter().map(|listed| listed.uuid).filter(|lease| !open.contains(lease)).collect();
            let outcomes = self.ask(|| self.service.lease_outcomes(&closed, ANSWER_TIMEOUT))?;
            let of = |wanted: &[Option<&str>]| -> Vec<Uuid> {
                let wanted = outcomes.iter().filter(|(_, outcome)| wanted.contains(&outcome.as_deref()));
                wanted.map(|(lease, _)| *lease).collect()
            };
            self.forget(&of(&[Some("committed")]))?;
            // Another service may know a lease that this one does not.
            let own: HashSet<_> = tracked.iter().filter(|listed| listed.is_alone).map(|listed| listed.uuid).collect();
            let unknown = of(&[None]).into_iter().filter(|lease| own.contains(lease));
            tally.unknown.extend(unknown.clone());
            tally.orphans.extend(of(&[Some("rolled_back")]).into_iter().chain(unknown));
            match tracked.last() {
                Some(last) if tracked.len() as i64 == self.page => after = last.uuid,
                _ => return Ok(()),
            }
        }
    }
}
