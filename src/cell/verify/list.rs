//! `list_discrepancies`: lists the discrepancies that `verify` counts. Changes nothing.
//!
//! A page can end in the middle of a range. The next page compares that range again, and skips the discrepancies up to the position
//! in its cursor.

use std::collections::HashMap;

use claims_model::cursor::{Cursor, DiscrepancyCursor, DiscrepancyPlace};
use claims_model::limits::PAGE_BYTES;
use claims_model::source_range::SourceRange;
use claims_model::verify::Outcome;
use claims_model::{BadInput, Problem};

use super::compare::{ComparedRange, FoundDiscrepancy};
use super::errors::VerificationError;
use super::expected::{Expected, Summary};
use super::walk::{Findings, Verification, WalkExtent};
use crate::cell::client::unreachable;
use crate::cell::reading;
use crate::kernel::arguments;
use crate::kernel::error::ClaimsError;
use pg::prelude::*;
use pg::spi;
use pg::xact;

#[pg_extern(schema = "claims", name = "list_discrepancies", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn list_discrepancies_2(
    cell_id: Option<i64>,
    service: Option<String>,
    source_type: Option<String>,
    after: default!(Option<String>, "NULL"),
    max_results: default!(Option<i32>, 100),
    recent: default!(
        Option<Interval>,
        "COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval"
    ),
    outcome: default!(Option<String>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(discrepancy, &'static str),
            name!(bucket_type, String),
            name!(bucket_value, String),
            name!(source_id, Option<String>),
            name!(holder_cell_id, Option<i64>),
            name!(outcome, Option<&'static str>),
            name!(cursor, String),
        ),
    >,
    ErrorReport,
> {
    // On a standby, changes that are not replayed yet would look like discrepancies.
    xact::must_not_be_standby(c"claims.list_discrepancies()");
    let rows = spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        let server = arguments::required(service, "service")?;
        arguments::require!(source_type, max_results);
        let recent = arguments::span(arguments::required(recent, "recent")?, "recent")?;
        let source_type = reading::source_type_of(connection, cell_id, &source_type)?;
        let after = after.map(|text| DiscrepancyCursor::decode(&text)).transpose();
        let after = after.map_err(|problem| BadInput::new("after", problem))?;
        let only = outcome.map(|outcome| named(&outcome)).transpose()?;
        let listing = Listing::new(after, arguments::page_size(max_results)?, only);
        if xact::uses_transaction_snapshot() {
            return Err(VerificationError::OldSnapshot.into());
        }
        let expected = Expected::at(connection, &source_type, &server);
        let verification = Verification { recent, ..Verification::new(&expected, &server, cell_id, &source_type) };
        list(&verification, listing).map_err(unreachable)
    })?;
    let row = |Listed { found, cursor }: Listed| {
        let FoundDiscrepancy { discrepancy, bucket_type, bucket_value, source_id, holder, outcome } = found;
        (discrepancy.name(), bucket_type, bucket_value, source_id, holder, outcome.map(Outcome::name), cursor.encode())
    };
    Ok(TableIterator::new(rows.into_iter().map(row)))
}

/// Returns the outcome with this name.
fn named(outcome: &str) -> Result<Outcome, ClaimsError> {
    let allowed = "leased, recent, busy, held_by_other, confusable, reserved, quarantined, impossible, doubled, foreign and other_service";
    let named = Outcome::of_cell_named(outcome).filter(|outcome| *outcome != Outcome::Corrected);
    named.ok_or_else(|| BadInput::new("outcome", Problem::OutOfRange { allowed }).into())
}

fn list(verification: &Verification, listing: Listing) -> Result<Vec<Listed>, ClaimsError> {
    let above = listing.after.as_ref().and_then(|after| after.above.clone());
    let walked = verification.walk(WalkExtent::Above(above), |_| Ok(listing))?;
    walked.finished?;
    Ok(walked.findings.rows)
}

/// A discrepancy, and the cursor at which the next page begins if this is the page's last row.
struct Listed {
    found: FoundDiscrepancy,
    cursor: DiscrepancyCursor,
}

/// A page that is being filled.
struct Listing {
    after: Option<DiscrepancyCursor>,
    size: usize,
    /// The only outcome to list; `None`: all.
    only: Option<Outcome>,
    rows: Vec<Listed>,
    bytes: usize,
}

impl Listing {
    fn new(after: Option<DiscrepancyCursor>, size: usize, only: Option<Outcome>) -> Self {
        Listing { after, size, only, rows: Vec::new(), bytes: 0 }
    }
}

impl Findings for Listing {
    /// Returns `false` for a range with rows that can have no claim: digests do not contain them.
    fn are_in_order(&mut self, expected: &Summary) -> bool {
        expected.unclaimable == 0
    }

    fn compared(&mut self, range: &SourceRange, compared: ComparedRange) {
        for (place, found) in in_order(compared.found) {
            if self.are_enough() {
                return;
            }
            let is_wanted = self.only.is_none() || found.outcome == self.only;
            if is_wanted && self.after.as_ref().is_none_or(|after| place > after.place) {
                // The cursor contains the name again, in base64.
                self.bytes += 3 * found.bucket_value.len() + 1000;
                self.rows.push(Listed { found, cursor: DiscrepancyCursor { above: range.above.clone(), place } });
            }
        }
    }

    fn reached(&mut self, _: Option<&str>) {}

    fn are_enough(&self) -> bool {
        self.rows.len() >= self.size || self.bytes > PAGE_BYTES
    }
}

/// Sorts discrepancies, and numbers those that have the same position.
fn in_order(found: Vec<FoundDiscrepancy>) -> Vec<(DiscrepancyPlace, FoundDiscrepancy)> {
    let place = |found: FoundDiscrepancy| (place_of(&found), found);
    let mut all: Vec<_> = found.into_iter().map(place).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut same: HashMap<DiscrepancyPlace, u32> = HashMap::new();
    for (place, _) in &mut all {
        let nth = same.entry(place.clone()).or_default();
        (place.nth, *nth) = (*nth, *nth + 1);
    }
    all
}

fn place_of(found: &FoundDiscrepancy) -> DiscrepancyPlace {
    DiscrepancyPlace {
        source_length: found.source_id.as_ref().map(|id| id.chars().count() as u64),
        source_id: found.source_id.clone().unwrap_or_default(),
        bucket_type: found.bucket_type.clone(),
        bucket_value: found.bucket_value.clone(),
        discrepancy: found.discrepancy.name().to_owned(),
        nth: 0,
    }
}
