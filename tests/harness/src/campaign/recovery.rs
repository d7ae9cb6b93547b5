//! `claims.reconcile()` in each cell: during the campaign, and at the end until no lease is outstanding.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::tally::Tally;
use super::{Field, connect_to};

const PASS: &str = "SELECT processed, committed, rolled_back, pending, orphaned \
                    FROM claims.reconcile($1, 'service', ($2::text)::interval, 20)";

/// Runs two passes concurrently, every half second, until the writers have stopped. The stale_after of a pass is two
/// seconds. If there are workers, they run the passes, and this function only ends prepared transactions.
pub fn run(field: &Field, cell: usize, mut tally: Tally, stopped: &AtomicBool) -> Tally {
    while !stopped.load(Relaxed) {
        thread::sleep(Duration::from_millis(500));
        // If the cell is down, the passes fail as well and report it.
        let _ = end_prepared(field, cell, "1 second");
        if field.has_workers {
            continue;
        }
        let passes = thread::scope(|scope| {
            let second = scope.spawn(|| pass(field, cell, "2 seconds"));
            [Ok(pass(field, cell, "2 seconds")), second.join()]
        });
        for answer in passes {
            match answer {
                Ok(Ok(counts)) => add(&mut tally, cell, counts),
                Ok(Err(error)) => note(field, &mut tally, &error),
                Err(_) => tally.problem("recovery panicked".into()),
            }
        }
    }
    tally
}

type Counts = [i64; 5];

fn pass(field: &Field, cell: usize, stale_after: &str) -> Result<Counts, postgres::Error> {
    let row = field.connect(cell, "app")?.query_one(PASS, &[&(cell as i64), &stale_after])?;
    Ok([0, 1, 2, 3, 4].map(|column| row.get(column)))
}

fn add(tally: &mut Tally, cell: usize, [_, committed, rolled_back, _, orphaned]: Counts) {
    tally.count("recovery: passes");
    tally.add("recovery: committed", committed);
    tally.add("recovery: rolled back", rolled_back);
    if orphaned > 0 {
        tally.problem(format!("cell {cell}: {orphaned} orphans"));
    }
}

fn note(field: &Field, tally: &mut Tally, error: &postgres::Error) {
    match error.code().map(|state| state.code()) {
        None => tally.count("recovery: its own cluster was down"),
        Some("08001") => tally.count("recovery: service unreachable"),
        Some(code) if code.starts_with("57P") => tally.count("recovery: its own cluster was down"),
        Some(code) if field.may_come_from_nodes(code) => tally.count(format!("recovery: nodes, {code}")),
        Some(_) => tally.problem(format!("recovery: {error:?}")),
    }
}

/// Commits or rolls back transactions that were prepared before `age`, as a transaction coordinator does.
fn end_prepared(field: &Field, cell: usize, age: &str) -> Result<()> {
    let mut client = field.connect(cell, "app")?;
    let old = "SELECT gid FROM pg_prepared_xacts WHERE prepared <= clock_timestamp() - ($1::text)::interval";
    for row in client.query(old, &[&age])? {
        let end = if rand::random_bool(0.5) { "COMMIT" } else { "ROLLBACK" };
        client.batch_execute(&format!("{end} PREPARED '{}'", row.get::<_, String>(0)))?;
    }
    Ok(())
}

/// Waits for late sessions. All clients have stopped, but servers may still run calls that clients have given up, and
/// one of them may begin a lease.
fn wait_for_the_late(field: &Field) -> Result<()> {
    let late = "SELECT count(*) FROM pg_stat_activity WHERE usename IN ('app', 'cell1', 'cell2')";
    for _ in 0..1200 {
        let mut sessions = 0;
        let cells = field.clusters[1..].iter().cloned();
        for cluster in cells.chain(field.service_nodes()?) {
            let mut client = connect_to(&cluster, "postgres").context("a cluster is gone")?;
            sessions += client.query_one(late, &[])?.get::<_, i64>(0);
        }
        if sessions == 0 {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("some sessions do not end")
}

/// Runs recovery until no lease is outstanding. All clients have stopped.
pub fn finish(field: &Field, tally: &mut Tally) -> Result<()> {
    wait_for_the_late(field)?;
    for cell in [1, 2] {
        end_prepared(field, cell, "0").context("prepared transactions after the campaign")?;
        let mut quiet = 0;
        for _ in 0..600 {
            let counts = pass(field, cell, "0").context("recovery after the campaign")?;
            add(tally, cell, counts);
            quiet = if counts[0] == 0 { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        if quiet < 2 {
            bail!("cell {cell}: recovery does not come to an end");
        }
    }
    Ok(())
}
