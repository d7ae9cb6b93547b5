//! Updates that wait for their create are kept out of the search; here they come back.
//!
//! Who records such an update locks the create's row FOR KEY SHARE until it commits. So a create whose row can be locked
//! FOR UPDATE has no waiting update that is not visible yet. Where it cannot, the create is marked, and the next takes try
//! again: nobody waits for a front end's transaction.

use crate::pg::spi::Connection;
use crate::pg::xact;
use crate::store::requests::{self, InHand};

use super::hints;

/// Locks creates that are about to become complete against those who are recording updates that wait for them. Returns
/// those that could be had. An old snapshot does not show all that waits, so that it closes nothing.
pub fn close_creates<'h>(connection: &Connection, in_hand: &'h [InHand]) -> Vec<&'h InHand> {
    let creates = in_hand.iter().filter(|hand| hand.is_create && !xact::keeps_one_snapshot());
    creates.filter(|hand| requests::close_create(connection, &hand.queue, &hand.entity)).collect()
}

/// Lets the search see the updates of an entity whose create is complete. Returns the first that it did not see.
pub fn open_updates(connection: &Connection, queue: &str, entity: &str, closed: bool) -> Option<i64> {
    let first = requests::unblock(connection, queue, entity);
    let done = closed && !requests::has_blocked(connection, queue, entity);
    requests::mark_create(connection, queue, entity, !done);
    if let Some(first) = first {
        hints::lower(queue, first);
    }
    first
}

/// The same for creates that were marked. Returns the first request that the search did not see.
pub fn open_marked(connection: &Connection, queue: &str) -> Option<i64> {
    if xact::keeps_one_snapshot() {
        return None;
    }
    hints::touch();
    let open = |entity: &String| {
        let closed = requests::close_create(connection, queue, entity);
        open_updates(connection, queue, entity, closed)
    };
    requests::marked_creates(connection, queue).iter().filter_map(open).min()
}
