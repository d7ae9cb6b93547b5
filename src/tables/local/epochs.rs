//! The epochs of cells, which every save reads.

use claims_model::epoch::Epoch;

use super::door::Local;
use crate::direct::layouts::{EPOCHS, epoch};
use crate::pg::direct::{self, Reading};
use crate::pg::index::KeyValue;
use crate::pg::spi;
use crate::tables::door::EpochTables;
use crate::tables::shared::epochs;

impl EpochTables for Local {
    fn epoch(&self, cell_id: i64) -> Option<Epoch> {
        let find = |[table]: [&direct::Table; 1]| {
            table.look_up(Reading::Latest, |rows| {
                rows.find([KeyValue::Int8(cell_id)], |_| true).and_then(|row| row.get(epoch::EPOCH))
            })
        };
        // The lock ends with the look-up: the begin that follows in the same statement may wait for names (`claims.lease_wait`), and holds
        // nothing then. A statement reads the table whatever was added to it.
        direct::read([&EPOCHS], find)
            .unwrap_or_else(|| spi::connect_as_owner(|connection| epochs::epoch(connection, cell_id)))
    }
}
