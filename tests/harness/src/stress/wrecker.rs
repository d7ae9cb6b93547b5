//! Crashes nodes, and backends that work there for sessions of other nodes. Then it makes Citus finish transactions
//! that remained between the two phases of a commit. It also has a thief, who steals a claim by hand, so that the judge
//! has something to notice.

use super::board::Board;
use super::hand::Hand;
use anyhow::{Result, anyhow, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use std::thread;
use std::time::{Duration, Instant};

/// The numbers of crashes.
#[derive(Debug, Default)]
pub struct Wreckage {
    pub crashes: u64,
    /// Backends that worked for other nodes, killed or canceled.
    pub helpers: u64,
}

/// The time within which a node must come back.
const WAIT_LIMIT: Duration = Duration::from_secs(120);
/// The time after which a session has noticed that its commit failed on another node.
const ECHO: Duration = Duration::from_millis(300);

/// The node's backends that work for others, or did so a moment ago. They may be between the two phases.
const HELPERS: &str = "FROM pg_stat_activity WHERE application_name LIKE 'citus_internal%' AND pid <> pg_backend_pid()
                         AND (state <> 'idle' OR state_change > clock_timestamp() - interval '50 ms')";

/// Crashes until the run ends.
pub fn wreck(board: &Board) -> Result<Wreckage> {
    let mut done = Wreckage::default();
    if !board.service.is_distributed() {
        return Ok(done);
    }
    let mut rng = StdRng::seed_from_u64(board.seed.wrapping_add(7));
    let mut hands = hands(board);
    while !board.is_over() {
        pause(board, Duration::from_millis(rng.random_range(300..2500)));
        let node = board.service.any(&mut rng);
        board.darken();
        match rng.random_range(0..10) {
            chance if chance < 4 || done.crashes == 0 => {
                crash(&mut hands[node])?;
                done.crashes += 1;
            }
            chance => {
                let end = if chance < 8 { "pg_terminate_backend" } else { "pg_cancel_backend" };
                let text = format!("SELECT count({end}(pid)) {HELPERS}");
                let ended = hands[node].run(|c| c.query_one(&text, &[])?.try_get::<_, i64>(0));
                done.helpers += ended.unwrap_or(0) as u64;
            }
        }
        recover(board)?;
        board.lighten();
    }
    Ok(done)
}

fn hands(board: &Board) -> Vec<Hand<'_>> {
    board.service.nodes().iter().map(|node| Hand::new(node, &board.service.database)).collect()
}

fn pause(board: &Board, time: Duration) {
    let until = Instant::now() + time;
    while !board.is_over() && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a process without which the server cannot continue. The server ends all processes and recovers.
fn crash(hand: &mut Hand) -> Result<()> {
    let text = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    let Some(pid) = hand.run(|c| c.query_one(text, &[])?.try_get::<_, i32>(0)) else { bail!("a node is not there") };
    let pid = Pid::from_raw(pid).ok_or_else(|| anyhow!("no process {pid}"))?;
    Ok(kill_process(pid, Signal::KILL)?)
}

/// Waits until all nodes are up, and no transaction is between the two phases. A transaction that a session was ending
/// at the first attempt is found at the second.
pub fn recover(board: &Board) -> Result<()> {
    if !board.service.is_distributed() {
        return Ok(());
    }
    for _ in 0..2 {
        thread::sleep(ECHO);
        for hand in &mut hands(board) {
            let begun = Instant::now();
            while hand.run(|c| c.execute("SELECT recover_prepared_transactions()", &[])).is_none() {
                if begun.elapsed() > WAIT_LIMIT {
                    bail!("a node does not come back");
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
    Ok(())
}

/// Steals an ACTIVE claim without the functions. Returns its bucket.
pub fn steal(board: &Board) -> Result<String> {
    let mut hand = Hand::new(&board.service.nodes()[0], &board.service.database);
    let begun = Instant::now();
    while begun.elapsed() < WAIT_LIMIT {
        let stolen = hand.run(|c| {
            let row = c.query_opt("SELECT bucket_value FROM claims.claims WHERE status = 1 LIMIT 1", &[])?;
            let Some(bucket) = row.map(|row| row.get::<_, String>(0)) else { return Ok(None) };
            let gone = c.execute("DELETE FROM claims.claims WHERE bucket_value = $1 AND status = 1", &[&bucket])?;
            Ok((gone == 1).then_some(bucket))
        });
        if let Some(Some(bucket)) = stolen {
            return Ok(bucket);
        }
        thread::sleep(Duration::from_millis(20));
    }
    bail!("there is nothing to be stolen")
}
