//! Unblocking: updates that wait for their create are not searched until the create is complete.
//!
//! A session that records such an update locks the create's row FOR KEY SHARE until it commits. So a create whose row can be
//! locked FOR UPDATE has no waiting update that is not visible yet. If it cannot, the create is marked, and the next takes try
//! again: back ends do not wait for a front end's transaction.

use crate::pg::spi::Connection;
use crate::store::holds::requests::{self, Candidate, InHand};

use super::hints;

/// Marks that one take removes.
const UNMARKED_AT_ONCE: usize = 10;

/// Locks creates that are about to become complete against sessions that record updates that wait for them. Returns
/// those that could be locked.
pub fn close_creates<'h>(connection: &Connection, in_hand: &'h [InHand]) -> Vec<&'h InHand> {
    let creates = in_hand.iter().filter(|hand| hand.is_create);
    creates.filter(|hand| requests::close_create(connection, &hand.queue, &hand.entity)).collect()
}

/// Unblocks the updates of an entity whose create is complete.
pub fn open_updates(connection: &Connection, queue: &str, entity: &str, closed: bool) {
    let first = requests::unblock(connection, queue, entity);
    let done = closed && !requests::has_blocked(connection, queue, entity);
    requests::mark_create(connection, queue, entity, !done);
    if let Some(first) = first {
        hints::lower(queue, first);
    }
}

/// Entities with marked creates that have blocked updates, each with the first of those after `after`. They remain blocked
/// until they are taken: if a transaction unblocked them and then worked on
/// something else, they would be locked until it ends. Marks of creates without blocked updates are removed.
pub fn waiting(connection: &Connection, queue: &str, after: i64) -> Vec<Candidate> {
    let (waiting, done): (Vec<_>, Vec<_>) =
        requests::marked_creates(connection, queue, after).into_iter().partition(|marked| marked.is_waited_for);
    for marked in done.iter().take(UNMARKED_AT_ONCE) {
        // Checked again once it is closed: before that there may be some that are not visible yet.
        if requests::close_create(connection, queue, &marked.entity)
            && !requests::has_blocked(connection, queue, &marked.entity)
        {
            requests::mark_create(connection, queue, &marked.entity, false);
        }
    }
    let mut candidates: Vec<_> =
        waiting.into_iter().filter_map(|marked| Some(Candidate { id: marked.first?, entity: marked.entity })).collect();
    candidates.sort_unstable_by_key(|candidate| candidate.id);
    candidates
}

/// Unblocks the updates of an entity that this transaction takes, so that the search finds them if it does not settle
/// them.
pub fn open_taken(connection: &Connection, queue: &str, entity: &str) {
    let closed = requests::close_create(connection, queue, entity);
    open_updates(connection, queue, entity, closed);
}
