//! The epochs of cells, in a reference table.

use super::cluster::Citus;
use crate::service::epoch::{ActingPlace, EpochTables, epochs};
use pg::spi;

impl EpochTables for Citus {
    fn acting(&self, cell_id: i64) -> Option<ActingPlace> {
        let stored = spi::connect_as_owner(|connection| epochs::read(connection, cell_id))?;
        let place = stored.acting.place.map(|place| place.id);
        Some(ActingPlace { epoch: stored.acting.epoch, place, acted_at: Some(stored.acted_at) })
    }

    /// Does nothing: a write of a reference table is a commit on every node. The cell's worker shows that it acts.
    fn note_act(&self, _cell_id: i64, _place: i64) {}
}
