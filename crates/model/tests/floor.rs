//! Lists of leases that begin at a floor, while leases are begun: in every order of their steps no list misses a lease.
//!
//! The code itself is run. What a begin does to the marks is written down once; then lists are read, and before each of their steps
//! some of the begin's are done, as many as the order that is tried has there.

use std::cell::{Cell, RefCell};

use claims_model::floor::{Look, Mark, Marks, Phase};

/// A clock that is far ahead of all leases, so that nothing but the marks keeps a list from leaving them out.
const NOW: i64 = 1_000_000;
/// How many lists are read: they begin a phase, end it, and use the floor.
const LISTS: usize = 4;

/// A mark on which steps are only written down.
struct Recorder<'r>(Which, &'r RefCell<Vec<Step>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Low,
    Floor,
}

/// What a transaction that begins a lease does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Gets its id, and puts the lease's row into the table.
    Inserts,
    Lowers(Which, i64),
    Ends(Ending),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Commits,
    RollsBack,
}

impl Mark for Recorder<'_> {
    fn read(&self) -> i64 {
        panic!("a begin reads no mark: what it does would depend on that");
    }

    fn write(&self, _: i64) {
        panic!("a begin only lowers marks");
    }

    fn lower(&self, moment: i64) {
        self.1.borrow_mut().push(Step::Lowers(self.0, moment));
    }
}

/// The steps of a begin, as the code has them.
fn steps_of_begin(moment: i64, ending: Ending) -> Vec<Step> {
    let steps = RefCell::new(vec![Step::Inserts]);
    Marks { low: &Recorder(Which::Low, &steps), floor: &Recorder(Which::Floor, &steps) }.begun(moment);
    steps.borrow_mut().push(Step::Ends(ending));
    steps.into_inner()
}

/// Everything that is shared.
struct World {
    low: Cell<i64>,
    floor: Cell<i64>,
    next_transaction: Cell<u64>,
    running: Cell<Option<u64>>,
    committed: Cell<bool>,
    moment: i64,
    begin: Vec<Step>,
    /// How many of its steps are done, and before which step of the lists each of them is.
    done: Cell<usize>,
    order: Vec<usize>,
    at: Cell<usize>,
}

impl World {
    fn new(moment: i64, begin: Vec<Step>, order: Vec<usize>) -> Self {
        let (low, floor) = (Cell::new(0), Cell::new(0));
        let (next_transaction, running) = (Cell::new(100), Cell::new(None));
        let (committed, done, at) = (Cell::new(false), Cell::new(0), Cell::new(0));
        World { low, floor, next_transaction, running, committed, moment, begin, done, order, at }
    }

    /// Before each step of a list.
    fn others_go_on(&self) {
        let at = self.at.get();
        self.at.set(at + 1);
        while self.done.get() < self.begin.len() && self.order[self.done.get()] <= at {
            let step = self.begin[self.done.get()];
            self.done.set(self.done.get() + 1);
            match step {
                Step::Inserts => self.running.set(Some(self.new_transaction())),
                Step::Lowers(which, moment) => {
                    let mark = self.mark(which);
                    mark.set(mark.get().min(moment));
                }
                Step::Ends(ending) => {
                    self.running.set(None);
                    self.committed.set(ending == Ending::Commits);
                }
            }
        }
    }

    fn new_transaction(&self) -> u64 {
        let id = self.next_transaction.get();
        self.next_transaction.set(id + 1);
        id
    }

    fn mark(&self, which: Which) -> &Cell<i64> {
        match which {
            Which::Low => &self.low,
            Which::Floor => &self.floor,
        }
    }
}

/// A mark as lists see it.
struct Shared<'w>(Which, &'w World);

impl Mark for Shared<'_> {
    fn read(&self) -> i64 {
        self.1.others_go_on();
        self.1.mark(self.0).get()
    }

    fn write(&self, moment: i64) {
        self.1.others_go_on();
        self.1.mark(self.0).set(moment);
    }

    fn lower(&self, moment: i64) {
        self.1.others_go_on();
        let mark = self.1.mark(self.0);
        mark.set(mark.get().min(moment));
    }
}

/// Reads lists. Returns how many steps they took, and whether one has missed the lease.
fn read_lists(world: &World) -> (usize, bool) {
    let marks = Marks { low: &Shared(Which::Low, world), floor: &Shared(Which::Floor, world) };
    let mut phase = Phase::default();
    let mut has_missed = false;
    for number in 0..LISTS as i64 {
        // Each list is a moment later than the one before, which may have published a floor.
        let now = NOW + 10 * number;
        world.others_go_on();
        let (running, shows) = (world.running.get().unwrap_or(world.next_transaction.get()), world.committed.get());
        let from = if phase.is_for_query_of(now - 5, now) { marks.floor.read() } else { i64::MIN };
        let is_listed = shows && world.moment >= from;
        has_missed |= shows && !is_listed;
        let look = Look { from, oldest: is_listed.then_some(world.moment), running, shown_until: now - 5, now };
        marks.looked(&mut phase, &look, || {
            world.others_go_on();
            world.next_transaction.get()
        });
    }
    (world.at.get(), has_missed)
}

/// Every way to distribute the steps of a begin over those of the lists.
fn each_order(steps: usize, places: usize, mut each: impl FnMut(&[usize])) {
    fn extend(order: &mut Vec<usize>, steps: usize, places: usize, each: &mut impl FnMut(&[usize])) {
        if order.len() == steps {
            return each(order);
        }
        for place in order.last().copied().unwrap_or(0)..places {
            order.push(place);
            extend(order, steps, places, each);
            order.pop();
        }
    }
    extend(&mut Vec::new(), steps, places, &mut each);
}

#[test]
fn no_list_misses_a_lease_whatever_the_order() {
    // The longest way that a list can take, and one place behind all of them.
    let places = read_lists(&World::new(0, Vec::new(), Vec::new())).0 + 2;
    for moment in [1, NOW - 7] {
        for ending in [Ending::Commits, Ending::RollsBack] {
            let begin = steps_of_begin(moment, ending);
            let mut orders = 0;
            each_order(begin.len(), places, |order| {
                orders += 1;
                let world = World::new(moment, begin.clone(), order.to_vec());
                let (_, has_missed) = read_lists(&world);
                assert!(!has_missed, "missed, with the steps {begin:?} before {order:?}");
            });
            assert!(orders > 10_000, "only {orders} orders");
        }
    }
}

#[test]
fn a_floor_is_known_after_two_lists_and_rises() {
    let world = World::new(0, Vec::new(), Vec::new());
    read_lists(&world);
    assert!(world.floor.get() >= NOW);
}

#[test]
fn a_query_that_is_older_than_the_floor_does_not_use_it() {
    let phase = Phase { since: 7, published_at: 100, looked_at: 100 };
    assert!(phase.is_for_query_of(101, 120));
    assert!(!phase.is_for_query_of(100, 120) && !phase.is_for_query_of(99, 120));
    assert!(!Phase { published_at: 0, ..phase }.is_for_query_of(101, 120));
}

#[test]
fn nobody_trusts_a_floor_for_long_without_a_look_below_it() {
    let phase = Phase { since: 7, published_at: 100, looked_at: 100 };
    let limit = 100 + claims_model::floor::TRUST;
    assert!(phase.is_for_query_of(101, limit) && !phase.is_for_query_of(101, limit + 1));
    // The clock has gone back.
    assert!(!phase.is_for_query_of(101, 99));
}

#[test]
fn while_an_old_transaction_runs_the_floor_stays() {
    let marks = Marks { low: &Cell64(Cell::new(0)), floor: &Cell64(Cell::new(0)) };
    let look = |from, oldest, running| Look { from, oldest, running, shown_until: 500, now: 500 };
    let mut phase = Phase::default();
    marks.looked(&mut phase, &look(i64::MIN, None, 10), || 10);
    marks.looked(&mut phase, &look(i64::MIN, None, 10), || 20);
    assert_eq!((marks.floor.read(), phase.since), (500, 20));
    // The oldest running one is older than the phase: nothing is learned but what was written by hand.
    marks.looked(&mut phase, &look(500, None, 19), || 30);
    assert_eq!((marks.floor.read(), phase.since), (500, 20));
    marks.looked(&mut phase, &look(i64::MIN, Some(3), 19), || 30);
    assert_eq!((marks.floor.read(), phase.since), (3, 20));
    // All of them have ended.
    marks.looked(&mut phase, &look(3, None, 20), || 30);
    assert_eq!((marks.floor.read(), phase.since), (500, 30));
}

struct Cell64(Cell<i64>);

impl Mark for Cell64 {
    fn read(&self) -> i64 {
        self.0.get()
    }

    fn write(&self, moment: i64) {
        self.0.set(moment);
    }

    fn lower(&self, moment: i64) {
        self.0.set(self.0.get().min(moment));
    }
}
