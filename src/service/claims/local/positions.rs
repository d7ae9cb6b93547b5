//! Remembers where this session has written the rows of leases and their claims, so that their settlement need not search the indexes for them.
//! Without it commits of ten claims and more take a quarter to a half longer in the server.
//!
//! A position is only a hint. The rows of an open transaction may be rolled back, other sessions may settle the lease, and VACUUM may give the
//! position to another row. So the row that is found there must be visible, have the key and pass the tests of the settlement, as if the index had
//! found it. If it does not, the index is searched.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use claims_model::Bucket;
use uuid::Uuid;

use pg::direct::Position;

/// The number of positions that a session remembers. Rows that nobody settles here are forgotten with all others when there are more.
const MOST: usize = 10_000;
/// A larger table is given back when it is empty.
const KEPT: usize = 1_000;

/// The key of a row.
#[derive(Clone, Copy, Hash)]
pub enum RowKey<'k> {
    Lease(Uuid),
    Claim(&'k Bucket<'k>),
}

#[derive(Default)]
struct Positions {
    hashes: RandomState,
    /// By the hash of the row's key. Of two keys with one hash the last one is remembered.
    positions: HashMap<u64, Position>,
}

thread_local! {
    static POSITIONS: RefCell<Positions> = RefCell::default();
}

/// Remembers where rows were written.
pub fn remember<'k>(rows: impl IntoIterator<Item = (RowKey<'k>, Position)>) {
    POSITIONS.with_borrow_mut(|Positions { hashes, positions }| {
        for (key, position) in rows {
            if positions.len() >= MOST {
                *positions = HashMap::new();
            }
            positions.insert(hashes.hash_one(key), position);
        }
    });
}

/// Returns where the row with a key was written last, and forgets it.
pub fn take(key: RowKey) -> Option<Position> {
    POSITIONS.with_borrow_mut(|Positions { hashes, positions }| {
        if positions.is_empty() {
            return None;
        }
        let position = positions.remove(&hashes.hash_one(key));
        if positions.is_empty() && positions.capacity() > KEPT {
            *positions = HashMap::new();
        }
        position
    })
}
