//! The requests that processes have taken in the current transaction. They correspond to row locks, and end with them:
//! at the end of the transaction, or when the subtransaction that took them is rolled back.

use std::cell::RefCell;

use pgrx::Uuid as PgUuid;

use crate::pg::transaction_end::current_subtransaction;
use crate::store::holds::requests::InHand;

/// The requests of one take.
struct Hand {
    process: [u8; 16],
    queue: String,
    entity: String,
    is_create: bool,
    ids: Vec<i64>,
    taken_in: u32,
    settled_in: Option<u32>,
}

thread_local! {
    static HANDS: RefCell<Vec<Hand>> = const { RefCell::new(Vec::new()) };
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
        settled_in: None,
    };
    HANDS.with_borrow_mut(|hands| hands.push(hand));
}

/// Returns the requests that the process has taken and not settled.
pub fn of(process: PgUuid) -> Vec<InHand> {
    let mine = |hand: &&Hand| hand.settled_in.is_none() && hand.process == *process.as_bytes();
    let in_hand = |hand: &Hand| InHand {
        queue: hand.queue.clone(),
        entity: hand.entity.clone(),
        is_create: hand.is_create,
        ids: hand.ids.clone(),
    };
    HANDS.with_borrow(|hands| hands.iter().filter(mine).map(in_hand).collect())
}

/// Marks the requests of the process as settled.
pub fn settled(process: PgUuid) {
    let settled_in = Some(current_subtransaction());
    HANDS.with_borrow_mut(|hands| {
        for hand in hands.iter_mut().filter(|hand| hand.settled_in.is_none() && hand.process == *process.as_bytes()) {
            hand.settled_in = settled_in;
        }
    });
}

/// Returns the entities of a queue that this transaction has taken, for any process.
pub fn entities(queue: &str) -> Vec<String> {
    let in_hand = |hand: &&Hand| hand.settled_in.is_none() && hand.queue == queue;
    HANDS.with_borrow(|hands| hands.iter().filter(in_hand).map(|hand| hand.entity.clone()).collect())
}

pub fn forget_all() {
    HANDS.with_borrow_mut(Vec::clear);
}

/// Undoes the changes of an aborted subtransaction. Subtransaction ids increase, so entries from `aborted` on belong to
/// it or to its children.
pub fn subtransaction_aborted(aborted: u32) {
    HANDS.with_borrow_mut(|hands| {
        hands.retain(|hand| hand.taken_in < aborted);
        for hand in hands.iter_mut().filter(|hand| hand.settled_in.is_some_and(|number| number >= aborted)) {
            hand.settled_in = None;
        }
    });
}
