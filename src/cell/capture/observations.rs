//! The names that the current transaction could not claim, of those that are only observed. They are written to `claims.observed` when the
//! transaction's changes are sent, so only transactions that commit count.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use claims_model::nesting;
use claims_model::observed::Missed;
use claims_model::origin::Declared;

use super::observation_counts::{self, ObservationKey};
use pg::spi::Connection;
use pg::transaction_end::current_subtransaction;
use pg::xact;

/// Most names that one transaction records. Further ones are counted without a name.
const MAX_NAMES: usize = 1000;

/// How often something could not be claimed, as a subtransaction has noted it.
struct Notes {
    /// The subtransaction, or one into which it was released (`claims_model::nesting`).
    owner: u32,
    counts: BTreeMap<ObservationKey, i64>,
}

/// The notes of this transaction.
struct AllNotes {
    /// In the order of the subtransactions, whose counts are apart until they are released.
    levels: Vec<Notes>,
    /// The number of keys in all of them.
    keys: usize,
}

thread_local! {
    static NOTES: RefCell<AllNotes> = const { RefCell::new(AllNotes { levels: Vec::new(), keys: 0 }) };
    /// How long observed names have delayed the transaction.
    static DELAY: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

pub fn delay() -> Duration {
    DELAY.get()
}

pub fn add_delay(time: Duration) {
    DELAY.set(DELAY.get() + time);
}

pub fn is_empty() -> bool {
    NOTES.with_borrow(|notes| notes.levels.is_empty())
}

/// Notes an outcome that is not about a name.
pub fn note(declared: &Declared, outcome: &str, count: i64) {
    add(ObservationKey::new(declared.table, &declared.column_name, outcome), count);
}

/// Notes names that could not be claimed.
pub fn note_missed(missed: Missed) {
    let Some(declared) = missed.create.ends.origin.0 else { return };
    let bucket = missed.create.bucket;
    let key = ObservationKey {
        bucket_type: Some(bucket.bucket_type.to_string()),
        bucket_value: Some(bucket.value),
        holder_cell_id: missed.holder_cell_id,
        ..ObservationKey::new(declared.table, &declared.column_name, &missed.outcome)
    };
    add(key, 1);
}

fn add(key: ObservationKey, count: i64) {
    NOTES.with_borrow_mut(|notes| notes.add(current_subtransaction(), key, count));
}

impl AllNotes {
    fn add(&mut self, owner: u32, key: ObservationKey, count: i64) {
        if self.levels.last().is_none_or(|last| last.owner != owner) {
            self.levels.push(Notes { owner, counts: BTreeMap::new() });
        }
        let Some(Notes { counts, .. }) = self.levels.last_mut() else { return };
        let key = if self.keys >= MAX_NAMES && !counts.contains_key(&key) { key.without_name() } else { key };
        let before = counts.len();
        *counts.entry(key).or_default() += count;
        self.keys += counts.len() - before;
    }

    /// Joins the notes of a released subtransaction with those of its parent: the fewer are added to the others.
    fn release(&mut self, own: u32, parent: u32) {
        let Some(mut released) = self.levels.pop_if(|last| last.owner >= own) else { return };
        let Some(into) = self.levels.last_mut().filter(|last| last.owner == parent) else {
            return self.levels.push(Notes { owner: parent, ..released });
        };
        if released.counts.len() > into.counts.len() {
            std::mem::swap(&mut released.counts, &mut into.counts);
        }
        let before = released.counts.len() + into.counts.len();
        released.counts.into_iter().for_each(|(key, count)| *into.counts.entry(key).or_default() += count);
        self.keys -= before - into.counts.len();
    }

    fn roll_back(&mut self, own: u32) {
        let first = nesting::first_since(&self.levels, own, |notes| notes.owner);
        self.keys -= self.levels.drain(first..).map(|notes| notes.counts.len()).sum::<usize>();
    }

    fn take(&mut self) -> BTreeMap<ObservationKey, i64> {
        let mut counts: BTreeMap<ObservationKey, i64> = BTreeMap::new();
        for (key, count) in self.levels.drain(..).flat_map(|notes| notes.counts) {
            *counts.entry(key).or_default() += count;
        }
        self.keys = 0;
        counts
    }
}

/// Writes what was noted. Under READ COMMITTED it adds to existing counts that no other transaction has locked; a transaction with one
/// snapshot only inserts, since reading could make it fail.
pub fn write(connection: &Connection) {
    let counts = NOTES.with_borrow_mut(AllNotes::take);
    if !counts.is_empty() {
        observation_counts::write(connection, &counts, !xact::uses_transaction_snapshot());
    }
}

/// Forgets everything, at the end of the transaction.
pub fn clear() {
    NOTES.with_borrow_mut(|notes| drop(notes.take()));
    DELAY.set(Duration::ZERO);
}

pub fn released(own: u32, parent: u32) {
    NOTES.with_borrow_mut(|notes| notes.release(own, parent));
}

pub fn rolled_back(own: u32) {
    NOTES.with_borrow_mut(|notes| notes.roll_back(own));
}
