//! What was sent to the service after transactions, and which leases it has confirmed to be settled by it: those are forgotten
//! in one go.

use std::cell::{Cell, RefCell};

use uuid::Uuid;

use crate::pg::libpq::Reply;

/// Settled leases that a session remembers, until it forgets them in one go; those of a session that ends before are
/// recovery's.
const REMEMBERED: usize = 1000;

/// Leases of one cell at one service, and how they end.
#[derive(Debug, Default, Clone)]
pub struct Settlement {
    pub commits: Vec<Uuid>,
    pub rollbacks: Vec<Uuid>,
}

thread_local! {
    /// Leases that the service has confirmed to be committed, of cells.
    static CONFIRMED: RefCell<Vec<(i64, Uuid)>> = const { RefCell::new(Vec::new()) };
    /// So many of them, from the first, are being forgotten by the running transaction.
    static FORGOTTEN: Cell<usize> = const { Cell::new(0) };
}

/// The service has answered what was sent after a transaction.
pub fn answered(cell_id: i64, settlement: Settlement, reply: &Reply) {
    let Reply::Rows(rows) = reply else { return };
    let committed = |row: &Vec<Option<String>>| match row.as_slice() {
        [Some(lease), Some(outcome), ..] if outcome == "committed" => lease.parse().ok(),
        _ => None,
    };
    let committed: Vec<Uuid> = match rows.first().map(Vec::len) {
        Some(1) => settlement.commits,
        _ => rows.iter().filter_map(committed).collect(),
    };
    CONFIRMED.with_borrow_mut(|all| {
        let room = REMEMBERED.saturating_sub(all.len());
        all.extend(committed.into_iter().take(room).map(|lease| (cell_id, lease)));
    });
}

/// The settled leases of a cell that the running transaction is to forget, once there are enough of them.
pub fn to_forget(cell_id: i64) -> Vec<Uuid> {
    const ENOUGH: usize = 50;
    CONFIRMED.with_borrow(|all| {
        if all.len() < ENOUGH || FORGOTTEN.get() > 0 {
            return Vec::new();
        }
        FORGOTTEN.set(all.len());
        all.iter().filter(|(cell, _)| *cell == cell_id).map(|(_, lease)| *lease).collect()
    })
}

/// The running transaction has committed, and with it what it has forgotten.
pub fn committed() {
    let forgotten = FORGOTTEN.take();
    CONFIRMED.with_borrow_mut(|all| all.drain(..forgotten.min(all.len())).for_each(drop));
}

/// The running transaction is over.
pub fn end() {
    FORGOTTEN.set(0);
}
