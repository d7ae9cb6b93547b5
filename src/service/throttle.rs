//! How fast cells may begin: a number for each of them in shared memory. Without preloading there is none.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use claims_model::rate;

use crate::pg::background::own_database;
use crate::pg::clock::Moment;
use crate::pg::shared::Shared;
use crate::pg::shared::shareable;

/// Cells of a server that can have a rate.
const MAX_CELLS: usize = 1024;

shareable! {
    /// The pace of one cell.
    pub struct Pace {
        /// Which cell of which database; 0: the place is free.
        owner: AtomicU64,
        /// When the next begin would be due, in microseconds.
        due: AtomicI64,
    }
}

pub static PACES: Shared<[Pace; MAX_CELLS]> = Shared::new(c"claims paces");

/// Whether rates hold on this server.
pub fn is_there() -> bool {
    PACES.get().is_some()
}

/// Lets one more begin pass; or says from which moment on one may.
pub fn pass(cell_id: i64, per_second: i32) -> Result<(), Moment> {
    let Some(pace) = PACES.get().and_then(|paces| place(paces, cell_id)) else { return Ok(()) };
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

/// The place of a cell: the first that is its own, or free, from where its name leads. `None`: all are taken.
fn place(paces: &[Pace; MAX_CELLS], cell_id: i64) -> Option<&Pace> {
    let name = name(own_database(), cell_id);
    let first = (name % MAX_CELLS as u64) as usize;
    let mut places = (0..MAX_CELLS).map(|step| &paces[(first + step) % MAX_CELLS]);
    places.find(|pace| match pace.owner.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(owner) => owner == name,
    })
}

/// Never 0, and of two cells as good as never the same.
fn name(database: u32, cell_id: i64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in database.to_ne_bytes().into_iter().chain(cell_id.to_ne_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash.max(1)
}
