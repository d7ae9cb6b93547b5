//! The part of `metrics()` that reads shared memory. sql/install/metrics.sql has the rest.

use serde_json::{Value, json};

use super::counters::{self, Checked, Seen, SeenDurations};
use super::low_water;
use crate::pg::clock::Moment;
use crate::pg::jsonb::JsonText;
use crate::pg::prelude::*;
use crate::pg::spi;
use crate::store::catalog;
use crate::tables;

type Sample = (String, JsonText, f64);

/// Returns the counters of the registered cells. Empty if the library is not preloaded.
#[pg_extern(name = "counters", schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn read_counters()
-> Result<TableIterator<'static, (name!(name, String), name!(labels, JsonText), name!(value, f64))>, ErrorReport> {
    let mut cells: Vec<_> = spi::connect(|connection| catalog::current(connection).cells.keys().copied().collect());
    let tables = tables::at_entry();
    cells.sort_unstable();
    let mut samples = Vec::new();
    for cell_id in cells {
        if let Some(seen) = counters::seen(cell_id) {
            of_cell(cell_id, &seen, &mut samples);
        }
        if let Some(from) = low_water::published(tables, cell_id) {
            let labels = json!({ "cell": cell_id.to_string() });
            samples.push(sample("claims_lease_floor_age_seconds", labels, from.seconds_until(Moment::now()).max(0.0)));
        }
    }
    if let Some(last) = counters::last_check() {
        samples.push(sample("claims_check_age_seconds", json!({}), last.at.seconds_until(Moment::now())));
        samples.push(sample("claims_check_problems", json!({}), last.problems as f64));
        samples.push(sample("claims_check_future", json!({}), last.future as f64));
    }
    Ok(TableIterator::new(samples))
}

/// Stores the result of `check()`.
#[pg_extern(schema = "claims", stable)]
fn note_check(problems: i64, future: i64) {
    counters::checked(Checked { at: Moment::now(), problems, future });
}

fn sample(name: &str, labels: Value, value: f64) -> Sample {
    (name.to_owned(), JsonText(labels.to_string()), value)
}

fn of_cell(cell_id: i64, seen: &Seen, samples: &mut Vec<Sample>) {
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
    durations("claims_begin_duration_seconds", &cell, &seen.begin_durations, samples);
    durations("claims_settle_duration_seconds", &cell, &seen.settle_durations, samples);
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
