//! Finds calls that have overtaken a waiter ([`crate::waiting`]), in a history that clients and an observer have recorded.
//! Times are microseconds of one clock, except where they are said to be the server's.
//!
//! The clients know when they have asked and when they had the answer. The observer has seen who waits. So not every pair
//! of calls can be compared: a pair counts only if the first call certainly waited for the name when the second one took
//! it, and if the name had not been free for so long that the first one may have lost its turn.

use std::collections::HashMap;
use std::hash::Hash;

use crate::waiting::{KEPT_US, PRIORITY_US};

/// The difference between two readings of one moment by the server's clock.
const CLOCK_US: i64 = 1_000;

/// A wait, as an observer has seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighted {
    /// The call waited from this time on, or earlier.
    pub from: i64,
    /// It still waited at this time.
    pub until: i64,
    /// When it began to wait, by the server's clock.
    pub since: i64,
}

/// A call that has taken a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taking<N> {
    pub name: N,
    /// When the client has sent the call, and when it had the answer.
    pub asked: i64,
    pub got: i64,
    /// Its priority, if it was ready to wait.
    pub priority: Option<i32>,
    /// `None` for a call that was not seen waiting for this name. A call that waited for several is not: it may have
    /// waited for another one.
    pub sighted: Option<Sighted>,
}

/// The end of a lease on a name: not before this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed<N> {
    pub name: N,
    pub from: i64,
}

/// The verdict on a history.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Overtakings {
    /// The pairs that could be compared.
    pub compared: usize,
    /// The positions of calls that were overtaken, each with that of the call that overtook it.
    pub found: Vec<(usize, usize)>,
}

/// Compares all calls for each name.
pub fn overtakings<N: Eq + Hash + Copy>(takings: &[Taking<N>], freed: &[Freed<N>]) -> Overtakings {
    let mut by_name: HashMap<N, (Vec<usize>, Vec<i64>)> = HashMap::new();
    for (number, taking) in takings.iter().enumerate() {
        by_name.entry(taking.name).or_default().0.push(number);
    }
    for Freed { name, from } in freed {
        by_name.entry(*name).or_default().1.push(*from);
    }
    let mut all = Overtakings::default();
    for (calls, freed) in by_name.values() {
        for first in calls {
            let Some(waiter) = takings[*first].sighted else { continue };
            for second in calls {
                let (overtaken, by) = (&takings[*first], &takings[*second]);
                if first == second || !was_kept(&waiter, by, freed) {
                    continue;
                }
                all.compared += 1;
                if precedes(overtaken, &waiter, by) {
                    all.found.push((*first, *second));
                }
            }
        }
    }
    all.found.sort_unstable();
    all
}

/// Returns whether a call took a name while another one certainly waited for it, and could not have lost its turn.
fn was_kept<N>(waiter: &Sighted, by: &Taking<N>, freed: &[i64]) -> bool {
    let last_freed = |until: i64| freed.iter().copied().filter(|from| *from <= until).max();
    let is_between = waiter.from <= decided_after(by, last_freed) && by.got <= waiter.until;
    is_between && last_freed(by.got).is_some_and(|from| by.got - from < KEPT_US)
}

/// Returns a time after which a call has found that it is its turn. It leaves the queue only after it has taken the name, so that it
/// was still seen waiting says nothing. But before the lease on the name ended, it was nobody's turn.
fn decided_after<N>(call: &Taking<N>, last_freed: impl Fn(i64) -> Option<i64>) -> i64 {
    let freed = call.sighted.and_then(|sighted| last_freed(sighted.until));
    freed.map_or(call.asked, |freed| freed.max(call.asked))
}

/// Returns whether a waiter certainly comes before another call.
fn precedes<N>(overtaken: &Taking<N>, waiter: &Sighted, by: &Taking<N>) -> bool {
    let rank = |since: i64, priority: Option<i32>| since - i64::from(priority.unwrap_or(0)) * PRIORITY_US;
    let second_since = match (by.priority, by.sighted) {
        (None, _) => return true,
        (Some(_), Some(sighted)) => sighted.since,
        // It cannot have joined before it was asked for, and by then the waiter had joined.
        (Some(_), None) => waiter.since + (by.asked - waiter.from),
    };
    rank(waiter.since, overtaken.priority) + CLOCK_US < rank(second_since, by.priority)
}
