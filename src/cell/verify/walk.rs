//! Walks over all source ids, range by range: compares digests first, and halves ranges that differ.

use std::time::{Duration, Instant};

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;
use pgrx::datum::Interval;

use super::begin::must_be_claimed;
use super::compare::{ComparedRange, Comparison};
use super::expected::{Expected, Summary};
use super::remote::Remote;
use crate::cell::client::Service;
use crate::kernel::error::ClaimsError;
use pg::spi::Connection;

/// Number of rows that one comparison reads.
pub const BATCH: i64 = 1000;
/// Timeout of a call to the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of batches in a range that one digest covers. If a range differs, halving it takes six more digests to find the batch.
pub const BATCHES: i64 = 64;

/// Number of batches in a range of a shared pass: small enough that all workers have work until the end.
pub const SHARED_BATCHES: i64 = 16;

/// The source ids that a walk verifies.
pub enum WalkExtent {
    /// All above a source id, in ranges of [`BATCHES`] batches.
    Above(Option<String>),
    /// A single range, the one that a worker holds.
    Only(SourceRange),
}

/// A range that is not verified yet, and its digests if they are known.
struct OpenRange {
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

/// A verification of the claims that a cell has at a service, with its options.
pub struct Verification<'v> {
    pub connection: &'v Connection,
    pub expected: &'v Expected<'v>,
    pub server: &'v str,
    pub cell_id: i64,
    pub source_type: &'v str,
    pub batch: i64,
    pub recent: Interval,
    pub correct: bool,
    /// Time at which to stop.
    pub deadline: Option<Instant>,
    pub answer_timeout: Duration,
    /// Raises an error if another worker has taken the range. Otherwise none can take it until the subtransaction ends.
    pub require_range: &'v dyn Fn() -> Result<(), ClaimsError>,
}

/// The result of a walk.
pub struct Walked<F> {
    pub findings: F,
    /// The source id up to which everything is verified.
    pub position: Option<String>,
    /// Whether the walk has reached the end.
    pub finished: Result<bool, ClaimsError>,
}

impl<'v> Verification<'v> {
    /// Returns a verification that changes nothing and has no deadline.
    pub fn new(expected: &'v Expected<'v>, server: &'v str, cell_id: i64, source_type: &'v str) -> Self {
        Verification {
            connection: expected.connection(),
            expected,
            server,
            cell_id,
            source_type,
            batch: BATCH,
            recent: Interval::from_seconds(0.0),
            correct: false,
            deadline: None,
            answer_timeout: ANSWER_TIMEOUT,
            require_range: &|| Ok(()),
        }
    }

    /// Walks over all source ids of an extent. `prepare` is called before the first call to the service.
    pub fn walk<F: Findings>(
        &self,
        extent: WalkExtent,
        prepare: impl FnOnce(&Service) -> Result<F, ClaimsError>,
    ) -> Result<Walked<F>, ClaimsError> {
        let Verification { connection, expected, cell_id, source_type, correct, require_range, .. } = *self;
        must_be_claimed(expected, source_type)?;
        let service = Service::new(connection, self.server, cell_id)?;
        let findings = prepare(&service)?;
        let (recent, naming) = (self.recent, expected.naming());
        let remote = &Remote::new(&service, source_type, recent, naming, self.answer_timeout);
        let comparison = Comparison { connection, expected, remote, source_type, correct, require_range };
        let position = match &extent {
            WalkExtent::Above(above) | WalkExtent::Only(SourceRange { above, .. }) => above.clone(),
        };
        let mut walk = Walk { comparison, batch: self.batch, deadline: self.deadline, findings, position };
        let finished = walk.run(extent);
        Ok(Walked { findings: walk.findings, position: walk.position, finished })
    }
}

struct Walk<'w, F> {
    comparison: Comparison<'w>,
    batch: i64,
    deadline: Option<Instant>,
    findings: F,
    position: Option<String>,
}

impl<F: Findings> Walk<'_, F> {
    /// Walks until there are no more ranges, and returns `true`, or until the deadline. It takes at least one step, so that repeated calls
    /// come to an end.
    fn run(&mut self, extent: WalkExtent) -> Result<bool, ClaimsError> {
        let mut is_first = true;
        self.findings.reached(self.position.as_deref());
        let (mut range, is_only) = match extent {
            WalkExtent::Above(above) => (self.comparison.expected.range_above(above, self.batch * BATCHES), false),
            WalkExtent::Only(range) => (range, true),
        };
        loop {
            let up_to = range.up_to.clone();
            // The top of the stack is the leftmost range, so everything up to the position is verified.
            let mut open = vec![OpenRange { range, digests: None }];
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
            if is_only || up_to.is_none() {
                return Ok(true);
            }
            range = self.comparison.expected.range_above(up_to, self.batch * BATCHES);
        }
    }

    /// Skips a range whose digests agree, halves a large one, or compares a small one. Returns whether the position has advanced.
    fn step(&mut self, next: OpenRange, open: &mut Vec<OpenRange>) -> Result<bool, ClaimsError> {
        let OpenRange { range, digests } = next;
        let digests = digests.map_or_else(|| self.digests(&range), Ok)?;
        if digests.agree() && self.findings.are_in_order(&digests.expected) {
            // In order: only the position advances.
        } else if let Some(middle) = self.middle(&range, &digests)? {
            let SourceRange { above, up_to } = range;
            let left = SourceRange { above, up_to: Some(middle.clone()) };
            let right = SourceRange { above: Some(middle), up_to };
            let left_digests = self.digests(&left)?;
            open.push(OpenRange { range: right, digests: Some(digests.without(&left_digests)) });
            open.push(OpenRange { range: left, digests: Some(left_digests) });
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
