//! Purges rows that are older than their retention.

use claims_model::mode::Need;

use crate::cell::capture::observation_counts;
use crate::cell::claimed::unique_tables;
use crate::cell::tracked;
use crate::holds::requests::statements as requests;
use crate::kernel::call::Call;
use crate::kernel::pass_log::Pass;
use crate::kernel::{admin_log, settings};
use crate::service::audit::audit_log;
use crate::service::claims::LEASE_TABLES;
use crate::service::names::quarantine;
use crate::service::transfer::transfers;
use crate::service::{admission, feed};
use pg::clock::Moment;

/// The number of rows of each kind that one transaction purges.
const PURGED_AT_ONCE: i64 = 10_000;

/// A function that deletes at most `limit` rows of a kind that are older than its retention, and returns their number.
type Purger = fn(&Call, limit: i64) -> usize;

/// The purged kinds of rows, by the names of their counts in `claims.passes`. The log of passes purges itself.
const PURGED: [(&str, Purger); 10] = [
    ("outcomes", purge_outcomes),
    ("changes", purge_changes),
    ("fences", purge_fences),
    ("requests", purge_requests),
    ("admin_log", purge_admin_log),
    ("audit", purge_audit),
    ("transfer_subjects", purge_transfer_subjects),
    ("observations", purge_observations),
    ("uniques", purge_uniques),
    ("quarantine", purge_quarantine),
];

/// Purges a portion of the old rows. Returns whether none is left.
pub fn purge(call: &Call) -> bool {
    let pass = Pass::begin("purge", None, None, None);
    let drop = |(name, purger): &(&'static str, Purger)| (*name, purger(call, PURGED_AT_ONCE) as i64);
    let counts: Vec<_> = PURGED.iter().map(drop).collect();
    let all = counts.iter().all(|(_, count)| *count < PURGED_AT_ONCE);
    pass.succeeded(call.connection, &counts);
    all
}

/// Returns whether rows may be purged. In read-only mode they may not, because they might be missed when that mode
/// ends.
fn may_purge(call: &Call) -> bool {
    admission::admit_everybody(&call.current_catalog(), Need::Settle).is_ok()
}

fn purge_outcomes(call: &Call, limit: i64) -> usize {
    if may_purge(call) {
        LEASE_TABLES.of(call).purge_outcomes(call.connection, settings::outcome_retention(), limit)
    } else {
        0
    }
}

fn purge_changes(call: &Call, limit: i64) -> usize {
    let retention = settings::change_retention().filter(|_| may_purge(call));
    retention.map_or(0, |retention| feed::drop_old(call, retention, limit))
}

fn purge_fences(call: &Call, limit: i64) -> usize {
    tracked::purge_fences(call.connection, settings::outcome_retention(), limit)
}

/// Requests are not for distributed tables.
fn purge_requests(call: &Call, limit: i64) -> usize {
    let retention = settings::request_retention().filter(|_| call.tables.require_here().is_ok());
    let Some(before) = retention.map(|retention| Moment::now().before(retention)) else { return 0 };
    requests::purge_old_lost_holds(call.connection, before, limit);
    requests::purge_old(call.connection, before, limit)
}

fn purge_admin_log(call: &Call, limit: i64) -> usize {
    let retention = settings::admin_log_retention().filter(|_| may_purge(call));
    retention.map_or(0, |retention| admin_log::purge(call.connection, Moment::now().before(retention), limit))
}

fn purge_audit(call: &Call, limit: i64) -> usize {
    let retention = settings::audit_retention().filter(|_| may_purge(call));
    retention.map_or(0, |retention| audit_log::purge(call.connection, Moment::now().before(retention), limit))
}

fn purge_quarantine(call: &Call, limit: i64) -> usize {
    if may_purge(call) { quarantine::purge(call, limit) } else { 0 }
}

/// Where tables are distributed there is no cell that observes.
fn purge_observations(call: &Call, limit: i64) -> usize {
    let retention = settings::observation_retention().filter(|_| call.tables.require_here().is_ok());
    retention.map_or(0, |retention| observation_counts::purge(call.connection, Moment::now().before(retention), limit))
}

/// Claims of tables that were dropped, detached or truncated. Where tables are distributed there are none.
fn purge_uniques(call: &Call, limit: i64) -> usize {
    let may_purge = call.tables.require_here().is_ok() && may_purge(call);
    let purged = if may_purge { unique_tables::purge(call.connection, limit) } else { None };
    purged.and_then(|purged| usize::try_from(purged).ok()).unwrap_or_default()
}

/// Distributed tables keep the subjects: there a transfer is a rare thing, and its subjects are on every node.
fn purge_transfer_subjects(call: &Call, limit: i64) -> usize {
    let may_purge = |_: &i64| call.tables.require_here().is_ok() && may_purge(call);
    let retention = settings::transfer_retention().filter(may_purge);
    retention.map_or(0, |retention| transfers::purge_subjects(call.connection, Moment::now().before(retention), limit))
}
