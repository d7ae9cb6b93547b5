//! The background workers of the cells: their results after the campaign, and their end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use postgres::Client;

use super::Field;
use super::tally::Tally;

/// How long the workers may take on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// The number of successful passes, their rollbacks and orphans, and the number of passes that did not reach the
/// service.
const PASSES: &str = "SELECT count(*) FILTER (WHERE kind = 'reconcile' AND sqlstate IS NULL),
           coalesce(sum((counts ->> 'rolled_back')::bigint) FILTER (WHERE kind = 'reconcile'), 0)::bigint,
           coalesce(sum((counts ->> 'orphaned')::bigint) FILTER (WHERE kind = 'reconcile'), 0)::bigint,
           count(*) FILTER (WHERE sqlstate = '08001')
      FROM claims.passes";

/// Failures for which the campaign is not the reason.
const ODD: &str = "SELECT kind, sqlstate, message FROM claims.passes
     WHERE sqlstate <> '08001' AND sqlstate !~ '^57P' AND sqlstate IS NOT NULL";

/// Whether no lease is left that a worker must settle.
const SETTLED: &str =
    "SELECT count(*) = 0 FROM claims.cells_outstanding_leases WHERE created_at < now() - interval '3 seconds'";

/// Waits until the workers have settled the committed leases, counts their passes, and ends them.
pub fn finish(field: &Field, tally: &mut Tally) -> Result<()> {
    for cell in [1, 2] {
        let mut client = field.connect(cell, "postgres").context("a cell is gone")?;
        until(&mut client, SETTLED, "a worker leaves what has committed")?;
        let row = client.query_one(PASSES, &[])?;
        tally.add("worker: passes", row.get(0));
        tally.add("worker: rolled back", row.get(1));
        tally.add("worker: service unreachable", row.get(3));
        let orphans: i64 = row.get(2);
        if orphans > 0 {
            tally.problem(format!("cell {cell}: the worker met {orphans} orphans"));
        }
        for row in client.query(ODD, &[])? {
            let [kind, state, message] = [0, 1, 2].map(|column| row.get::<_, String>(column));
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
