//! Settles committed leases between the steps of longer jobs of the worker, so that they wait for no pass and no purge.
//!
//! A step is one transaction in this database, or one call to a service. The worker runs this before each step, with no transaction
//! open.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::own_transactions::OwnTransactions;
use crate::cell::recovery::remaining;
use crate::cell::wakeup::WakeupSlot;
use crate::store::worker::Attended;

/// How often it searches for committed leases. Their own sessions get this time to settle them.
const INTERVAL: Duration = Duration::from_millis(300);
/// Pause after a failure. The worker's own job reports it.
const PAUSE: Duration = Duration::from_secs(5);

struct Meanwhile {
    cells: Vec<Attended>,
    slot: Option<&'static WakeupSlot>,
    due: Instant,
}

thread_local! {
    static MEANWHILE: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
}

/// Sets the cells whose leases are settled during the jobs of a round. Commits mark `slot`.
pub fn attend(cells: &[Attended], slot: Option<&'static WakeupSlot>) {
    MEANWHILE.set(Some(Meanwhile { cells: cells.to_vec(), slot, due: Instant::now() + INTERVAL }));
}

/// Settles the leases that were committed since the round began, if that is due.
pub fn settle(owner: Oid) {
    // While it settles, its own steps find nothing here.
    let Some(mut meanwhile) = MEANWHILE.take() else { return };
    let has_committed = meanwhile.slot.is_none_or(|slot| slot.is_idle.load(Ordering::Acquire) == 0);
    if has_committed && meanwhile.due <= Instant::now() {
        let settle = |cell: &Attended| remaining::settle(&OwnTransactions { owner }, cell.cell_id, &cell.service);
        let has_failed = meanwhile.cells.iter().filter(|cell| settle(cell).is_err()).count() > 0;
        meanwhile.due = Instant::now() + if has_failed { PAUSE } else { INTERVAL };
    }
    MEANWHILE.set(Some(meanwhile));
}
