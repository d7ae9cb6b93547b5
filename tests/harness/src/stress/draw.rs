//! Random choices of batches and leases.

use super::HOT;
use super::board::{Board, Book, Lease};
use crate::batch::Batch;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::sync::atomic::Ordering::Relaxed;

const LARGEST: usize = 8;

/// Draws a batch of `cell`, which usually can succeed. With `needs_create` it has at least one create.
pub fn batch(rng: &mut StdRng, board: &Board, cell: i64, needs_create: bool) -> Batch {
    let size = if rng.random_bool(0.3) { rng.random_range(1..=LARGEST) } else { rng.random_range(1..=3) };
    let source = board.fresh_source();
    let mut batch = Batch::default();
    while batch.buckets().count() < size {
        let first = batch.is_empty();
        let create = (first && needs_create) || rng.random_bool(0.55);
        let name = bucket(rng, board, if create { 0 } else { cell }).to_string();
        if batch.buckets().any(|b| b == name) {
            continue;
        }
        if create { batch.creates.push((name, source)) } else { batch.destroys.push(name) }
    }
    batch
}

/// Draws a bucket that probably belongs to `owner` (0 is nobody), and sometimes any bucket.
fn bucket<'a>(rng: &mut StdRng, board: &'a Board, owner: i64) -> &'a str {
    let tries = if rng.random_bool(0.85) { 40 } else { 1 };
    let first = if rng.random_bool(0.02) { 0 } else { HOT };
    let mut index = first;
    for _ in 0..tries {
        index = rng.random_range(first..board.buckets.len());
        if board.hints[index].load(Relaxed) == owner {
            break;
        }
    }
    &board.buckets[index]
}

/// Draws any bucket.
pub fn any_bucket<'a>(rng: &mut StdRng, board: &'a Board) -> &'a str {
    &board.buckets[rng.random_range(0..board.buckets.len())]
}

/// Draws a lease that is outstanding, as far as the cell knows.
pub fn outstanding(rng: &mut StdRng, book: &Book) -> Option<Lease> {
    book.outstanding.choose(rng).cloned()
}

/// Draws a lease that is or was outstanding.
pub fn any_lease(rng: &mut StdRng, book: &Book) -> Option<Lease> {
    let all = book.outstanding.len() + book.done.len();
    (all > 0).then(|| rng.random_range(0..all)).and_then(|n| book.outstanding.iter().chain(&book.done).nth(n)).cloned()
}
