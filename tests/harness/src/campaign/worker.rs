//! The background workers of the cells: their results after the campaign, and their end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use postgres::Client;

use super::Field;
use super::tally::Tally;

/// How long the workers may take on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// The number of successful passes, of their rollbacks, and of passes that did not reach the service.
const PASSES: &str = "SELECT count(*) FILTER (WHERE kind = 'reconcile' AND sqlstate IS NULL),
           coalesce(sum((counts ->> 'rolled_back')::bigint) FILTER (WHERE kind = 'reconcile'), 0)::bigint,
           count(*) FILTER (WHERE sqlstate = '08001')
      FROM claims.passes";

const ORPHANS: &str =
    "SELECT coalesce(sum((counts ->> 'orphaned')::bigint), 0)::bigint FROM claims.passes WHERE kind = 'reconcile'";

/// Failures for which the campaign is not the reason.
const ODD: &str = "SELECT kind, sqlstate, message FROM claims.passes
     WHERE sqlstate <> '08001' AND sqlstate !~ '^57P' AND sqlstate IS NOT NULL";

/// Whether no lease is left that a worker must settle.
const SETTLED: &str =
    "SELECT count(*) = 0 FROM claims.cells_outstanding_leases WHERE created_at < now() - interval '3 seconds'";

/// Counts the passes of both cells' workers so far.
pub fn count_passes(field: &Field, tally: &Tally) -> Result<()> {
    let mut counts = [0; 3];
    for cell in [1, 2] {
        let row = field.connect(cell, "postgres")?.query_one(PASSES, &[])?;
        counts.iter_mut().enumerate().for_each(|(column, count)| *count += row.get::<_, i64>(column));
    }
    for (what, count) in ["worker: passes", "worker: rolled back", "worker: service unreachable"].iter().zip(counts) {
        tally.set(what, count);
    }
    Ok(())
}

/// Waits until the workers have settled the committed leases, and ends them.
pub fn finish(field: &Field, tally: &mut Tally) -> Result<()> {
    count_passes(field, tally)?;
    for cell in [1, 2] {
        let mut client = field.connect(cell, "postgres").context("a cell is gone")?;
        until(&mut client, SETTLED, "a worker leaves what has committed")?;
        let orphans: i64 = client.query_one(ORPHANS, &[])?.get(0);
        if orphans > 0 {
            tally.problem(format!("cell {cell}: the worker met {orphans} orphans"));
        }
        for row in client.query(ODD, &[])? {
            let [kind, state, message] = [0, 1, 2].map(|column| row.get::<_, String>(column));
            // A call that waits for a node of the service may be canceled.
            let is_late = field.nodes.is_some() && state == "57014";
            if is_late || field.may_come_from_nodes(&state) || field.has_met_old_catalogs(&state, &message) {
                tally.count(format!("worker: nodes, {state}"));
                continue;
            }
            tally.problem(format!("cell {cell}: the worker's {kind} failed: {state} {message}"));
        }
        client.batch_execute("ALTER SYSTEM SET claims.databases = ''")?;
        client.batch_execute("SELECT pg_reload_conf()")?;
        until(
            &mut client,
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'claims worker'",
            "a worker does not end",
        )?;
    }
    Ok(())
}

fn until(client: &mut Client, condition: &str, or_else: &str) -> Result<()> {
    let begun = Instant::now();
    while !client.query_one(condition, &[])?.get::<_, bool>(0) {
        if begun.elapsed() > WAIT_LIMIT {
            bail!("{or_else}");
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
