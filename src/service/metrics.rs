//! The part of `metrics()` that reads shared memory. sql/install/metrics.sql has the rest.

use claims_model::waiting::SeenWaiter;
use serde_json::{Value, json};

use super::counters::{self, Checked, ReadCounters, SeenDurations};
use super::{low_water, waiters};
use crate::kernel::call::Call;
use crate::kernel::{refusals, version};
use pg::clock::{Moment, monotonic};
use pg::jsonb::JsonText;
use pg::prelude::*;
use pg::process;

::pgrx::extension_sql_file!(
    "../../sql/install/service/metrics_distributed.sql",
    name = "metrics_distributed",
    requires = ["tables", "transfers", "passes"]
);
::pgrx::extension_sql_file!(
    "../../sql/install/metrics.sql",
    name = "metrics",
    requires = [
        "metrics_distributed",
        "check",
        "passes",
        "cell",
        "enforcement",
        "orphans",
        "client",
        "expiring",
        "requests",
        "modes",
        service::admin::version::version,
        service::metrics::read_counters,
        cell::client::calls::service_calls,
        service::metrics::note_check
    ]
);

type Sample = (String, JsonText, f64);

/// Returns the counters of the registered cells. Empty if the library is not preloaded, or newer than the tables: its own metrics() calls it
/// again after the update.
#[pg_extern(name = "counters", schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn read_counters()
-> Result<TableIterator<'static, (name!(name, String), name!(labels, JsonText), name!(value, f64))>, ErrorReport> {
    if version::are_tables_older() {
        return Ok(TableIterator::new(Vec::new()));
    }
    let mut samples = Call::run(of_cells);
    if let Some((described, lost)) = refusals::totals() {
        samples.push(sample("claims_audit_refusals_total", json!({}), described as f64));
        samples.push(sample("claims_audit_lost_total", json!({}), lost as f64));
    }
    if let Some(last) = counters::last_check() {
        samples.push(sample("claims_check_age_seconds", json!({}), last.at.seconds_until(Moment::now())));
        samples.push(sample("claims_check_problems", json!({}), last.problems as f64));
        samples.push(sample("claims_check_future", json!({}), last.future as f64));
    }
    Ok(TableIterator::new(samples))
}

/// Returns the samples of all registered cells.
fn of_cells(call: &Call) -> Vec<Sample> {
    let mut cells: Vec<_> = call.current_catalog().cells.keys().copied().collect();
    cells.sort_unstable();
    let mut samples = Vec::new();
    let waiters = waiters::seen();
    for cell_id in cells {
        if let Some(seen) = counters::seen(cell_id) {
            of_cell(cell_id, &seen, &mut samples);
        }
        if waiters::has_queue(call) {
            let waiting = waiters.iter().filter(|waiter| waiter.cell_id == cell_id).count();
            samples.push(sample("claims_lease_waiters", json!({ "cell": cell_id.to_string() }), waiting as f64));
        }
        if let Some(from) = low_water::published(call, cell_id) {
            let labels = json!({ "cell": cell_id.to_string() });
            samples.push(sample("claims_lease_floor_age_seconds", labels, from.seconds_until(Moment::now()).max(0.0)));
        }
    }
    samples
}

/// Returns the rows of the view claims.lease_waiters.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn list_lease_waiters() -> Result<
    TableIterator<
        'static,
        (
            name!(pid, i32),
            name!(cell_id, i64),
            name!(since, TimestampWithTimeZone),
            name!(priority, i32),
            name!(names, i32),
            name!(position, i32),
        ),
    >,
    ErrorReport,
> {
    let (now, monotonic_now) = (Moment::now(), monotonic());
    let row = |waiter: SeenWaiter| {
        let since = Moment(now.0 - (monotonic_now - waiter.since));
        let [names, position] = [waiter.names, waiter.position].map(|number| i32::try_from(number).unwrap_or(i32::MAX));
        Some((process::pid(waiter.process)?, waiter.cell_id, since.into(), waiter.priority, names, position))
    };
    Ok(TableIterator::new(waiters::seen().into_iter().filter_map(row).collect::<Vec<_>>()))
}

/// Stores the result of `check()`.
#[pg_extern(schema = "claims", stable)]
fn note_check(problems: i64, future: i64) {
    counters::checked(Checked { at: Moment::now(), problems, future });
}

fn sample(name: &str, labels: Value, value: f64) -> Sample {
    (name.to_owned(), JsonText(labels.to_string()), value)
}

fn of_cell(cell_id: i64, seen: &ReadCounters, samples: &mut Vec<Sample>) {
    let cell = cell_id.to_string();
    let totals = [
        ("claims_begins_total", seen.begins),
        ("claims_commits_total", seen.commits),
        ("claims_rollbacks_total", seen.rollbacks),
        ("claims_fences_total", seen.fences),
    ];
    samples.extend(totals.map(|(name, total)| sample(name, json!({ "cell": cell }), total as f64)));
    for (reason, total) in &seen.conflicts {
        let labels = json!({ "cell": cell, "reason": reason });
        samples.push(sample("claims_conflicts_total", labels, *total as f64));
    }
    for (reason, total) in &seen.skipped {
        let labels = json!({ "cell": cell, "reason": reason });
        samples.push(sample("claims_skipped_destroys_total", labels, *total as f64));
    }
    durations("claims_begin_duration_seconds", &cell, &seen.begin_durations, samples);
    durations("claims_settle_duration_seconds", &cell, &seen.settle_durations, samples);
    for (end, total) in &seen.waits {
        samples.push(sample("claims_lease_waits_total", json!({ "cell": cell, "end": end }), *total as f64));
    }
    durations("claims_lease_wait_duration_seconds", &cell, &seen.wait_durations, samples);
}

/// Adds a histogram in the format of OpenMetrics.
fn durations(name: &str, cell: &str, seen: &SeenDurations, samples: &mut Vec<Sample>) {
    for (bound, count) in &seen.up_to {
        let labels = json!({ "cell": cell, "le": bound });
        samples.push(sample(&format!("{name}_bucket"), labels, *count as f64));
    }
    samples.push(sample(&format!("{name}_sum"), json!({ "cell": cell }), seen.seconds));
    samples.push(sample(&format!("{name}_count"), json!({ "cell": cell }), seen.count as f64));
}
