//! The epochs of cells, which every save reads.

use super::door::Local;
use crate::direct::layouts::{EPOCHS, epoch};
use crate::tables::door::{ActingPlace, EpochTables};
use crate::tables::shared::epochs;
use pg::direct::{self, Reading};
use pg::index::KeyValue;
use pg::{spi, xact};

impl EpochTables for Local {
    fn acting(&self, cell_id: i64) -> Option<ActingPlace> {
        let find = |[table]: [&direct::Table; 1]| {
            table.look_up(Reading::Latest, |rows| {
                let row = rows.find([KeyValue::Int8(cell_id)], |_| true)?;
                Some(ActingPlace {
                    epoch: row.get(epoch::EPOCH)?,
                    place: row.get(epoch::PLACE),
                    acted_at: row.get(epoch::ACTED_AT),
                })
            })
        };
        // The lock ends with the look-up: the begin that follows in the same statement may wait for names (`claims.lease_wait`), and holds
        // nothing then. A statement reads the table whatever was added to it.
        direct::read([&EPOCHS], find).unwrap_or_else(|| {
            let stored = spi::connect_as_owner(|connection| epochs::read(connection, cell_id))?;
            let place = stored.acting.place.map(|place| place.id);
            Some(ActingPlace { epoch: stored.acting.epoch, place, acted_at: Some(stored.acted_at) })
        })
    }

    fn note_act(&self, cell_id: i64, place: i64) {
        // With an older snapshot the row may be one that another session has changed since, which is an error.
        if !xact::uses_transaction_snapshot() {
            spi::connect_as_owner(|connection| epochs::note(connection, cell_id, place));
        }
    }
}
