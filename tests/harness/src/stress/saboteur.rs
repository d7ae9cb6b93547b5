//! Cancels statements and kills backends at random moments.

use super::board::Board;
use super::{CONNECTIONS, DATABASE};
use anyhow::Result;
use postgres::NoTls;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;
use std::time::Duration;

/// What was done.
#[derive(Debug, Default)]
pub struct Sabotage {
    pub cancels: u64,
    pub kills: u64,
    /// Looks at what every backend was doing, and how many backends were seen waiting for a lock.
    pub looks: u64,
    pub waiting: i64,
    pub longest_wait_ms: f64,
}

const LOOK: &str = "SELECT count(*), coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8 * 1e3 \
                    FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'claims-harness'";

/// Disturbs until the board says that it is over.
pub fn disturb(board: &Board) -> Result<Sabotage> {
    let mut rng = StdRng::seed_from_u64(board.seed.wrapping_add(99));
    let mut admin = board.server.admin(DATABASE)?;
    let mut done = Sabotage::default();
    while !board.is_over() {
        thread::sleep(Duration::from_millis(rng.random_range(1..10)));
        let number = rng.random_range(0..CONNECTIONS);
        let target = board.target(number).as_ref().map(|t| (t.pid, t.token.clone()));
        let Some((pid, token)) = target else { continue };
        match rng.random_range(0..100) {
            0..7 => {
                admin.execute("SELECT pg_terminate_backend($1)", &[&pid])?;
                done.kills += 1;
            }
            7..27 => {
                // The way of a client library: a connection of its own that asks for the cancel.
                done.cancels += u64::from(token.cancel_query(NoTls).is_ok());
            }
            27..80 => {
                admin.execute("SELECT pg_cancel_backend($1)", &[&pid])?;
                done.cancels += 1;
            }
            _ => {
                let row = admin.query_one(LOOK, &[])?;
                done.looks += 1;
                done.waiting += row.get::<_, i64>(0);
                done.longest_wait_ms = done.longest_wait_ms.max(row.get(1));
            }
        }
    }
    Ok(done)
}
