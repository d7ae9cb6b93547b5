//! Records refused begins and denied calls, which sessions describe in shared memory, in the audit log.

use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::own_transactions::OwnTransactions;
use crate::cell::transactions::Transactions;
use crate::error;
use crate::refusals;
use crate::service::audit;

/// Descriptions wait for others for so long, unless half of the room is used up.
const INTERVAL: Duration = Duration::from_millis(100);
const MUCH: f64 = 0.5;
/// The number of descriptions that one transaction records.
const AT_ONCE: usize = 1000;

pub struct Recorder {
    last: Instant,
}

impl Recorder {
    /// Makes this process the one that records the refusals of its database.
    pub fn new() -> Self {
        refusals::become_reader();
        Recorder { last: Instant::now() }
    }

    /// Records descriptions, if it is time to. Returns how long to wait before the next call, if there are more.
    pub fn record(&mut self, owner: Oid) -> Option<Duration> {
        let fill = refusals::fill();
        if fill == 0.0 {
            return None;
        }
        let elapsed = self.last.elapsed();
        if elapsed < INTERVAL && fill < MUCH {
            return Some(INTERVAL - elapsed);
        }
        self.last = Instant::now();
        let fetched = refusals::fetch(AT_ONCE);
        let (descriptions, lost_before) = (fetched.descriptions.len() as u64, fetched.lost);
        let recorded = OwnTransactions { owner }.in_database(|connection| {
            audit::record_refusals(connection, fetched);
            Ok(())
        });
        if let Err(failure) = recorded {
            refusals::are_lost(descriptions, lost_before);
            error::log_failed_pass("claims: audit", &failure);
        }
        (refusals::fill() > 0.0).then_some(if refusals::fill() < MUCH { INTERVAL } else { Duration::ZERO })
    }
}
