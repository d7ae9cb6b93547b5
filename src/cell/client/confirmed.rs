//! What was sent to the service after transactions, and which leases it has confirmed to be settled by it: those are forgotten
//! in one go.
//!
//! The service does not flush the commit of a lease that a session sends after its transaction: for a moment a crash there
//! can undo it. So its answer does not confirm anything, and the lease stays tracked. Once there are enough of them, they are
//! settled once more, all in one call. That one the service answers only when everything it tells of is flushed.

use std::cell::{Cell, RefCell};

use uuid::Uuid;

use crate::pg::libpq::Reply;

/// Settled leases that a session remembers, until it forgets them in one go; those of a session that ends before are
/// recovery's.
const REMEMBERED: usize = 1000;

/// So many leases are settled once more, or forgotten, in one statement.
const ENOUGH: usize = 50;

/// Leases of one cell at one service, and how they end.
#[derive(Debug, Default, Clone)]
pub struct Settlement {
    pub commits: Vec<Uuid>,
    pub rollbacks: Vec<Uuid>,
    /// The service need not flush it: its answer confirms nothing.
    pub is_unflushed: bool,
}

/// A lease whose commit the service need not have flushed.
struct Unflushed {
    server: String,
    cell_id: i64,
    lease: Uuid,
}

thread_local! {
    /// Leases that the service has confirmed to be committed, of cells.
    static CONFIRMED: RefCell<Vec<(i64, Uuid)>> = const { RefCell::new(Vec::new()) };
    static UNFLUSHED: RefCell<Vec<Unflushed>> = const { RefCell::new(Vec::new()) };
    /// So many of CONFIRMED, from the first, are being forgotten by the running transaction.
    static FORGOTTEN: Cell<usize> = const { Cell::new(0) };
}

/// What is to be sent for a lease that commits: it alone, or with it all that were not flushed, once there are enough of them.
pub fn to_commit(server: &str, cell_id: i64, lease: Uuid) -> Settlement {
    UNFLUSHED.with_borrow_mut(|all| {
        let is_of = |other: &Unflushed| other.server == server && other.cell_id == cell_id;
        let is_unflushed = all.iter().filter(|other| is_of(other)).count() < ENOUGH;
        let mut commits = vec![lease];
        if !is_unflushed {
            commits.extend(all.extract_if(.., |other| is_of(other)).map(|other| other.lease));
        }
        Settlement { commits, is_unflushed, ..Settlement::default() }
    })
}

/// What was made by [`to_commit`] was sent. If not, the leases are recovery's.
pub fn sent(server: &str, cell_id: i64, settlement: &Settlement) {
    if !settlement.is_unflushed {
        return;
    }
    UNFLUSHED.with_borrow_mut(|all| {
        let room = REMEMBERED.saturating_sub(all.len());
        let leases = settlement.commits.iter().take(room);
        all.extend(leases.map(|lease| Unflushed { server: server.to_owned(), cell_id, lease: *lease }));
    });
}

/// The service has answered what was sent after a transaction.
pub fn answered(cell_id: i64, settlement: Settlement, reply: &Reply) {
    let Reply::Rows(rows) = reply else { return };
    if settlement.is_unflushed {
        return;
    }
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
