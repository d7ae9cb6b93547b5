//! Hints where to start the search of a queue.
//!
//! While a snapshot is held open elsewhere, index entries of settled requests cannot be removed, and a search from the
//! beginning scans all of them. So a session remembers, for each queue, an id below which nothing was ready, and the
//! snapshot for which that is true. The next search starts there, unless a request was added below since: then its row
//! has a transaction id that the snapshot does not see (`requests.entered_xid`), and an index finds it. Requests that this
//! transaction itself adds below are reported by [`lower`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::pg::clock::Moment;
use crate::pg::spi::Connection;
use crate::store::holds::requests::{self, Horizon, Known};

/// Queues that a session remembers.
const MAX_QUEUES: usize = 1000;

thread_local! {
    static HINTS: RefCell<HashMap<String, Known>> = RefCell::new(HashMap::new());
    /// This transaction took, settled or put back requests. What it sees from then on may be rolled back, and is no
    /// ground for a hint.
    static TOUCHED: Cell<bool> = const { Cell::new(false) };
}

/// Finds where the search of a queue has to start, and remembers it.
pub fn look(connection: &Connection, queue: &str) -> Horizon {
    let nothing = || Known { low: i64::MIN, first_hold: Moment::MIN, snapshot: None };
    let known = HINTS.with_borrow_mut(|hints| hints.remove(queue)).unwrap_or_else(nothing);
    let horizon = requests::horizon(connection, queue, &known);
    // If nothing is ready, or held, later requests are not visible in this snapshot.
    let seen = || Known {
        low: horizon.first.unwrap_or(i64::MAX),
        first_hold: horizon.first_hold.unwrap_or(Moment::MAX),
        snapshot: Some(horizon.snapshot.clone()),
    };
    let hint = if TOUCHED.get() { known } else { seen() };
    HINTS.with_borrow_mut(|hints| {
        if hints.len() >= MAX_QUEUES {
            hints.clear();
        }
        hints.insert(queue.to_owned(), hint);
    });
    horizon
}

/// This transaction has made a hold that ends at `until`.
pub fn held(queue: &str, until: Moment) {
    HINTS.with_borrow_mut(|hints| {
        if let Some(hint) = hints.get_mut(queue) {
            hint.first_hold = hint.first_hold.min(until);
        }
    });
}

/// This transaction changed what is ready.
pub fn touch() {
    TOUCHED.set(true);
}

/// This transaction made a request ready.
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
