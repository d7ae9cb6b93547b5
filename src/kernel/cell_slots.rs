//! Slots in shared memory, one for each cell that needs one. Without preloading there are none.

use std::sync::atomic::{AtomicU64, Ordering};

use claims_model::hash::fnv1a;

use pg::background::own_database;

/// Cells of a server that can have a slot.
pub const MAX_CELLS: usize = 1024;

/// The slot of one cell.
pub trait CellSlot {
    /// Which cell of which database; 0: the slot is free.
    fn owner(&self) -> &AtomicU64;
}

/// Returns the slot of a cell: the first that is its own, or free, from where its name leads. `None`: all are taken.
pub fn own<S: CellSlot>(slots: &[S; MAX_CELLS], cell_id: i64) -> Option<&S> {
    own_number(slots, cell_id).map(|number| &slots[number])
}

/// Returns the number of the slot that [`own`] returns.
pub fn own_number<S: CellSlot>(slots: &[S; MAX_CELLS], cell_id: i64) -> Option<usize> {
    let name = name(own_database(), cell_id);
    let is_own = |number: &usize| {
        let owner = slots[*number].owner();
        match owner.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(owner) => owner == name,
        }
    };
    numbers(name).find(is_own)
}

/// Like [`own`], of a cell that has a slot already.
pub fn existing<S: CellSlot>(slots: &[S; MAX_CELLS], cell_id: i64) -> Option<&S> {
    let name = name(own_database(), cell_id);
    let owner = |slot: &S| slot.owner().load(Ordering::Relaxed);
    // A free slot ends the search: no slot becomes free again.
    numbers(name).map(|number| &slots[number]).take_while(|slot| owner(slot) != 0).find(|slot| owner(slot) == name)
}

fn numbers(name: u64) -> impl Iterator<Item = usize> {
    let first = (name % MAX_CELLS as u64) as usize;
    (0..MAX_CELLS).map(move |step| (first + step) % MAX_CELLS)
}

/// Returns a hash that is never 0. A collision of two cells is extremely unlikely.
fn name(database: u32, cell_id: i64) -> u64 {
    fnv1a(database.to_ne_bytes().into_iter().chain(cell_id.to_ne_bytes())).max(1)
}
