//! Distributed tables beside the statements of the slices, and what one node does for all: the pace of begins. Statements name the values
//! of distribution columns. To find other transactions' rows it probes the index of a shard.

use claims_model::rate;
use pgrx::pg_sys::Oid;

use super::distribute::{bound_waits, free_waits};
use super::errors::DistributionError;
use super::layout;
use crate::kernel::error::ClaimsError;
use crate::kernel::tables::Nodes;
use crate::service::admission::PaceKeeper;
use pg::clock::Moment;
use pg::query::query;
use pg::roles;
use pg::spi::Connection;
use pg::xact::{self, Surroundings};

query! {
    /// Asks the node of the change feed, which limits the rates for all nodes if the tables are distributed, whether a cell may begin a
    /// lease. Returns 0, or the time from which on it may, in microseconds. `None` if that node counts nothing.
    fn ask_for_pace(cell_id: i64, per_second: Option<i32>) -> Option<Option<i64>> = [Latest Anywhere]
        "SELECT claims.keep_pace(:cell_id, :per_second) FROM claims.change_horizon h";
}

fn asked_for_pace(connection: &Connection, cell_id: i64, per_second: Option<i32>) -> Option<i64> {
    ask_for_pace(connection, cell_id, per_second).flatten()
}

/// Tables that are distributed over the nodes of a Citus cluster.
pub struct Citus;

impl Nodes for Citus {
    fn needs_subtransactions(&self) -> bool {
        true
    }

    fn have_snapshot(&self) -> bool {
        false
    }

    fn bound_waits(&self, connection: &Connection) {
        // A crash must not undo the local part of a commit after other nodes were told to commit, whatever the caller's
        // `synchronous_commit` is.
        xact::commit_durably();
        bound_waits(connection);
    }

    fn surroundings(&self) -> Surroundings {
        xact::surroundings()
    }

    fn free_waits(&self, connection: &Connection, around: Surroundings) {
        // Outside of a transaction block the nodes forget the setting with the transaction.
        if around == Surroundings::InBlock {
            free_waits(connection);
        }
    }

    /// Other nodes are told to commit after this one has committed, so a crash here must not undo the commit.
    fn may_commit_unflushed(&self) -> bool {
        false
    }

    /// Leases are also begun on nodes that do not share this memory.
    fn shares_memory(&self) -> bool {
        false
    }

    fn begin_admin_action(&self) {
        xact::commit_durably();
    }

    fn role(&self, _number: Oid, name: Option<String>) -> Oid {
        name.and_then(|name| roles::by_name(&name)).unwrap_or(Oid::INVALID)
    }

    fn require_here(&self) -> Result<(), ClaimsError> {
        Err(DistributionError::Unsupported.into())
    }

    fn require_coordinator(&self) -> Result<(), ClaimsError> {
        Ok(layout::require_coordinator()?)
    }
}

impl PaceKeeper for Citus {
    fn counts_begins(&self, connection: &Connection) -> bool {
        asked_for_pace(connection, 0, None).is_some()
    }

    fn pass_pace(&self, connection: &Connection, cell_id: i64, per_second: i32, records: i64) -> Result<(), Moment> {
        match asked_for_pace(connection, cell_id, Some(per_second)) {
            None => Ok(()),
            Some(0) => {
                // The function of that node counts begins. What follows a large call waits for a second at most.
                let more = records.saturating_sub(1) / rate::RECORDS;
                let is_counted = |_: &i64| asked_for_pace(connection, cell_id, Some(per_second)) == Some(0);
                (0..more).take_while(is_counted).for_each(drop);
                Ok(())
            }
            Some(again) => Err(Moment(again)),
        }
    }
}
