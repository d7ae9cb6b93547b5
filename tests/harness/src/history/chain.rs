//! The leases of one bucket, in the only order in which they can have held it.

use super::event::{Outcome, State, Window};
use super::tenure::Tenure;

/// The part of a lease in one bucket's history.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    pub tenure: &'a Tenure,
    pub creates: bool,
}

/// A state, and the longest time for which it can have lasted.
pub type Segment = (State, Window);

/// A chain of leases, with its contradictions.
#[derive(Debug, Default)]
pub struct Chain {
    pub segments: Vec<Segment>,
    pub problems: Vec<String>,
    /// Whether two cells had the bucket at once, by their answers.
    pub doubled: bool,
}

impl Chain {
    /// Returns the state at the end.
    pub fn last(&self) -> State {
        self.segments.last().map_or(State::Free, |(state, _)| *state)
    }
}

/// Sorts the links and follows the bucket through them.
///
/// A link certainly holds the bucket from `begin.hi` to `end.lo` if its begin was acknowledged before its end was
/// requested. Sorting by `begin.hi` gives the only order of such links that can be free of overlaps. A lease that
/// begins and ends in one transaction holds the bucket for a moment in its window. Its acknowledgement may come later
/// than that of the next lease. So the function searches for an order in which everything fits. If an order has a
/// possible course, then so has the course in which everything happens as early as its window allows.
pub fn follow(bucket: &str, mut links: Vec<Link>) -> Chain {
    links.sort_by_key(|l| (l.tenure.begin.hi, l.tenure.end.lo, l.tenure.end.hi));
    let mut search = Search { left: links.clone(), placed: Vec::new(), steps: 0 };
    if search.place(0, State::Free) {
        links = search.placed;
    }
    let mut chain = Chain { segments: vec![(State::Free, Window::new(0, u64::MAX))], ..Chain::default() };
    let mut now = 0;
    let mut before = None;
    for link in links {
        step(bucket, &mut chain, link);
        for (what, at) in [("begin", link.tenure.begin), ("end", link.tenure.end)] {
            now = now.max(at.lo);
            if now > at.hi {
                let t = link.tenure;
                chain.doubled |= before.is_some_and(|cell| cell != t.cell);
                chain.problems.push(format!(
                    "bucket {bucket}: lease {} of cell {} overlaps the lease before it (its {what} was over \
                     {:.3} ms before that one can have ended)",
                    t.lease,
                    t.cell,
                    (now - at.hi) as f64 / 1e6
                ));
            }
        }
        before = Some(link.tenure.cell);
    }
    chain
}

/// A search for an order in which every link finds the state that it needs within its windows.
struct Search<'a> {
    left: Vec<Link<'a>>,
    placed: Vec<Link<'a>>,
    steps: usize,
}

impl Search<'_> {
    /// How many of the remaining links may be out of order, and the limit of the search.
    const AHEAD: usize = 16;
    const MOST_STEPS: usize = 1_000_000;

    /// Places all remaining links from this time and state on.
    fn place(&mut self, now: u64, found: State) -> bool {
        if self.left.is_empty() {
            return true;
        }
        for at in 0..self.left.len().min(Self::AHEAD) {
            self.steps += 1;
            if self.steps > Self::MOST_STEPS {
                return false;
            }
            let link = self.left[at];
            let begun = now.max(link.tenure.begin.lo);
            let ended = begun.max(link.tenure.end.lo);
            if link.needs() != found || begun > link.tenure.begin.hi || ended > link.tenure.end.hi {
                continue;
            }
            self.placed.push(self.left.remove(at));
            if self.place(ended, link.leaves()) {
                return true;
            }
            self.placed.pop();
            self.left.insert(at, link);
        }
        false
    }
}

impl Link<'_> {
    fn needs(&self) -> State {
        if self.creates { State::Free } else { State::Active(self.tenure.cell) }
    }

    fn leaves(&self) -> State {
        match (self.creates, self.tenure.outcome) {
            (true, Outcome::Committed) | (false, Outcome::RolledBack) => State::Active(self.tenure.cell),
            (true, Outcome::RolledBack) | (false, Outcome::Committed) => State::Free,
        }
    }
}

/// Applies one lease: the state it needs, the state it holds, the state it leaves.
fn step(bucket: &str, chain: &mut Chain, link: Link) {
    let Link { tenure, creates } = link;
    let cell = tenure.cell;
    let (needs, leaves) = (link.needs(), link.leaves());
    let holds = if creates { State::Creating(cell) } else { State::Destroying(cell) };
    let found = chain.last();
    if found != needs {
        chain.doubled |= found.owner().is_some_and(|owner| owner != cell);
        chain.problems.push(format!(
            "bucket {bucket}: lease {} of cell {cell} began on {found:?}, which only {needs:?} allows",
            tenure.lease
        ));
    }
    enter(chain, holds, Window::new(tenure.begin.lo, tenure.shown));
    enter(chain, leaves, tenure.end);
}

/// Enters a state. Clients see the change at some time in the window.
fn enter(chain: &mut Chain, state: State, at: Window) {
    if let Some((_, extent)) = chain.segments.last_mut() {
        extent.hi = at.hi;
    }
    chain.segments.push((state, Window::new(at.lo, u64::MAX)));
}
