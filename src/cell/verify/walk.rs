//! The walk over all source ids: range by range, digests first, halving those that differ.

use std::time::Instant;

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;

use super::compare::{ComparedRange, Comparison};
use super::expected::{Expected, Summary};
use super::remote::Remote;
use crate::error::ClaimsError;

/// Batches in one range, which one digest compares. If a range differs, halving it with six more digests finds the
/// batch.
pub const BATCHES: i64 = 64;

/// Batches in one range of several workers: small enough that all have work until the end.
pub const SHARED_BATCHES: i64 = 16;

/// The source of ranges: the whole cell for a single worker, one range at a time for a worker that shares.
pub trait Ranges {
    fn next(&mut self) -> Option<SourceRange>;
}

/// The ranges from a source id on, each with a number of rows; the last one has no end.
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

/// The one range that a worker holds.
impl Ranges for Option<SourceRange> {
    fn next(&mut self) -> Option<SourceRange> {
        self.take()
    }
}

/// A range still to be verified, and its two digests if they are known.
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

/// What becomes of what a walk finds.
pub trait Findings {
    /// The digests of a range agree. `false`: it is to be looked into all the same.
    fn are_in_order(&mut self, expected: &Summary) -> bool;
    fn compared(&mut self, range: &SourceRange, compared: ComparedRange);
    /// Everything up to this source id is verified.
    fn reached(&mut self, position: Option<&str>);
    /// Whether to stop here.
    fn are_enough(&self) -> bool;
}

/// A walk under way.
pub struct Walk<'w, F> {
    pub comparison: Comparison<'w>,
    pub batch: i64,
    /// When to stop.
    pub deadline: Option<Instant>,
    pub findings: F,
    /// The source id up to which everything is verified.
    pub position: Option<String>,
}

impl<F: Findings> Walk<'_, F> {
    /// Walks until there are no more ranges (`true`), or until the time is up. At least one step is done, so
    /// that repeated calls come to an end.
    pub fn run(&mut self, ranges: &mut dyn Ranges) -> Result<bool, ClaimsError> {
        let mut is_first = true;
        self.findings.reached(self.position.as_deref());
        while let Some(range) = ranges.next() {
            // The top is the leftmost range, so that everything before the position is done.
            let mut open = vec![Open { range, digests: None }];
            while let Some(next) = open.pop() {
                if self.findings.are_enough() {
                    return Ok(false);
                }
                if !is_first && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Ok(false);
                }
                if self.step(next, &mut open)? {
                    is_first = false;
                    self.findings.reached(self.position.as_deref());
                }
            }
        }
        Ok(true)
    }

    /// Skips a range that is in order, halves a large one, compares a small one. `true`: the position
    /// has advanced.
    fn step(&mut self, next: Open, open: &mut Vec<Open>) -> Result<bool, ClaimsError> {
        let Open { range, digests } = next;
        let digests = digests.map_or_else(|| self.digests(&range), Ok)?;
        if digests.agree() && self.findings.are_in_order(&digests.expected) {
            // One row has moved.
        } else if let Some(middle) = self.middle(&range, &digests)? {
            let SourceRange { above, up_to } = range;
            let left = SourceRange { above, up_to: Some(middle.clone()) };
            let right = SourceRange { above: Some(middle), up_to };
            let left_digests = self.digests(&left)?;
            open.push(Open { range: right, digests: Some(digests.without(&left_digests)) });
            open.push(Open { range: left, digests: Some(left_digests) });
            return Ok(false);
        } else {
            let compared = self.comparison.compare(&range)?;
            self.findings.compared(&range, compared);
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
        let middle = if digests.expected.claims.records + digests.expected.unclaimable > self.batch {
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
