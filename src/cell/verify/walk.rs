//! Walks over all source ids, range by range: compares digests first, and halves ranges that differ.

use std::time::Instant;

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;

use super::compare::{ComparedRange, Comparison};
use super::expected::{Expected, Summary};
use super::remote::Remote;
use crate::error::ClaimsError;

/// Number of batches in a range that one digest covers. If a range differs, halving it takes six more digests to find the batch.
pub const BATCHES: i64 = 64;

/// Number of batches in a range of a shared pass: small enough that all workers have work until the end.
pub const SHARED_BATCHES: i64 = 16;

/// A source of ranges: the whole cell for a single worker, one range at a time for workers that share a pass.
pub trait Ranges {
    fn next(&mut self) -> Option<SourceRange>;
}

/// The ranges above a source id, each with the same number of rows. The last one has no upper bound.
pub struct RangesInOrder<'e, 'c> {
    expected: &'e Expected<'c>,
    rows: i64,
    above: Option<String>,
    is_finished: bool,
}

impl<'e, 'c> RangesInOrder<'e, 'c> {
    pub fn new(expected: &'e Expected<'c>, batch: i64, above: Option<String>) -> Self {
        RangesInOrder { expected, rows: batch * BATCHES, above, is_finished: false }
    }
}

impl Ranges for RangesInOrder<'_, '_> {
    fn next(&mut self) -> Option<SourceRange> {
        if self.is_finished {
            return None;
        }
        let mut range = SourceRange { above: self.above.take(), up_to: None };
        range.up_to = self.expected.end_of(&range, self.rows);
        self.above = range.up_to.clone();
        self.is_finished = self.above.is_none();
        Some(range)
    }
}

/// A single range, the one that a worker holds.
impl Ranges for Option<SourceRange> {
    fn next(&mut self) -> Option<SourceRange> {
        self.take()
    }
}

/// A range that is not verified yet, and its digests if they are known.
struct Open {
    range: SourceRange,
    digests: Option<Digests>,
}

/// The digests of the two sides of a range.
#[derive(Clone, Copy)]
struct Digests {
    expected: Summary,
    claimed: Digest,
}

impl Digests {
    fn agree(&self) -> bool {
        self.expected.claims == self.claimed
    }

    /// Returns the digests of the other half.
    fn without(&self, half: &Digests) -> Digests {
        Digests { expected: self.expected.without(&half.expected), claimed: self.claimed.without(&half.claimed) }
    }
}

/// A consumer of the findings of a walk.
pub trait Findings {
    /// Takes a range whose digests agree. Returns `false` to have it compared nevertheless.
    fn are_in_order(&mut self, expected: &Summary) -> bool;
    fn compared(&mut self, range: &SourceRange, compared: ComparedRange);
    /// Reports that everything up to this source id is verified.
    fn reached(&mut self, position: Option<&str>);
    /// Returns whether the walk should stop.
    fn are_enough(&self) -> bool;
}

pub struct Walk<'w, F> {
    pub comparison: Comparison<'w>,
    pub batch: i64,
    /// Time at which to stop.
    pub deadline: Option<Instant>,
    pub findings: F,
    /// The source id up to which everything is verified.
    pub position: Option<String>,
}

impl<F: Findings> Walk<'_, F> {
    /// Walks until there are no more ranges, and returns `true`, or until the deadline. It takes at least one step, so that repeated calls
    /// come to an end.
    pub fn run(&mut self, ranges: &mut dyn Ranges) -> Result<bool, ClaimsError> {
        let mut is_first = true;
        self.findings.reached(self.position.as_deref());
        while let Some(range) = ranges.next() {
            // The top of the stack is the leftmost range, so everything up to the position is verified.
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

    /// Skips a range whose digests agree, halves a large one, or compares a small one. Returns whether the position has advanced.
    fn step(&mut self, next: Open, open: &mut Vec<Open>) -> Result<bool, ClaimsError> {
        let Open { range, digests } = next;
        let digests = digests.map_or_else(|| self.digests(&range), Ok)?;
        if digests.agree() && self.findings.are_in_order(&digests.expected) {
            // In order: only the position advances.
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

    /// Returns a source id at which to halve a range, or `None` if the range is small enough to compare or cannot be halved.
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
