//! Finds the names that several rows of a source type have, however far apart these rows are.
//!
//! It keeps one number for each row, and the names only of rows whose numbers occur twice. Where there are more rows than numbers may be kept, it
//! reads all rows several times, each time for another part of the numbers.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use claims_model::source_range::{self, SourceRange};

use crate::cell::verify::expected::{Expected, ExpectedClaim, expected_claim};

/// Number of rows whose numbers are kept at the same time: 64 MiB.
const ROWS_IN_MEMORY: u64 = 8_000_000;

/// Names that several rows have, each with the source id of the first of them.
pub struct Doubles {
    firsts: HashMap<(String, String), String>,
}

impl Doubles {
    /// Reads all rows of the source type.
    pub fn find(expected: &Expected) -> Self {
        let hasher = RandomState::new();
        let number = |claim: &ExpectedClaim| hasher.hash_one((claim.bucket_type(), &claim.value));
        let parts = expected.estimated_rows().max(0).unsigned_abs() / ROWS_IN_MEMORY + 1;
        let mut doubled = Vec::new();
        for part in 0..parts {
            let mut numbers = Vec::new();
            each(expected, |claim| numbers.extend(Some(number(&claim)).filter(|number| number % parts == part)));
            numbers.sort_unstable();
            doubled.extend(numbers.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]));
        }
        doubled.sort_unstable();
        doubled.dedup();
        Doubles { firsts: firsts(expected, |claim| doubled.binary_search(&number(claim)).is_ok(), doubled.is_empty()) }
    }

    /// Returns the source id of the first row that has the name of a claim, if that row comes before the claim's.
    pub fn before(&self, claim: &ExpectedClaim) -> Option<&str> {
        if self.firsts.is_empty() {
            return None;
        }
        let first = self.firsts.get(&(claim.bucket_type().to_owned(), claim.value.clone()))?;
        source_range::compare(first, &claim.source_id).is_lt().then_some(first)
    }
}

/// Returns each name that several rows may have, with the source id of the first row.
fn firsts(
    expected: &Expected,
    is_candidate: impl Fn(&ExpectedClaim) -> bool,
    are_none: bool,
) -> HashMap<(String, String), String> {
    let mut firsts: HashMap<(String, String), String> = HashMap::new();
    if are_none {
        return firsts;
    }
    each(expected, |claim| {
        if is_candidate(&claim) {
            let name = (claim.bucket_type().to_owned(), claim.value);
            let first = firsts.entry(name).or_insert_with(|| claim.source_id.clone());
            if source_range::compare(&claim.source_id, first).is_lt() {
                *first = claim.source_id;
            }
        }
    });
    firsts
}

/// Passes the claims of all rows to `each`.
fn each(expected: &Expected, mut each: impl FnMut(ExpectedClaim)) {
    let everything = SourceRange { above: None, up_to: None };
    expected.each(&everything, |attribute, row| {
        if let Some(claim) = expected_claim(attribute, row) {
            each(claim);
        }
    });
}
