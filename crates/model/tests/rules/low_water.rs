//! Lists of leases that begin at the low-water mark, while leases are begun. In every order of their steps no list
//! misses a lease.
//!
//! The test runs the code itself. It records once how a begin changes the marks. Then it reads lists, and before each
//! step of a list it does as many steps of the begin as the tested order says.

use std::cell::{Cell, RefCell};

use claims_model::low_water::{LeaseList, Mark, Marks, Phase};

/// A clock far ahead of all leases, so that only the marks can make a list skip them.
const NOW: i64 = 1_000_000;
/// The number of lists. They begin a phase, end it, and use the low-water mark.
const LISTS: usize = 4;

/// A mark that only records the steps.
struct Recorder<'r>(Which, &'r RefCell<Vec<Step>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Low,
    Floor,
}

/// A step of a transaction that begins a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Gets its id, and inserts the lease's row.
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

/// Returns the steps of a begin, as the code does them.
fn steps_of_begin(moment: i64, ending: Ending) -> Vec<Step> {
    let steps = RefCell::new(vec![Step::Inserts]);
    Marks { low: &Recorder(Which::Low, &steps), low_water: &Recorder(Which::Floor, &steps) }.begun(moment);
    steps.borrow_mut().push(Step::Ends(ending));
    steps.into_inner()
}

/// The shared state.
struct World {
    low: Cell<i64>,
    low_water: Cell<i64>,
    next_transaction: Cell<u64>,
    running: Cell<Option<u64>>,
    committed: Cell<bool>,
    moment: i64,
    begin: Vec<Step>,
    /// The number of its steps that are done. `order` has, for each of them, the step of the lists before which it
    /// happens.
    done: Cell<usize>,
    order: Vec<usize>,
    at: Cell<usize>,
}

impl World {
    fn new(moment: i64, begin: Vec<Step>, order: Vec<usize>) -> Self {
        let (low, low_water) = (Cell::new(0), Cell::new(0));
        let (next_transaction, running) = (Cell::new(100), Cell::new(None));
        let (committed, done, at) = (Cell::new(false), Cell::new(0), Cell::new(0));
        World { low, low_water, next_transaction, running, committed, moment, begin, done, order, at }
    }

    /// Does the steps of the begin that come before the next step of a list.
    fn others_advance(&self) {
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
            Which::Floor => &self.low_water,
        }
    }
}

/// A mark as lists use it.
struct Shared<'w>(Which, &'w World);

impl Mark for Shared<'_> {
    fn read(&self) -> i64 {
        self.1.others_advance();
        self.1.mark(self.0).get()
    }

    fn write(&self, moment: i64) {
        self.1.others_advance();
        self.1.mark(self.0).set(moment);
    }

    fn lower(&self, moment: i64) {
        self.1.others_advance();
        let mark = self.1.mark(self.0);
        mark.set(mark.get().min(moment));
    }
}

/// Reads the lists. Returns how many steps they took, and whether one of them missed the lease.
fn read_lists(world: &World) -> (usize, bool) {
    let marks = Marks { low: &Shared(Which::Low, world), low_water: &Shared(Which::Floor, world) };
    let mut phase = Phase::default();
    let mut has_missed = false;
    for number in 0..LISTS as i64 {
        // Each list is later than the one before, which may have published a low-water mark.
        let now = NOW + 10 * number;
        world.others_advance();
        let (running, shows) = (world.running.get().unwrap_or(world.next_transaction.get()), world.committed.get());
        let from = if phase.is_for_query_of(now - 5, now) { marks.low_water.read() } else { i64::MIN };
        let is_listed = shows && world.moment >= from;
        has_missed |= shows && !is_listed;
        let list = LeaseList { from, oldest: is_listed.then_some(world.moment), running, shown_until: now - 5, now };
        marks.learn(&mut phase, &list, || {
            world.others_advance();
            world.next_transaction.get()
        });
    }
    (world.at.get(), has_missed)
}

/// Calls `each` with every distribution of the steps of a begin over those of the lists.
fn for_each_order(steps: usize, positions: usize, mut each: impl FnMut(&[usize])) {
    fn extend(order: &mut Vec<usize>, steps: usize, positions: usize, each: &mut impl FnMut(&[usize])) {
        if order.len() == steps {
            return each(order);
        }
        for place in order.last().copied().unwrap_or(0)..positions {
            order.push(place);
            extend(order, steps, positions, each);
            order.pop();
        }
    }
    extend(&mut Vec::new(), steps, positions, &mut each);
}

#[test]
fn no_list_misses_a_lease_whatever_the_order() {
    // The largest number of steps of a list, and one position after all of them.
    let positions = read_lists(&World::new(0, Vec::new(), Vec::new())).0 + 2;
    for moment in [1, NOW - 7] {
        for ending in [Ending::Commits, Ending::RollsBack] {
            let begin = steps_of_begin(moment, ending);
            let mut orders = 0;
            for_each_order(begin.len(), positions, |order| {
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
fn a_low_water_mark_is_set_after_two_lists_and_rises() {
    let world = World::new(0, Vec::new(), Vec::new());
    read_lists(&world);
    assert!(world.low_water.get() >= NOW);
}

#[test]
fn a_query_older_than_the_low_water_mark_does_not_use_it() {
    let phase = Phase { since: 7, published_at: 100, complete_until: 100 };
    assert!(phase.is_for_query_of(101, 120));
    assert!(!phase.is_for_query_of(100, 120) && !phase.is_for_query_of(99, 120));
    assert!(!Phase { published_at: 0, ..phase }.is_for_query_of(101, 120));
}

#[test]
fn a_low_water_mark_expires_without_a_list_from_the_beginning() {
    let phase = Phase { since: 7, published_at: 100, complete_until: 100 };
    let limit = 100 + claims_model::low_water::TRUST_US;
    assert!(phase.is_for_query_of(101, limit) && !phase.is_for_query_of(101, limit + 1));
    // The clock was set back.
    assert!(!phase.is_for_query_of(101, 99));
}

#[test]
fn an_old_transaction_keeps_the_low_water_mark_from_rising() {
    let marks = Marks { low: &Cell64(Cell::new(0)), low_water: &Cell64(Cell::new(0)) };
    let list = |from, oldest, running| LeaseList { from, oldest, running, shown_until: 500, now: 500 };
    let mut phase = Phase::default();
    marks.learn(&mut phase, &list(i64::MIN, None, 10), || 10);
    marks.learn(&mut phase, &list(i64::MIN, None, 10), || 20);
    assert_eq!((marks.low_water.read(), phase.since), (500, 20));
    // The oldest running transaction is older than the phase, so the mark changes only for rows that were written by
    // hand.
    marks.learn(&mut phase, &list(500, None, 19), || 30);
    assert_eq!((marks.low_water.read(), phase.since), (500, 20));
    marks.learn(&mut phase, &list(i64::MIN, Some(3), 19), || 30);
    assert_eq!((marks.low_water.read(), phase.since), (3, 20));
    // All of them have ended.
    marks.learn(&mut phase, &list(3, None, 20), || 30);
    assert_eq!((marks.low_water.read(), phase.since), (500, 30));
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
