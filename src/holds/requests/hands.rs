//! The requests that processes have taken in the current transaction. They correspond to row locks, and end with them:
//! at the end of the transaction, or when the subtransaction that took them is rolled back.

use std::cell::RefCell;

use claims_model::nesting;
use pgrx::Uuid as PgUuid;

use pg::transaction_end::current_subtransaction;

/// Requests of one entity that one process has taken.
pub struct InHand {
    pub queue: String,
    pub entity: String,
    pub is_create: bool,
    pub ids: Vec<i64>,
}

/// The requests of one take.
struct Hand {
    process: [u8; 16],
    queue: String,
    entity: String,
    is_create: bool,
    ids: Vec<i64>,
    taken_in: u32,
    is_settled: bool,
}

/// The hands of this transaction in the order in which they were taken, and the positions of those that were settled, in that order. Each is
/// with the subtransaction that has done it ([`nesting`]).
struct Hands {
    taken: Vec<Hand>,
    settled: Vec<(u32, usize)>,
}

thread_local! {
    static HANDS: RefCell<Hands> = const { RefCell::new(Hands { taken: Vec::new(), settled: Vec::new() }) };
}

pub fn take(process: PgUuid, taken: InHand) {
    let InHand { queue, entity, is_create, ids } = taken;
    let hand = Hand {
        process: *process.as_bytes(),
        queue,
        entity,
        is_create,
        ids,
        taken_in: current_subtransaction(),
        is_settled: false,
    };
    HANDS.with_borrow_mut(|hands| hands.taken.push(hand));
}

/// Returns the requests that the process has taken and not settled.
pub fn of(process: PgUuid) -> Vec<InHand> {
    let mine = |hand: &&Hand| !hand.is_settled && hand.process == *process.as_bytes();
    let in_hand = |hand: &Hand| InHand {
        queue: hand.queue.clone(),
        entity: hand.entity.clone(),
        is_create: hand.is_create,
        ids: hand.ids.clone(),
    };
    HANDS.with_borrow(|hands| hands.taken.iter().filter(mine).map(in_hand).collect())
}

/// Marks the requests of the process as settled.
pub fn settled(process: PgUuid) {
    let own = current_subtransaction();
    HANDS.with_borrow_mut(|Hands { taken, settled }| {
        for (at, hand) in taken.iter_mut().enumerate() {
            if !hand.is_settled && hand.process == *process.as_bytes() {
                hand.is_settled = true;
                settled.push((own, at));
            }
        }
    });
}

/// Returns the entities of a queue that this transaction has taken, for any process.
pub fn entities(queue: &str) -> Vec<String> {
    let in_hand = |hand: &&Hand| !hand.is_settled && hand.queue == queue;
    HANDS.with_borrow(|hands| hands.taken.iter().filter(in_hand).map(|hand| hand.entity.clone()).collect())
}

pub fn forget_all() {
    HANDS.with_borrow_mut(|Hands { taken, settled }| {
        taken.clear();
        settled.clear();
    });
}

/// Undoes the changes of an aborted subtransaction.
pub fn subtransaction_aborted(aborted: u32) {
    HANDS.with_borrow_mut(|Hands { taken, settled }| {
        taken.truncate(nesting::first_since(taken, aborted, |hand| hand.taken_in));
        for (_, at) in settled.drain(nesting::first_since(settled, aborted, |(own, _)| *own)..) {
            if let Some(hand) = taken.get_mut(at) {
                hand.is_settled = false;
            }
        }
    });
}
