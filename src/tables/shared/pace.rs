//! Limits the rate at which cells begin leases, by a slot for each cell in shared memory. Without preloading there is no limit.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use claims_model::rate;
use zerocopy::FromBytes;

use crate::cell_slots::{self, CellSlot, MAX_CELLS};
use crate::pg::clock::Moment;
use crate::pg::shared::Shared;

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

/// Returns whether this server counts begins.
pub fn is_counted() -> bool {
    PACES.get().is_some()
}

/// Admits one more begin, or returns the time from which on one is admitted.
pub fn pass(cell_id: i64, per_second: i32) -> Result<(), Moment> {
    let Some(pace) = PACES.get().and_then(|paces| cell_slots::own(paces, cell_id)) else { return Ok(()) };
    let now = Moment::now().0;
    let mut due = pace.due.load(Ordering::Relaxed);
    loop {
        let after = rate::next(due, now, per_second).map_err(Moment)?;
        match pace.due.compare_exchange_weak(due, after, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(changed) => due = changed,
        }
    }
}
