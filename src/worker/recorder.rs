//! Records refused begins and denied calls, which sessions describe in shared memory, in the audit log.

use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::own_transactions::OwnTransactions;
use crate::cell::transactions::Transactions;
use crate::kernel::refusals;
use crate::service::audit;
use crate::worker::errors::log_failed_pass;

/// Descriptions wait for others for so long, unless half of the room is used up.
const INTERVAL: Duration = Duration::from_millis(100);
const MUCH: f64 = 0.5;
/// The shortest time between two rows that tell of lost descriptions.
const LOST_INTERVAL: Duration = Duration::from_secs(5);
/// The number of descriptions that one transaction records.
const AT_ONCE: usize = 1000;

pub struct Recorder {
    last: Instant,
    /// When the last row told of lost descriptions.
    told_lost: Option<Instant>,
}

impl Recorder {
    /// Makes this process the one that records the refusals of its database.
    pub fn new() -> Self {
        refusals::become_reader();
        Recorder { last: Instant::now(), told_lost: None }
    }

    /// Records descriptions, if it is time to. Returns how long to wait before the next call, if there are more.
    pub fn record(&mut self, owner: Oid) -> Option<Duration> {
        let fill = refusals::fill();
        let until_lost = self.until_lost();
        let tells_lost = until_lost == Some(Duration::ZERO);
        if fill == 0.0 && !tells_lost {
            return until_lost;
        }
        let elapsed = self.last.elapsed();
        if elapsed < INTERVAL && fill < MUCH {
            return Some(INTERVAL - elapsed);
        }
        self.last = Instant::now();
        if tells_lost {
            self.told_lost = Some(self.last);
        }
        let fetched = refusals::fetch(AT_ONCE, tells_lost);
        let descriptions: Vec<_> = fetched.descriptions.iter().map(|description| description.cell_id).collect();
        let lost_before = fetched.lost.clone();
        let recorded = OwnTransactions { owner }.in_database(|connection| {
            audit::record_refusals(connection, fetched);
            Ok(())
        });
        if let Err(failure) = recorded {
            refusals::are_lost(&descriptions, &lost_before);
            log_failed_pass("claims: audit", &failure);
        }
        let until_more =
            (refusals::fill() > 0.0).then_some(if refusals::fill() < MUCH { INTERVAL } else { Duration::ZERO });
        [until_more, self.until_lost()].into_iter().flatten().min()
    }

    /// Returns how long to wait before a row tells of lost descriptions. `None` if none were lost.
    fn until_lost(&self) -> Option<Duration> {
        let elapsed = self.told_lost.map_or(LOST_INTERVAL, |told| told.elapsed());
        refusals::has_lost().then(|| LOST_INTERVAL.saturating_sub(elapsed))
    }
}
