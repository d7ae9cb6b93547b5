//! Epochs, by which the service distinguishes the databases of a cell.

use claims_model::epoch::Epoch;

use crate::kernel::tables::{Door, Local};
use pg::clock::Moment;

/// The database that acts for a cell, as every save is compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActingPlace {
    pub epoch: Epoch,
    pub place: Option<i64>,
    pub acted_at: Option<Moment>,
}

/// Epochs, by which the service distinguishes the databases of a cell.
pub trait EpochTables: Sync {
    /// Returns the epoch that a cell's database has presented last, and the place of that database, as committed now.
    fn acting(&self, cell_id: i64) -> Option<ActingPlace>;

    /// Notes that the acting database of a cell, at this place, acts. Waits for nobody, and does nothing where that would cost more than it is worth.
    fn note_act(&self, cell_id: i64, place: i64);
}

/// Where the epochs are.
pub static EPOCH_TABLES: Door<dyn EpochTables> = Door::local(&Local);
