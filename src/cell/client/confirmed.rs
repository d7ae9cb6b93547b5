//! Remembers which leases the service has confirmed as committed, so that a later transaction forgets many of them at once.
//!
//! The service does not flush the commit of a lease that a session sends after its transaction: for a moment, a crash there can
//! undo it. So that answer confirms nothing, and the lease stays tracked. The answer to the next begin confirms it, if the same process
//! of the service has given both: it has flushed the begin, and WAL is flushed in its order. Where another process may have answered,
//! behind a pooler, the session settles fifty leases once more in one call. The service answers it only after it has flushed their
//! commits.

use std::cell::{Cell, RefCell};

use uuid::Uuid;

use super::settlement::Settlement;

/// Maximum number of settled leases that a session remembers. Recovery forgets the others, and those of a session that ends.
const MAX_REMEMBERED: usize = 1000;

/// Number of leases that one statement settles once more or forgets.
const BATCH: usize = 50;

/// A lease whose commit the service may not have flushed.
struct Unflushed {
    server: String,
    cell_id: i64,
    lease: Uuid,
}

thread_local! {
    /// Leases that the service has confirmed as committed, with their cells.
    static CONFIRMED: RefCell<Vec<(i64, Uuid)>> = const { RefCell::new(Vec::new()) };
    static UNFLUSHED: RefCell<Vec<Unflushed>> = const { RefCell::new(Vec::new()) };
    /// Number of leases, from the front of CONFIRMED, that the current transaction is forgetting.
    static FORGOTTEN: Cell<usize> = const { Cell::new(0) };
}

/// Returns the settlement to send for a lease that commits: of this lease alone, or also of those that were not flushed once there
/// are enough of them.
pub fn to_commit(server: &str, cell_id: i64, lease: Uuid) -> Settlement {
    UNFLUSHED.with_borrow_mut(|all| {
        let is_of = |other: &Unflushed| other.server == server && other.cell_id == cell_id;
        let is_unflushed = all.iter().filter(|other| is_of(other)).count() < BATCH;
        let mut commits = vec![lease];
        if !is_unflushed {
            commits.extend(all.extract_if(.., |other| is_of(other)).map(|other| other.lease));
        }
        Settlement { commits, is_unflushed, ..Settlement::default() }
    })
}

/// Remembers a settlement of [`to_commit`] that was sent. Recovery settles the leases of a settlement that was not sent.
pub fn sent(server: &str, cell_id: i64, settlement: &Settlement) {
    if !settlement.is_unflushed {
        return;
    }
    UNFLUSHED.with_borrow_mut(|all| {
        let room = MAX_REMEMBERED.saturating_sub(all.len());
        let leases = settlement.commits.iter().take(room);
        all.extend(leases.map(|lease| Unflushed { server: server.to_owned(), cell_id, lease: *lease }));
    });
}

/// Records the answer to a settlement that was sent after a transaction. `committed` are the leases that are committed.
pub fn answered(cell_id: i64, settlement: &Settlement, committed: Vec<Uuid>) {
    if settlement.is_unflushed {
        return;
    }
    CONFIRMED.with_borrow_mut(|all| {
        let room = MAX_REMEMBERED.saturating_sub(all.len());
        all.extend(committed.into_iter().take(room).map(|lease| (cell_id, lease)));
    });
}

/// Records that the service has flushed the commits of leases, which it had answered before.
pub fn flushed(leases: Vec<(i64, Uuid)>) {
    UNFLUSHED.with_borrow_mut(|all| all.retain(|other| leases.iter().all(|(_, lease)| *lease != other.lease)));
    CONFIRMED.with_borrow_mut(|all| {
        let room = MAX_REMEMBERED.saturating_sub(all.len());
        all.extend(leases.into_iter().take(room));
    });
}

/// Returns the settled leases of a cell that the current transaction should forget, once there are enough of them.
pub fn to_forget(cell_id: i64) -> Vec<Uuid> {
    CONFIRMED.with_borrow(|all| {
        if all.len() < BATCH || FORGOTTEN.get() > 0 {
            return Vec::new();
        }
        FORGOTTEN.set(all.len());
        all.iter().filter(|(cell, _)| *cell == cell_id).map(|(_, lease)| *lease).collect()
    })
}

/// Drops the leases that the current transaction has forgotten, because it has committed.
pub fn committed() {
    let forgotten = FORGOTTEN.take();
    CONFIRMED.with_borrow_mut(|all| all.drain(..forgotten.min(all.len())).for_each(drop));
}

/// Ends the current transaction's forgetting.
pub fn end() {
    FORGOTTEN.set(0);
}
