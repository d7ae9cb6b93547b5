//! Places in shared memory, one for each cell that needs one. Without preloading there are none.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pg::background::own_database;

/// Cells of a server that can have a place.
pub const MAX_CELLS: usize = 1024;

/// What belongs to one cell.
pub trait CellPlace {
    /// Which cell of which database; 0: the place is free.
    fn owner(&self) -> &AtomicU64;
}

/// The place of a cell: the first that is its own, or free, from where its name leads. `None`: all are taken.
pub fn own<P: CellPlace>(places: &[P; MAX_CELLS], cell_id: i64) -> Option<&P> {
    own_number(places, cell_id).map(|number| &places[number])
}

/// The number of that place.
pub fn own_number<P: CellPlace>(places: &[P; MAX_CELLS], cell_id: i64) -> Option<usize> {
    let name = name(own_database(), cell_id);
    let is_own = |number: &usize| {
        let owner = places[*number].owner();
        match owner.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(owner) => owner == name,
        }
    };
    numbers(name).find(is_own)
}

/// The same of a cell that has one already.
pub fn known<P: CellPlace>(places: &[P; MAX_CELLS], cell_id: i64) -> Option<&P> {
    let name = name(own_database(), cell_id);
    let owner = |place: &P| place.owner().load(Ordering::Relaxed);
    // A free place ends the search: no place becomes free again.
    numbers(name).map(|number| &places[number]).take_while(|place| owner(place) != 0).find(|place| owner(place) == name)
}

fn numbers(name: u64) -> impl Iterator<Item = usize> {
    let first = (name % MAX_CELLS as u64) as usize;
    (0..MAX_CELLS).map(move |step| (first + step) % MAX_CELLS)
}

/// Never 0, and of two cells as good as never the same.
fn name(database: u32, cell_id: i64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in database.to_ne_bytes().into_iter().chain(cell_id.to_ne_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash.max(1)
}
