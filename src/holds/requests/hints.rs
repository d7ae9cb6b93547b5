//! Hints where the search of a queue starts.
//!
//! While another session holds a snapshot open, index entries of settled requests cannot be removed, and a search from
//! the beginning scans all of them. So a session caches, for each queue, an id below which no request was ready, and
//! the snapshot for which that is true. The next search starts there, unless a request became ready below that id
//! since. The row of such a request has a transaction id that the snapshot does not see (`requests.entered_xid`), and
//! an index finds it. [`lower`] reports requests below that id that this transaction itself makes ready.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::probes::{self, Cached, Horizon};
use pg::clock::Moment;
use pg::spi::Connection;

/// The largest number of queues that a session caches.
const MAX_QUEUES: usize = 1000;

thread_local! {
    static HINTS: RefCell<HashMap<String, Cached>> = RefCell::new(HashMap::new());
    /// Whether this transaction took, settled or put back requests. Changes that it sees from then on may be rolled
    /// back, so they cannot become a hint.
    static TOUCHED: Cell<bool> = const { Cell::new(false) };
}

/// Returns where the search of a queue starts, and caches it.
pub fn start(connection: &Connection, queue: &str) -> Horizon {
    let empty = || Cached { low: i64::MIN, first_hold: Moment::MIN, snapshot: None };
    let cached = HINTS.with_borrow_mut(|hints| hints.remove(queue)).unwrap_or_else(empty);
    let horizon = probes::horizon(connection, queue, &cached);
    // If no request is ready or held, this snapshot shows no later request either.
    let current = || Cached {
        low: horizon.first.unwrap_or(i64::MAX),
        first_hold: horizon.first_hold.unwrap_or(Moment::MAX),
        snapshot: Some(horizon.snapshot.clone()),
    };
    let hint = if TOUCHED.get() { cached } else { current() };
    HINTS.with_borrow_mut(|hints| {
        if hints.len() >= MAX_QUEUES {
            hints.clear();
        }
        hints.insert(queue.to_owned(), hint);
    });
    horizon
}

/// Records that this transaction has made a hold that ends at `until`.
pub fn held(queue: &str, until: Moment) {
    HINTS.with_borrow_mut(|hints| {
        if let Some(hint) = hints.get_mut(queue) {
            hint.first_hold = hint.first_hold.min(until);
        }
    });
}

/// Records that this transaction changed which requests are ready.
pub fn touch() {
    TOUCHED.set(true);
}

/// Records that this transaction made a request ready.
pub fn lower(queue: &str, id: i64) {
    HINTS.with_borrow_mut(|hints| {
        if let Some(hint) = hints.get_mut(queue) {
            hint.low = hint.low.min(id);
        }
    });
}

pub fn transaction_ended() {
    TOUCHED.set(false);
}
