//! One bucket's leases in the only order in which they can have held it.

use super::event::{Outcome, State, Window};
use super::tenure::Tenure;

/// A lease's part in one bucket's history.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    pub tenure: &'a Tenure,
    pub creates: bool,
}

/// A state and the longest time in which it can have lasted.
pub type Segment = (State, Window);

/// A chain that fits together, or the places where it does not.
#[derive(Debug, Default)]
pub struct Chain {
    pub segments: Vec<Segment>,
    pub problems: Vec<String>,
}

impl Chain {
    /// The state at the end.
    pub fn last(&self) -> State {
        self.segments.last().map_or(State::Free, |(state, _)| *state)
    }
}

/// Puts the links in order and follows the bucket through them.
///
/// A begin is always acknowledged before its end is asked for, so a link surely holds the bucket from
/// `begin.hi` to `end.lo`, and sorting by `begin.hi` gives the only order that can be free of overlaps. For
/// that order, letting everything happen as early as its window allows finds a possible course whenever
/// there is one.
pub fn follow(bucket: &str, mut links: Vec<Link>) -> Chain {
    links.sort_by_key(|l| (l.tenure.begin.hi, l.tenure.end.lo, l.tenure.end.hi));
    let mut chain = Chain { segments: vec![(State::Free, Window::new(0, u64::MAX))], problems: Vec::new() };
    let mut now = 0;
    for link in links {
        step(bucket, &mut chain, link);
        for (what, at) in [("begin", link.tenure.begin), ("end", link.tenure.end)] {
            now = now.max(at.lo);
            if now > at.hi {
                let t = link.tenure;
                chain.problems.push(format!(
                    "bucket {bucket}: lease {} of cell {} overlaps the lease before it (its {what} was over \
                     {:.3} ms before that one can have ended)",
                    t.lease,
                    t.cell,
                    (now - at.hi) as f64 / 1e6
                ));
            }
        }
    }
    chain
}

/// One lease: the state it needs, the state it holds, the state it leaves.
fn step(bucket: &str, chain: &mut Chain, link: Link) {
    let Link { tenure, creates } = link;
    let cell = tenure.cell;
    let needs = if creates { State::Free } else { State::Active(cell) };
    let holds = if creates { State::Creating(cell) } else { State::Destroying(cell) };
    let leaves = match (creates, tenure.outcome) {
        (true, Outcome::Committed) | (false, Outcome::RolledBack) => State::Active(cell),
        (true, Outcome::RolledBack) | (false, Outcome::Committed) => State::Free,
    };
    let found = chain.last();
    if found != needs {
        chain.problems.push(format!(
            "bucket {bucket}: lease {} of cell {cell} began on {found:?}, which only {needs:?} allows",
            tenure.lease
        ));
    }
    enter(chain, holds, Window::new(tenure.begin.lo, tenure.shown));
    enter(chain, leaves, tenure.end);
}

/// Clients see the state change at some moment of the window.
fn enter(chain: &mut Chain, state: State, at: Window) {
    if let Some((_, extent)) = chain.segments.last_mut() {
        extent.hi = at.hi;
    }
    chain.segments.push((state, Window::new(at.lo, u64::MAX)));
}
