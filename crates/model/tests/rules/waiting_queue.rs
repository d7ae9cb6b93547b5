//! The queue of waiting calls by itself: its bounds, names whose quick hashes collide, and names that come free again.

use claims_model::Bucket;
use claims_model::waiting::{
    Arrival, Effects, KEPT_US, POLL_US, PRIORITY_US, QueuedName, WaiterSlot, WaitingQueue, Wish, quick_hash, seen,
};

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
type Small = WaitingQueue<3, NAMES, 1>;

fn empty() -> Small {
    zerocopy::FromZeros::new_zeroed()
}

fn arrival(process: u32, now: i64) -> Arrival {
    Arrival { process, database: 5, cell_id: process.into(), priority: 0, now }
}

fn creates(names: &[QueuedName]) -> Vec<Wish> {
    names.iter().map(|name| Wish { name: *name, creates: true }).collect()
}

fn joined(queue: &mut Small, process: u32, now: i64, names: &[QueuedName], effects: &mut Recorded) -> WaiterSlot {
    let place = queue.join(arrival(process, now), 3).expect("there is room");
    assert!(queue.wait_for(place, &creates(names), now, now, effects), "the names are new");
    place
}

const ADA: QueuedName = QueuedName { quick: 7, exact: [1, 0] };
/// A name with the quick hash of the other one.
const BEA: QueuedName = QueuedName { quick: 7, exact: [2, 0] };
const CYD: QueuedName = QueuedName { quick: 8, exact: [3, 0] };

#[test]
fn the_times_are_those_of_the_documents() {
    assert_eq!((KEPT_US, POLL_US, PRIORITY_US), (100_000, 50_000, 1_000_000));
}

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
fn half_of_the_places_are_of_one_cell_at_most() {
    let mut queue = empty();
    let of = |process, database, cell_id| Arrival { database, cell_id, ..arrival(process, 10) };
    assert!(queue.join(of(1, 5, 1), 3).is_some() && queue.join(of(2, 5, 1), 3).is_some());
    assert_eq!(queue.join(of(3, 5, 1), 3), None, "two of three are more than the half");
    assert_eq!(queue.join(of(3, 5, 1), 4), None);
    assert!(queue.join(of(3, 6, 1), 3).is_some(), "a cell of another database");
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
    assert!(!queue.wait_for(place, &creates(&[ADA]), 40, 40, &mut effects));
    assert_eq!(before(&mut queue, ADA, &mut effects), 1);
    effects.woken.clear();
    queue.ended(CYD.quick, true, 50, &mut effects);
    assert_eq!(effects.woken, [] as [u32; 0]);
}

#[test]
fn a_call_waits_in_order_for_its_first_names() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    let place = joined(&mut queue, 1, 10, &[ADA, BEA, CYD], &mut effects);
    assert_eq!(seen(queue.waiters())[0].names, NAMES);
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
    assert!(
        queue.wait_for(first, &creates(&[ADA]), again + KEPT_US, again + KEPT_US, &mut effects),
        "it is registered again"
    );
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
        queue.wait_for(place, &creates(&[ADA]), now, now, &mut effects);
    }
    // 2 began a second later, and is two priorities higher; 3 began four seconds after that, and is two higher.
    let order: Vec<_> = seen(queue.waiters()).iter().map(|waiter| (waiter.process, waiter.position)).collect();
    assert_eq!(order, [(2, 1), (1, 2), (3, 3)]);
}

#[test]
fn a_hopeless_waiter_says_so_before_its_turn() {
    let (mut queue, mut effects) = (empty(), Recorded::default());
    for (process, creates) in [(1, true), (2, true), (3, false)] {
        let place = queue.join(arrival(process, 10), 3).expect("there is room");
        queue.wait_for(place, &[Wish { name: ADA, creates }], 10, 10, &mut effects);
    }
    let mut woken = |has_owner| {
        effects.woken.clear();
        queue.ended(ADA.quick, has_owner, 20, &mut effects);
        effects.woken.clone()
    };
    // It has an owner now: nobody can create it, and the third call can destroy it in its turn.
    assert_eq!(woken(true), [1, 2]);
    // It has none: the third call can never destroy it.
    assert_eq!(woken(false), [1, 3]);
}

#[test]
fn names_of_two_databases_are_two_names() {
    let bucket = Bucket { bucket_type: 1, value: "ada".into() };
    assert_ne!(QueuedName::of(5, &bucket).exact, QueuedName::of(6, &bucket).exact);
    assert_ne!(quick_hash(5, &bucket), quick_hash(6, &bucket));
    assert_eq!(QueuedName::of(5, &bucket), QueuedName::of(5, &bucket));
}

/// Changes a queue at random, and compares it with a list of who waits for what. Few chains, slots and quick hashes, so that all of them
/// are shared.
#[test]
fn chains_have_all_waiters_in_their_order() {
    const WAITERS: usize = 6;
    let names: Vec<QueuedName> =
        (0..6).map(|number| QueuedName { quick: number / 2, exact: [number + 1, 0] }).collect();
    let mut queue: WaitingQueue<WAITERS, 3, 2> = zerocopy::FromZeros::new_zeroed();
    let mut effects = Recorded::default();
    let mut waiters: Vec<(WaiterSlot, i64, Vec<QueuedName>)> = Vec::new();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for step in 0..20_000_i64 {
        match random(4) {
            0 => {
                let priority = random(5) as i32 - 2;
                let process = step as u32 + 1;
                let place = queue.join(Arrival { priority, ..arrival(process, step) }, WAITERS);
                assert_eq!(place.is_some(), waiters.len() < WAITERS);
                waiters.extend(place.map(|place| (place, step - i64::from(priority) * 1_000_000, Vec::new())));
                waiters.sort_by_key(|(_, rank, _)| *rank);
            }
            1 if !waiters.is_empty() => {
                let (place, ..) = waiters.remove(random(waiters.len()));
                let has_taken = random(2) == 0;
                queue.leave(place, |_| has_taken, step, &mut effects);
            }
            _ if !waiters.is_empty() => {
                let chosen = random(waiters.len());
                let mut wanted: Vec<QueuedName> = (0..random(5)).map(|_| names[random(names.len())]).collect();
                wanted.dedup();
                let (place, _, registered) = &mut waiters[chosen];
                queue.wait_for(*place, &creates(&wanted), step, step, &mut effects);
                wanted.truncate(3);
                *registered = wanted;
            }
            _ => {}
        }
        assert_eq!(queue.len(), waiters.len());
        for name in &names {
            let all: Vec<WaiterSlot> =
                waiters.iter().filter(|(.., of)| of.contains(name)).map(|(place, ..)| *place).collect();
            assert_eq!(queue.count_before(None, name), all.len());
            for (number, place) in all.iter().enumerate() {
                assert_eq!(queue.count_before(Some(*place), name), number);
            }
        }
    }
    // The end of a lease wakes the first waiter of each name with its quick hash, and nobody else.
    effects.woken.clear();
    queue.ended(1, false, 20_000, &mut effects);
    let process = |place: WaiterSlot| (1..=20_001).find(|process| queue.is_of(place, *process)).expect("it waits");
    let firsts = names[2..4].iter().filter_map(|name| waiters.iter().find(|(.., of)| of.contains(name)));
    let mut firsts: Vec<u32> = firsts.map(|(place, ..)| process(*place)).collect();
    firsts.sort_unstable();
    effects.woken.sort_unstable();
    assert_eq!(effects.woken, firsts);
    for (place, ..) in waiters {
        queue.leave(place, |_| false, 20_001, &mut effects);
    }
    assert_eq!((queue.len(), effects.registered.len()), (0, 0));
}
