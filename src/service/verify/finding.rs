//! A result of a comparison.

use claims_model::verify::{self as rules, Discrepancy, Outcome};
use claims_model::{Bucket, Claim, Types};
use pgrx::datum::Interval;

use super::rivals::rivals;
use super::tables::{Actual, VERIFICATION_TABLES};
use crate::kernel::call::{Call, CellCall};
use crate::service::quarantine::asking;
use pg::clock::Moment;

pub struct Finding<'e> {
    pub discrepancy: Discrepancy,
    pub expected: Option<&'e Claim<'e>>,
    pub actual: Option<Actual>,
    pub outcome: Option<Outcome>,
}

impl Finding<'_> {
    /// Returns whether the claim is missing and its name can be taken, also if it is kept back so far.
    fn is_available(&self) -> bool {
        let is_kept = || self.actual.as_ref().is_some_and(|actual| actual.kept.is_some());
        self.actual.is_none() || self.outcome.is_none() && is_kept()
    }

    /// Returns the missing claim whose name is kept back, and can be taken from there.
    pub fn reclaims(&self) -> bool {
        self.discrepancy == Discrepancy::Missing && self.actual.is_some() && self.is_available()
    }

    pub fn bucket(&self) -> Option<&Bucket<'_>> {
        self.expected.map(|claim| &claim.bucket).or(self.actual.as_ref().map(|actual| &actual.claim.bucket))
    }
}

/// Compares claims with those that exist on their buckets. Returns the differences.
pub fn compare<'c>(
    call: &CellCall,
    claims: impl Iterator<Item = &'c Claim<'c>> + Clone,
    recent: Interval,
) -> Vec<Finding<'c>> {
    let buckets: Vec<_> = claims.clone().map(|claim| &claim.bucket).collect();
    let now = Moment::now();
    let mut found = VERIFICATION_TABLES.of(call).actual_on(call.connection, &buckets, recent);
    let finding = |claim: &'c Claim<'c>| {
        let actual = found.remove(&claim.bucket);
        let seen = actual.as_ref().map(|actual| (&actual.claim, actual.state_for_claim(&asking(call, claim, now))));
        let (discrepancy, outcome) = rules::judge(claim, seen)?;
        Some(Finding { discrepancy, expected: Some(claim), actual, outcome })
    };
    claims.filter_map(finding).collect()
}

/// Finds missing claims on free names that cannot be made because of a confusable name.
pub fn find_rivals(call: &Call, recent: Interval, types: &Types, findings: &mut [Finding]) {
    let free = findings.iter().filter(|finding| finding.is_available());
    let free = free.filter_map(|finding| finding.expected.map(|claim| &claim.bucket));
    let mut rivals = rivals(call, free, recent, types);
    for finding in findings.iter_mut().filter(|finding| finding.is_available()) {
        if let Some((outcome, rival)) = finding.expected.and_then(|claim| rivals.remove(&claim.bucket)) {
            (finding.outcome, finding.actual) = (Some(outcome), Some(rival));
        }
    }
}
