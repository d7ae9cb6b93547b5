//! Cancels statements and kills backends at random moments.

use super::CONNECTIONS;
use super::board::Board;
use super::hand::Hand;
use anyhow::{Context, Result};
use postgres::NoTls;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;
use std::time::Duration;

/// The numbers of disturbances.
#[derive(Debug, Default)]
pub struct Sabotage {
    pub cancels: u64,
    pub kills: u64,
    /// How often the backends' activity was read, and how many backends were seen waiting for a lock.
    pub readings: u64,
    pub waiting: i64,
    pub longest_wait_ms: f64,
}

const LOOK: &str = "SELECT count(*), coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8 * 1e3 \
                    FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'claims-harness'";

/// Disturbs until the run ends.
pub fn disturb(board: &Board) -> Result<Sabotage> {
    let mut rng = StdRng::seed_from_u64(board.seed.wrapping_add(99));
    let mut hands: Vec<_> = board.service.nodes().iter().map(|n| Hand::new(n, &board.service.database)).collect();
    let mut done = Sabotage::default();
    while !board.is_over() {
        thread::sleep(Duration::from_millis(rng.random_range(1..10)));
        let number = rng.random_range(0..CONNECTIONS);
        let target = board.target(number).as_ref().map(|t| (t.node, t.pid, t.token.clone()));
        let Some((node, pid, token)) = target else { continue };
        let hand = &mut hands[node];
        let answered = match rng.random_range(0..100) {
            0..7 => {
                done.kills += 1;
                hand.run(|c| c.execute("SELECT pg_terminate_backend($1)", &[&pid])).is_some()
            }
            7..27 => {
                // Cancels like a client library: over a connection of its own.
                done.cancels += u64::from(token.cancel_query(NoTls).is_ok());
                true
            }
            27..80 => {
                done.cancels += 1;
                hand.run(|c| c.execute("SELECT pg_cancel_backend($1)", &[&pid])).is_some()
            }
            _ => match hand.run(|c| c.query_one(LOOK, &[])) {
                Some(row) => {
                    done.readings += 1;
                    done.waiting += row.get::<_, i64>(0);
                    done.longest_wait_ms = done.longest_wait_ms.max(row.get(1));
                    true
                }
                None => false,
            },
        };
        // A superuser may be without an answer only if nodes crash.
        (answered || board.service.is_distributed()).then_some(()).context("the saboteur got no answer")?;
    }
    Ok(done)
}
