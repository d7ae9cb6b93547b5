//! The combinations of lies and calls.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::call::Call;
use super::lie::{Fault, Lie, Place};
use super::lies;
use super::ways::{WAYS, Way};

pub type Pair = (&'static Lie, &'static Way);

/// Returns every lie at every call of a cell.
pub fn all() -> Vec<Pair> {
    lies::all().into_iter().flat_map(|lie| ways_of(lie).map(move |way| (lie, way))).collect()
}

/// Returns every lie at the first call of its kind, a save, and with two `calls` also at one other call, in a rotation
/// that starts at the seed. The truth is told at all calls.
pub fn some(seed: u64, calls: usize) -> Vec<Pair> {
    let first = StdRng::seed_from_u64(seed).random_range(0..WAYS.len());
    let pairs = |(number, lie): (usize, &'static Lie)| {
        let mut ways: Vec<_> = ways_of(lie).collect();
        if lie.fault != Fault::Truth {
            if ways.len() > 2 {
                let other = 1 + (first + number) % (ways.len() - 1);
                ways.swap(1, other);
            }
            ways.truncate(calls);
        }
        ways.into_iter().map(move |way| (lie, way))
    };
    lies::all().into_iter().enumerate().flat_map(pairs).collect()
}

/// Shuffles the pairs, so that slow ones are everywhere.
pub fn shuffled(mut pairs: Vec<Pair>, seed: u64) -> Vec<Pair> {
    pairs.shuffle(&mut StdRng::seed_from_u64(seed));
    pairs
}

/// Returns the calls for a lie: connections for a lie about a connection, that of ranges for a lie about ranges, lists of leases for a lie about
/// their pages, and all other calls for any other lie.
fn ways_of(lie: &'static Lie) -> impl Iterator<Item = &'static Way> {
    let is_greeting = lie.place != Place::Answer;
    WAYS.iter().filter(move |way| match lie.fault {
        Fault::Ranges => way.call == Call::Range,
        Fault::Pages => way.call == Call::List,
        _ => (way.call == Call::Connect) == is_greeting,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_rotation_has_every_lie_and_every_way() {
        let pairs = some(7, 1);
        let lies: HashSet<_> = pairs.iter().map(|(lie, _)| lie.name).collect();
        let ways: HashSet<_> = pairs.iter().map(|(_, way)| way.to_string()).collect();
        assert_eq!(lies.len(), lies::all().len());
        assert_eq!(ways.len(), WAYS.len());
    }

    #[test]
    fn no_two_lies_have_one_name() {
        let names: HashSet<_> = lies::all().into_iter().map(|lie| lie.name).collect();
        assert_eq!(names.len(), lies::all().len());
    }
}
