//! The epochs of cells, in a reference table.

use claims_model::epoch::Epoch;

use super::door::Citus;
use crate::pg::spi;
use crate::tables::door::EpochTables;
use crate::tables::shared::epochs;

impl EpochTables for Citus {
    fn epoch(&self, cell_id: i64) -> Option<Epoch> {
        spi::connect_as_owner(|connection| epochs::epoch(connection, cell_id))
    }
}
