//! Purges rows that are older than their retention.

use claims_model::mode::Need;

use crate::service::{admission, feed};
use crate::settings;
use crate::store::cell::{observations, tracked};
use crate::store::holds::requests;
use crate::store::pass_log::Pass;
use crate::store::{admin_log, catalog};
use crate::tables::Tables;
use crate::tables::shared::{audit, transfers};
use pg::clock::Moment;
use pg::spi::Connection;

/// The number of rows of each kind that one transaction purges.
const PURGED_AT_ONCE: i64 = 10_000;

/// A function that deletes at most `limit` rows of a kind that are older than its retention, and returns their number.
type Purger = fn(&dyn Tables, &Connection, limit: i64) -> usize;

/// The purged kinds of rows, by the names of their counts in `claims.passes`. The log of passes purges itself.
const PURGED: [(&str, Purger); 8] = [
    ("outcomes", purge_outcomes),
    ("changes", purge_changes),
    ("fences", purge_fences),
    ("requests", purge_requests),
    ("admin_log", purge_admin_log),
    ("audit", purge_audit),
    ("transfer_subjects", purge_transfer_subjects),
    ("observations", purge_observations),
];

/// Purges a portion of the old rows. Returns whether it was everything.
pub fn purge(tables: &dyn Tables, connection: &Connection) -> bool {
    let pass = Pass::begin("purge", None, None, None);
    let drop = |(name, purger): &(&'static str, Purger)| (*name, purger(tables, connection, PURGED_AT_ONCE) as i64);
    let counts: Vec<_> = PURGED.iter().map(drop).collect();
    let all = counts.iter().all(|(_, count)| *count < PURGED_AT_ONCE);
    pass.succeeded(connection, &counts);
    all
}

/// Returns whether rows may be purged. In read-only mode they may not, because they might be missed when that mode
/// ends.
fn may_purge(connection: &Connection) -> bool {
    admission::admit_everybody(&catalog::current(connection), Need::Settle).is_ok()
}

fn purge_outcomes(tables: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    if may_purge(connection) { tables.purge_outcomes(connection, settings::outcome_retention(), limit) } else { 0 }
}

fn purge_changes(tables: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    let retention = settings::change_retention().filter(|_| may_purge(connection));
    retention.map_or(0, |retention| feed::drop_old(tables, connection, retention, limit))
}

fn purge_fences(_: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    tracked::purge_fences(connection, settings::outcome_retention(), limit)
}

/// Requests are not for distributed tables.
fn purge_requests(tables: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    let retention = settings::request_retention().filter(|_| tables.require_here().is_ok());
    retention.map_or(0, |retention| requests::purge_old(connection, Moment::now().before(retention), limit))
}

fn purge_admin_log(_: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    let retention = settings::admin_log_retention().filter(|_| may_purge(connection));
    retention.map_or(0, |retention| admin_log::purge(connection, Moment::now().before(retention), limit))
}

fn purge_audit(_: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    let retention = settings::audit_retention().filter(|_| may_purge(connection));
    retention.map_or(0, |retention| audit::purge(connection, Moment::now().before(retention), limit))
}

/// Where tables are distributed there is no cell that observes.
fn purge_observations(tables: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    let retention = settings::observation_retention().filter(|_| tables.require_here().is_ok());
    retention.map_or(0, |retention| observations::purge(connection, Moment::now().before(retention), limit))
}

/// Distributed tables keep the subjects: there a transfer is a rare thing, and its subjects are on every node.
fn purge_transfer_subjects(tables: &dyn Tables, connection: &Connection, limit: i64) -> usize {
    let may_purge = |_: &i64| tables.require_here().is_ok() && may_purge(connection);
    let retention = settings::transfer_retention().filter(may_purge);
    retention.map_or(0, |retention| transfers::purge_subjects(connection, Moment::now().before(retention), limit))
}
