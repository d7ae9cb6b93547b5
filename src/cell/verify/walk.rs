//! The walk over all source ids: range by range, digests first, and into the halves of those that differ.

use std::time::Instant;

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;

use super::compare::Comparison;
use super::expected::{Expected, Summary};
use super::progress::{Progress, Tally};
use super::remote::Remote;
use crate::error::ClaimsError;

/// Batches in one range: so many are compared by one digest where all is well, and a range that differs is halved so
/// often that six more digests find the batch.
const BATCHES: i64 = 64;

/// Batches in one range of several workers: small enough that all have something to do to the end.
pub const SHARED_BATCHES: i64 = 16;

/// Where ranges come from: the whole cell in one line for one worker, one range at a time for a worker that shares.
pub trait Ranges {
    fn next(&mut self) -> Option<SourceRange>;
}

/// The ranges from a source id on, each with so many rows; the last one has no end.
pub struct InOrder<'e, 'c> {
    expected: &'e Expected<'c>,
    rows: i64,
    above: Option<String>,
    over: bool,
}

impl<'e, 'c> InOrder<'e, 'c> {
    pub fn new(expected: &'e Expected<'c>, batch: i64, above: Option<String>) -> Self {
        InOrder { expected, rows: batch * BATCHES, above, over: false }
    }
}

impl Ranges for InOrder<'_, '_> {
    fn next(&mut self) -> Option<SourceRange> {
        if self.over {
            return None;
        }
        let mut range = SourceRange { above: self.above.take(), up_to: None };
        range.up_to = self.expected.end_of(&range, self.rows);
        self.above = range.up_to.clone();
        self.over = self.above.is_none();
        Some(range)
    }
}

/// The one range that a worker has in hand.
impl Ranges for Option<SourceRange> {
    fn next(&mut self) -> Option<SourceRange> {
        self.take()
    }
}

/// A range still to be looked at, and its two digests where they are known.
struct Open {
    range: SourceRange,
    digests: Option<Digests>,
}

/// What a range calls for, and what is claimed there.
#[derive(Clone, Copy)]
struct Digests {
    expected: Summary,
    claimed: Digest,
}

impl Digests {
    fn agree(&self) -> bool {
        self.expected.claims == self.claimed
    }

    /// Those of the other half.
    fn without(&self, half: &Digests) -> Digests {
        Digests { expected: self.expected.without(&half.expected), claimed: self.claimed.without(&half.claimed) }
    }
}

/// A walk under way.
pub struct Walk<'w> {
    pub comparison: Comparison<'w>,
    pub progress: Progress<'w>,
    pub batch: i64,
    /// When to stop.
    pub deadline: Option<Instant>,
    pub tally: Tally,
    /// Up to here all is verified.
    pub position: Option<String>,
}

impl Walk<'_> {
    /// Walks until there are no more ranges (`true`), or until the time is up. At least one step is done in any case, so
    /// that repeated calls come to an end.
    pub fn run(&mut self, ranges: &mut dyn Ranges) -> Result<bool, ClaimsError> {
        let mut is_first = true;
        self.progress.show(&self.tally, self.position.as_deref());
        while let Some(range) = ranges.next() {
            // The top is the leftmost, so that what lies behind the position is always done.
            let mut open = vec![Open { range, digests: None }];
            while let Some(next) = open.pop() {
                if !is_first && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Ok(false);
                }
                if self.step(next, &mut open)? {
                    is_first = false;
                    self.progress.show(&self.tally, self.position.as_deref());
                }
            }
        }
        Ok(true)
    }

    /// Passes over a range that is in order, halves one that is large, compares one that is small. `true`: the position
    /// has moved on.
    fn step(&mut self, next: Open, open: &mut Vec<Open>) -> Result<bool, ClaimsError> {
        let Open { range, digests } = next;
        let digests = digests.map_or_else(|| self.digests(&range), Ok)?;
        if digests.agree() {
            self.tally.checked += digests.expected.claims.records;
            self.tally.count_unclaimable(digests.expected.unclaimable);
        } else if let Some(middle) = self.middle(&range, &digests)? {
            let SourceRange { above, up_to } = range;
            let left = SourceRange { above, up_to: Some(middle.clone()) };
            let right = SourceRange { above: Some(middle), up_to };
            let left_digests = self.digests(&left)?;
            open.push(Open { range: right, digests: Some(digests.without(&left_digests)) });
            open.push(Open { range: left, digests: Some(left_digests) });
            return Ok(false);
        } else {
            self.comparison.compare(&range, &mut self.tally)?;
        }
        self.position = range.up_to;
        Ok(true)
    }

    fn digests(&self, range: &SourceRange) -> Result<Digests, ClaimsError> {
        let claimed = self.comparison.remote.digest(range)?;
        Ok(Digests { expected: self.comparison.expected.digest(range), claimed })
    }

    /// Where to halve a range; `None`: it is small enough to be compared, or cannot be halved.
    fn middle(&self, range: &SourceRange, digests: &Digests) -> Result<Option<String>, ClaimsError> {
        let (expected, remote): (&Expected, &Remote) = (self.comparison.expected, self.comparison.remote);
        let middle = if digests.expected.claims.records > self.batch {
            expected.middle_of(range)
        } else if digests.claimed.records > 2 * self.batch {
            remote.end_of(range, self.batch)?
        } else {
            None
        };
        let divides =
            |middle: &String| !SourceRange { above: Some(middle.clone()), up_to: range.up_to.clone() }.is_void();
        Ok(middle.filter(divides))
    }
}
