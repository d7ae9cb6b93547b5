//! The names that the current transaction could not claim, of those that are only observed. They are written to `claims.observed` when the
//! transaction's changes are sent, so only transactions that commit count.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use claims_model::observed::Missed;
use claims_model::origin::Declared;

use crate::pg::spi::Connection;
use crate::pg::transaction_end::current_subtransaction;
use crate::pg::xact;
use crate::store::cell::observations::{self, Key};

/// Most names that one transaction records. Further ones are counted without a name.
const MAX_NAMES: usize = 1000;

/// Something that could not be claimed, with the subtransaction that has noted it.
type Note = (u32, Key, i64);

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
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
    NOTES.with_borrow(Vec::is_empty)
}

/// Notes an outcome that is not about a name.
pub fn note(declared: &Declared, outcome: &str, count: i64) {
    add(Key::new(declared.table, &declared.column_name, outcome), count);
}

/// Notes names that could not be claimed.
pub fn note_missed(missed: Missed) {
    let Some(declared) = missed.create.ends.origin.0 else { return };
    let bucket = missed.create.bucket;
    let key = Key {
        bucket_type: Some(bucket.bucket_type.to_string()),
        bucket_value: Some(bucket.value),
        holder_cell_id: missed.holder_cell_id,
        ..Key::new(declared.table, &declared.column_name, &missed.outcome)
    };
    add(key, 1);
}

fn add(key: Key, count: i64) {
    let owner = current_subtransaction();
    NOTES.with_borrow_mut(|notes| {
        // A statement that writes many rows notes the same outcome for each.
        let is_same = |(of, noted, _): &Note| *of == owner && *noted == key;
        let known = notes.iter().rev().take(4).position(is_same).map(|from_end| notes.len() - 1 - from_end);
        let is_full = notes.len() >= MAX_NAMES;
        let nameless = || notes.iter().position(|(of, noted, _)| *of == owner && noted.is_without_name_of(&key));
        match known.or_else(|| if is_full { nameless() } else { None }) {
            Some(at) => notes[at].2 += count,
            None if is_full => notes.push((owner, key.without_name(), count)),
            None => notes.push((owner, key, count)),
        }
    });
}

/// Writes what was noted. Under READ COMMITTED it adds to existing counts that no other transaction has locked; a transaction with one
/// snapshot only inserts, since reading could make it fail.
pub fn write(connection: &Connection) {
    let mut counts: BTreeMap<Key, i64> = BTreeMap::new();
    for (_, key, count) in NOTES.take() {
        *counts.entry(key).or_default() += count;
    }
    if !counts.is_empty() {
        observations::write(connection, &counts, !xact::uses_transaction_snapshot());
    }
}

/// Forgets everything, at the end of the transaction.
pub fn clear() {
    NOTES.with_borrow_mut(Vec::clear);
    DELAY.set(Duration::ZERO);
}

pub fn released(own: u32, parent: u32) {
    NOTES.with_borrow_mut(|notes| {
        notes.iter_mut().filter(|(owner, ..)| *owner == own).for_each(|(owner, ..)| *owner = parent);
    });
}

pub fn rolled_back(own: u32) {
    NOTES.with_borrow_mut(|notes| notes.retain(|(owner, ..)| *owner != own));
}
