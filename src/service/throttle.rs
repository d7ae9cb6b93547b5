//! How fast cells may begin: a number for each of them in shared memory. Without preloading there is none.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use claims_model::rate;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::places::{self, CellPlace, MAX_CELLS};
use crate::access::given;
use crate::distribution;
use crate::pg::clock::Moment;
use crate::pg::gate;
use crate::pg::shared::Shared;
use crate::pg::shared::shareable;
use crate::pg::spi::Connection;
use crate::store::service::limits;

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

/// Whether rates hold: on this server or, where the tables are spread, on the one that counts for all.
pub fn is_there(connection: &Connection) -> bool {
    if distribution::is_spread() {
        limits::asked_for_pace(connection, 0, None).is_some()
    } else {
        PACES.get().is_some()
    }
}

/// Lets one more begin pass; or says from which moment on one may.
pub fn pass(connection: &Connection, cell_id: i64, per_second: i32) -> Result<(), Moment> {
    if !distribution::is_spread() {
        return pass_here(cell_id, per_second);
    }
    match limits::asked_for_pace(connection, cell_id, Some(per_second)) {
        None | Some(0) => Ok(()),
        Some(again) => Err(Moment(again)),
    }
}

/// For other nodes, where the tables are spread: lets one more begin pass, which is 0, or says from which moment on one may, in microseconds.
/// NULL: nothing is counted here. Without a rate only that is said.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn keep_pace(cell_id: Option<i64>, per_second: Option<i32>) -> Result<Option<i64>, ErrorReport> {
    gate::pass();
    let cell_id = given(cell_id, "cell_id")?;
    let again = per_second.map_or(0, |per_second| pass_here(cell_id, per_second).map_or_else(|again| again.0, |()| 0));
    Ok(PACES.get().map(|_| again))
}

fn pass_here(cell_id: i64, per_second: i32) -> Result<(), Moment> {
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
