//! `verify_records`: compares a range of a cell's claims with what the cell expects, and corrects them if requested.

use std::collections::HashSet;

use claims_model::batch::expected_records;
use claims_model::mode::Need;
use claims_model::types::UNSPECIFIED;
use claims_model::verify::{self as rules, Discrepancy, Outcome};
use claims_model::{BadInput, Claim, NOBODY, Problem, Types};
use uuid::Uuid;

use super::correct;
use super::errors::RangeError;
use super::finding::{Finding, compare, find_rivals};
use super::tables::{Actual, Part, VERIFICATION_TABLES};
use crate::kernel::arguments::{self, source_range};
use crate::kernel::call::CellCall;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::service::read::status_name;
use crate::service::transfer::transfers;
use crate::service::{admission, durability, naming};
use claims_model::limits::MAX_COMPARED;
use pg::jsonb::{JsonText, Jsonb};
use pg::prelude::*;
use pg::spi::Connection;
use pg::uuid::from_pg_uuid;

/// A row of the answer, in the order of its columns.
type FindingRow = (&'static str, Option<String>, String, Option<JsonText>, Option<JsonText>, Option<&'static str>);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn verify_records(
    cell_id: Option<i64>,
    source_type: Option<String>,
    source_id_gt: Option<String>,
    source_id_lte: Option<String>,
    expected: Option<Jsonb>,
    recent: default!(
        Option<Interval>,
        "COALESCE(NULLIF(pg_catalog.current_setting('claims.verify_recent', true), ''), '1 hour')::pg_catalog.interval"
    ),
    correct: default!(Option<bool>, false),
    extra_uuids: default!(Option<Vec<Option<PgUuid>>>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(discrepancy, &'static str),
            name!(bucket_type, Option<String>),
            name!(bucket_value, String),
            name!(expected, Option<JsonText>),
            name!(actual, Option<JsonText>),
            name!(outcome, Option<&'static str>),
        ),
    >,
    ErrorReport,
> {
    arguments::require!(cell_id, expected, recent, correct, source_type);
    let answers = CellCall::run(Some(cell_id), |call| {
        if correct {
            admission::admit(call, Need::Settle)?;
        }
        let read =
            |types: &Types| expected_records(&mut expected.tokens(), "expected", types, MAX_COMPARED).map_err(too_many);
        let recent = arguments::span(recent, "recent")?;
        let (source_type, _) = arguments::source_type(&source_type, &call.catalog.types)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        let extra_uuids =
            extra_uuids.map(|uuids| uuids.into_iter().flatten().map(from_pg_uuid).collect::<HashSet<_>>());
        let part = Part { cell_id, source_type, range: &range };
        if correct {
            let (call, expected) = naming::locked(call, |catalog: &Catalog| read(&catalog.types))?;
            let mut findings = find(&call, &part, &expected, extra_uuids.as_ref(), recent)?;
            leave_to_transfer(call.connection, cell_id, &mut findings);
            let to_correct = findings.iter().filter(|finding| finding.outcome.is_none()).count();
            admission::admit_records(&call, to_correct)?;
            durability::promise();
            correct::correct(&call, "corrected", recent, &mut findings);
            return answers(&findings, &call.catalog.types);
        }
        // A comparison takes no lock on the profiles.
        naming::with_unchanged_profiles(call.connection, &call.catalog, |types| {
            let expected = read(types)?;
            let mut findings = find(call, &part, &expected, extra_uuids.as_ref(), recent)?;
            find_rivals(call, recent, types, &mut findings);
            answers(&findings, types)
        })
    })?;
    Ok(TableIterator::new(answers))
}

/// Replaces the error of a batch's limit, which can be raised. This limit is fixed, because the range can be narrowed.
fn too_many(bad: BadInput) -> ClaimsError {
    match bad.problem {
        Problem::TooManyRecords { limit, .. } => RangeError::TooLarge { limit }.into(),
        _ => bad.into(),
    }
}

/// Compares, and returns the discrepancies in bucket order, the order of all locks.
fn find<'e>(
    call: &CellCall,
    part: &Part,
    expected: &'e [Claim<'e>],
    extra_uuids: Option<&HashSet<Uuid>>,
    recent: Interval,
) -> Result<Vec<Finding<'e>>, ClaimsError> {
    let in_range = VERIFICATION_TABLES.of(call).actual_in(call.connection, part, recent, MAX_COMPARED + 1);
    if in_range.len() > MAX_COMPARED {
        return Err(RangeError::TooLarge { limit: MAX_COMPARED }.into());
    }
    let wanted: HashSet<_> = expected.iter().map(|claim| &claim.bucket).collect();
    let is_extra = |actual: &Actual| {
        !wanted.contains(&actual.claim.bucket)
            && extra_uuids.is_none_or(|extra_uuids| extra_uuids.contains(&actual.uuid))
    };
    let extra = in_range.into_iter().filter(is_extra).map(|actual| Finding {
        discrepancy: Discrepancy::Extra,
        expected: None,
        outcome: rules::reason_to_skip(actual.state_for(part.cell_id)),
        actual: Some(actual),
    });
    let mut findings: Vec<_> = extra.chain(compare(call, expected.iter(), recent)).collect();
    findings.sort_by(|a, b| a.bucket().cmp(&b.bucket()));
    Ok(findings)
}

/// Leaves missing and different claims of a cell as they are while a transfer moves all that it has: the transfer would miss them.
fn leave_to_transfer(connection: &Connection, cell_id: i64, findings: &mut [Finding]) {
    let is_change = |finding: &&mut Finding| finding.outcome.is_none() && finding.discrepancy != Discrepancy::Extra;
    let mut changes = findings.iter_mut().filter(is_change).peekable();
    if changes.peek().is_none() {
        return;
    }
    let outcome = match transfers::writes_announced() {
        false => Outcome::Busy,
        true if transfers::of_whole_cell(connection, cell_id).is_some() => Outcome::Leased,
        true => return,
    };
    changes.for_each(|finding| finding.outcome = Some(outcome));
}

fn answers(findings: &[Finding], types: &Types) -> Result<Vec<FindingRow>, ClaimsError> {
    findings.iter().map(|finding| answer(finding, types)).collect()
}

fn answer(finding: &Finding, types: &Types) -> Result<FindingRow, ClaimsError> {
    let bucket = finding.bucket();
    let expected = finding.expected.map(|claim| rules::record_json(claim, types).map(JsonText)).transpose()?;
    // A reserved name has nothing to show except that it is reserved.
    let actual = finding.actual.as_ref().filter(|actual| actual.cell_id != NOBODY).map(|actual| {
        let Actual { uuid, claim, cell_id, status, .. } = actual;
        rules::actual_json(claim, *uuid, *cell_id, status_name(*status), types).map(JsonText)
    });
    Ok((
        finding.discrepancy.name(),
        types.bucket.name(bucket.map_or(UNSPECIFIED, |bucket| bucket.bucket_type)).map(str::to_owned),
        bucket.map_or(String::new(), |bucket| bucket.value.clone().into_owned()),
        expected,
        actual.transpose()?,
        finding.outcome.map(Outcome::name),
    ))
}
