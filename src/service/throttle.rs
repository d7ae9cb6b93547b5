//! How fast cells may begin: a number for each of them in shared memory. Without preloading there is none.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use claims_model::rate;

use super::places::{self, CellPlace, MAX_CELLS};
use crate::pg::clock::Moment;
use crate::pg::shared::Shared;
use crate::pg::shared::shareable;

shareable! {
    /// The pace of one cell.
    pub struct Pace {
        owner: AtomicU64,
        /// When the next begin would be due, in microseconds.
        due: AtomicI64,
    }
}

impl CellPlace for Pace {
    fn owner(&self) -> &AtomicU64 {
        &self.owner
    }
}

pub static PACES: Shared<[Pace; MAX_CELLS]> = Shared::new(c"claims paces");

/// Whether rates hold on this server.
pub fn is_there() -> bool {
    PACES.get().is_some()
}

/// Lets one more begin pass; or says from which moment on one may.
pub fn pass(cell_id: i64, per_second: i32) -> Result<(), Moment> {
    let Some(pace) = PACES.get().and_then(|paces| places::own(paces, cell_id)) else { return Ok(()) };
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
