//! The part of `metrics()` that shared memory keeps. The rest is SQL: sql/install/metrics.sql.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde_json::{Value, json};

use super::counters::{self, Seen, SeenDurations};
use super::floor;
use crate::pg::clock::Moment;
use crate::pg::jsonb::JsonText;
use crate::pg::spi;
use crate::store::catalog;

type Sample = (String, JsonText, f64);

/// What was counted, of the cells that are registered. Empty where the library is not preloaded.
#[pg_extern(name = "counters", schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn read_counters()
-> Result<TableIterator<'static, (name!(name, String), name!(labels, JsonText), name!(value, f64))>, ErrorReport> {
    let mut cells: Vec<_> = spi::connect(|connection| catalog::current(connection).cells.keys().copied().collect());
    cells.sort_unstable();
    let mut samples = Vec::new();
    for cell_id in cells {
        if let Some(seen) = counters::seen(cell_id) {
            of_cell(cell_id, &seen, &mut samples);
        }
        if let Some(from) = floor::known(cell_id) {
            let labels = json!({ "cell": cell_id.to_string() });
            samples.push(sample("claims_lease_floor_age_seconds", labels, from.seconds_until(Moment::now()).max(0.0)));
        }
    }
    if let Some((at, problems)) = counters::last_check() {
        samples.push(sample("claims_check_age_seconds", json!({}), at.seconds_until(Moment::now())));
        samples.push(sample("claims_check_problems", json!({}), problems as f64));
    }
    Ok(TableIterator::new(samples))
}

/// For `check()`: how much it found.
#[pg_extern(schema = "claims", stable)]
fn note_check(problems: i64) {
    counters::checked(problems);
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

/// A histogram, as OpenMetrics has them.
fn durations(name: &str, cell: &str, seen: &SeenDurations, samples: &mut Vec<Sample>) {
    for (bound, count) in &seen.up_to {
        let labels = json!({ "cell": cell, "le": bound });
        samples.push(sample(&format!("{name}_bucket"), labels, *count as f64));
    }
    samples.push(sample(&format!("{name}_sum"), json!({ "cell": cell }), seen.seconds));
    samples.push(sample(&format!("{name}_count"), json!({ "cell": cell }), seen.count as f64));
}
