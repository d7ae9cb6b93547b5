//! Limits the rate at which cells begin leases, by a slot for each cell in shared memory. Without preloading there is no limit.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use claims_model::rate;
use zerocopy::FromBytes;

use super::cell_slots::{self, CellSlot, MAX_CELLS};
use pg::clock::Moment;
use pg::shared::Shared;

/// The rate limiter of one cell.
#[derive(FromBytes)]
pub struct Pace {
    owner: AtomicU64,
    /// The time at which the next begin would be due, in microseconds.
    due: AtomicI64,
}

impl CellSlot for Pace {
    fn owner(&self) -> &AtomicU64 {
        &self.owner
    }
}

pub static PACES: Shared<[Pace; MAX_CELLS]> = Shared::new(c"claims paces");
/// The rates at which fences and denied calls of cells are written to the audit log.
pub static REFUSAL_PACES: Shared<[Pace; MAX_CELLS]> = Shared::new(c"claims refusal paces");

/// Returns whether this server counts begins.
pub fn is_counted() -> bool {
    PACES.get().is_some()
}

/// Admits more records, of which a thousand count as a begin, or returns the time from which on a begin is admitted.
pub fn pass(cell_id: i64, per_second: i32, records: i64) -> Result<(), Moment> {
    let Some(pace) = PACES.get().and_then(|paces| cell_slots::own(paces, cell_id)) else { return Ok(()) };
    pass_at(pace, per_second, records)
}

/// Returns how many of some fences or denied calls of a cell are to be written to the audit log. `None` if nothing is counted. The
/// number must be that of a registered cell, or i64::MIN for all other calls: slots are never given back.
pub fn pass_refusals(cell_id: i64, per_second: i32, count: usize) -> Option<usize> {
    let pace = REFUSAL_PACES.get().and_then(|paces| cell_slots::own(paces, cell_id))?;
    Some((0..count).take_while(|_| pass_at(pace, per_second, rate::RECORDS).is_ok()).count())
}

fn pass_at(pace: &Pace, per_second: i32, records: i64) -> Result<(), Moment> {
    let now = Moment::now().0;
    let mut due = pace.due.load(Ordering::Relaxed);
    loop {
        let after = rate::next_records(due, now, per_second, records).map_err(Moment)?;
        match pace.due.compare_exchange_weak(due, after, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(changed) => due = changed,
        }
    }
}
