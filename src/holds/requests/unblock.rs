//! Unblocks updates. An update that waits for its create is not searched until the create is complete.
//!
//! A session that records such an update locks the create's row FOR KEY SHARE until it commits. So a create whose row
//! can be locked FOR UPDATE has no waiting update that is not visible yet. If the row cannot be locked, the create is
//! marked, and the next takes try again. So backends do not wait for a frontend's transaction.

use super::hands::InHand;
use super::hints;
use super::statements::{self as requests, Candidate};
use pg::spi::Connection;

/// The number of marks that one take removes.
const UNMARKED_AT_ONCE: usize = 10;

/// Locks creates that are about to become complete, so that no session can record an update that waits for them.
/// Returns those that could be locked.
pub fn close_creates<'h>(connection: &Connection, in_hand: &'h [InHand]) -> Vec<&'h InHand> {
    let creates = in_hand.iter().filter(|hand| hand.is_create);
    creates.filter(|hand| requests::close_create(connection, &hand.queue, &hand.entity)).collect()
}

/// Unblocks the updates of an entity whose create is complete.
pub fn open_updates(connection: &Connection, queue: &str, entity: &str, closed: bool) {
    let first = requests::unblock(connection, queue, entity).into_iter().min();
    let done = closed && !requests::has_blocked(connection, queue, entity);
    requests::mark_create(connection, queue, entity, !done);
    if let Some(first) = first {
        hints::lower(queue, first);
    }
}

/// Returns entities with marked creates and blocked updates, each with the first of those updates after `after`. The
/// updates remain blocked until they are taken: if a transaction unblocked them and then worked on other requests, they
/// would stay locked until it ends. Removes the marks of creates without blocked updates.
pub fn waiting(connection: &Connection, queue: &str, after: i64) -> Vec<Candidate> {
    let (waiting, done): (Vec<_>, Vec<_>) =
        requests::marked_creates(connection, queue, after).into_iter().partition(|marked| marked.is_waited_for);
    for marked in done.iter().take(UNMARKED_AT_ONCE) {
        // Checked again after the create is closed. Before that some updates may not be visible yet.
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
