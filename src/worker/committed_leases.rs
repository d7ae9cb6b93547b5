//! Settles committed leases between the steps of longer jobs of the worker, so that they wait for no pass and no purge.
//!
//! A step is one transaction in this database, or one call to a service. The worker runs this before each step, with no transaction
//! open.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::own_transactions::OwnTransactions;
use crate::cell::attended_cells::Attended;
use crate::cell::recovery::remaining;
use crate::cell::wakeup::WakeupSlot;

/// How often it searches for committed leases. Their own sessions get this time to settle them.
const INTERVAL: Duration = Duration::from_millis(300);
/// Pause after a failure. The worker's own job reports it.
const PAUSE: Duration = Duration::from_secs(5);

struct CommittedLeases {
    /// The cells, each with the moment from which on its leases may be settled again.
    cells: Vec<(Attended, Instant)>,
    slot: Option<&'static WakeupSlot>,
}

thread_local! {
    static COMMITTED: RefCell<Option<CommittedLeases>> = const { RefCell::new(None) };
}

/// Sets the cells whose leases are settled during the jobs of a round. Commits mark `slot`. A pause after a failure continues.
pub fn attend(cells: &[Attended], slot: Option<&'static WakeupSlot>) {
    let soon = Instant::now() + INTERVAL;
    let before = COMMITTED.take().map(|leases| leases.cells).unwrap_or_default();
    let due =
        |cell: &Attended| before.iter().find(|(other, _)| other == cell).map_or(soon, |(_, due)| (*due).max(soon));
    let cells = cells.iter().map(|cell| (cell.clone(), due(cell))).collect();
    COMMITTED.set(Some(CommittedLeases { cells, slot }));
}

/// Settles the leases that were committed since the round began, if that is due. A service that cannot be called holds up no other one.
pub fn settle(owner: Oid) {
    // While it settles, its own steps find nothing here.
    let Some(mut leases) = COMMITTED.take() else { return };
    let has_committed = leases.slot.is_none_or(|slot| slot.is_idle.load(Ordering::Acquire) == 0);
    for (cell, due) in leases.cells.iter_mut().filter(|(_, due)| has_committed && *due <= Instant::now()) {
        let settled = remaining::settle(&OwnTransactions { owner }, cell.cell_id, &cell.service);
        *due = Instant::now() + if settled.is_err() { PAUSE } else { INTERVAL };
    }
    COMMITTED.set(Some(leases));
}
