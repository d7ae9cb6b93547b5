//! The queue of waiting calls by itself: its bounds, names whose quick hashes collide, and names that come free again.

use claims_model::Bucket;
use claims_model::waiting::{Arrival, Effects, KEPT_US, Name, Place, Queue, quick_hash};

#[derive(Default)]
struct Recorded {
    woken: Vec<u32>,
    registered: Vec<u64>,
}

impl Effects for Recorded {
    fn wake(&mut self, process: u32) {
        self.woken.push(process);
    }

    fn registered(&mut self, quick: u64) {
        self.registered.push(quick);
    }

    fn unregistered(&mut self, quick: u64) {
        let at = self.registered.iter().position(|of| *of == quick).expect("it was registered");
        self.registered.swap_remove(at);
    }
}

const NAMES: usize = 2;
type Small = Queue<3, NAMES>;

fn empty() -> Small {
    zerocopy::FromZeros::new_zeroed()
}

fn arrival(process: u32, now: i64) -> Arrival {
    Arrival { process, database: 5, cell_id: 1, priority: 0, now }
}

fn joined(queue: &mut Small, process: u32, now: i64, names: &[Name], effects: &mut Recorded) -> Place {
    let place = queue.join(arrival(process, now), 3).expect("there is room");
    assert!(queue.wait_for(place, names, now, now, effects), "the names are new");
    place
}

const ADA: Name = Name { quick: 7, exact: [1, 0] };
/// A name with the quick hash of the other one.
const BEA: Name = Name { quick: 7, exact: [2, 0] };
const CYD: Name = Name { quick: 8, exact: [3, 0] };

#[test]
fn a_full_queue_takes_nobody() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    let places: Vec<_> = (1..=3).filter_map(|process| queue.join(arrival(process, 10), 9)).collect();
    assert_eq!(places.len(), 3);
    assert_eq!(queue.join(arrival(4, 10), 9), None, "all slots are taken");
    queue.leave(places[1], |_| false, 20, &mut effects);
    assert_eq!(queue.join(arrival(4, 20), 2), None, "two wait, and no more than two may");
    assert_eq!(queue.join(arrival(4, 20), 3), Some(places[1]), "the slot is free");
    assert_eq!(queue.join(arrival(5, 20), 0), None);
    queue.remove_gone(|process| process != 4, 30, &mut effects);
    assert_eq!(queue.len(), 2);
}

#[test]
fn a_colliding_name_is_nobody_elses() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    let place = joined(&mut queue, 1, 10, &[ADA], &mut effects);
    // A begin of the other name is not refused, and neither is it while the first one is kept.
    let before =
        |queue: &mut Small, name, effects: &mut Recorded| queue.waiters_before(None, &[name], 20, effects)[0].waiters;
    assert_eq!(before(&mut queue, BEA, &mut effects), 0);
    assert_eq!(before(&mut queue, ADA, &mut effects), 1);
    assert_eq!(before(&mut queue, BEA, &mut effects), 0);
    // The end of a lease on the other name wakes the waiter without need.
    effects.woken.clear();
    queue.ended(BEA.quick, false, 30, &mut effects);
    assert_eq!(effects.woken, [1]);
    // It finds its own name held, goes on waiting, and loses nothing.
    assert!(!queue.wait_for(place, &[ADA], 40, 40, &mut effects));
    assert_eq!(before(&mut queue, ADA, &mut effects), 1);
    effects.woken.clear();
    queue.ended(CYD.quick, true, 50, &mut effects);
    assert_eq!(effects.woken, [] as [u32; 0]);
}

#[test]
fn a_call_waits_in_order_for_its_first_names() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    let place = joined(&mut queue, 1, 10, &[ADA, BEA, CYD], &mut effects);
    assert_eq!(queue.seen()[0].names, NAMES);
    assert_eq!(queue.waiters_before(None, &[CYD], 20, &mut effects)[0].waiters, 0);
    queue.leave(place, |_| true, 30, &mut effects);
    assert_eq!((queue.len(), effects.registered.len()), (0, 0));
}

#[test]
fn a_name_that_comes_free_again_is_kept_again() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    let first = joined(&mut queue, 1, 10, &[ADA], &mut effects);
    joined(&mut queue, 2, 11, &[ADA], &mut effects);
    queue.ended(ADA.quick, false, 1_000, &mut effects);
    // Somebody took it before the first waiter could, and gave it back when the first waiter's time would have been over.
    let again = 1_000 + KEPT_US + 1;
    queue.ended(ADA.quick, false, again, &mut effects);
    let kept = |queue: &mut Small, now, effects: &mut Recorded| queue.waiters_before(None, &[ADA], now, effects)[0];
    assert_eq!(kept(&mut queue, again + 1, &mut effects).kept_until, Some(again + KEPT_US));
    assert_eq!(kept(&mut queue, again + 1, &mut effects).waiters, 2);
    // It is not kept for longer than that: then the second one is next, and the first one has to register again.
    effects.woken.clear();
    assert_eq!(kept(&mut queue, again + KEPT_US, &mut effects).waiters, 1);
    assert_eq!(effects.woken, [2]);
    assert!(queue.wait_for(first, &[ADA], again + KEPT_US, again + KEPT_US, &mut effects), "it is registered again");
    assert_eq!(kept(&mut queue, again + KEPT_US + 1, &mut effects).waiters, 2);
}

#[test]
fn waiters_are_counted_without_an_offer() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    let first = joined(&mut queue, 1, 10, &[ADA], &mut effects);
    let second = joined(&mut queue, 2, 11, &[ADA], &mut effects);
    assert_eq!(queue.count_before(None, &ADA), 2);
    assert_eq!(queue.count_before(Some(second), &ADA), 1);
    assert_eq!(queue.count_before(Some(first), &ADA), 0);
    assert_eq!(queue.count_before(None, &BEA), 0);
    assert_eq!(effects.woken, [] as [u32; 0]);
}

#[test]
fn a_second_of_waiting_counts_as_a_priority_of_one() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    for (process, now, priority) in [(1, 0, -2), (2, 1_000_000, 0), (3, 5_000_000, 2)] {
        let place = queue.join(Arrival { priority, ..arrival(process, now) }, 3).expect("there is room");
        queue.wait_for(place, &[ADA], now, now, &mut effects);
    }
    // 2 began a second later, and is two priorities higher; 3 began four seconds after that, and is two higher.
    let order: Vec<_> = queue.seen().iter().map(|waiter| (waiter.process, waiter.position)).collect();
    assert_eq!(order, [(2, 1), (1, 2), (3, 3)]);
}

#[test]
fn names_of_two_databases_are_two_names() {
    let bucket = Bucket { bucket_type: 1, value: "ada".into() };
    assert_ne!(Name::of(5, &bucket).exact, Name::of(6, &bucket).exact);
    assert_ne!(quick_hash(5, &bucket), quick_hash(6, &bucket));
    assert_eq!(Name::of(5, &bucket), Name::of(5, &bucket));
}
