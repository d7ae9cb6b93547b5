//! A result of a comparison.

use claims_model::verify::{Discrepancy, Outcome};
use claims_model::{Bucket, Claim};

use crate::tables::rows::verify::Actual;

pub struct Finding<'e> {
    pub discrepancy: Discrepancy,
    pub expected: Option<&'e Claim<'e>>,
    pub actual: Option<Actual>,
    pub outcome: Option<Outcome>,
}

impl Finding<'_> {
    pub fn bucket(&self) -> Option<&Bucket<'_>> {
        self.expected.map(|claim| &claim.bucket).or(self.actual.as_ref().map(|actual| &actual.claim.bucket))
    }
}
