//! `verify_records`: a range of a cell's claims, compared with what the cell expects, and put right if asked.

use std::collections::HashSet;

use claims_model::batch::expected_records;
use claims_model::mode::Need;
use claims_model::types::UNSPECIFIED;
use claims_model::verify::{self as rules, Discrepancy, Outcome};
use claims_model::{BadInput, Claim, NOBODY, Problem, Types};
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::correct;
use super::finding::Finding;
use super::rivals::rivals;
use crate::access;
use crate::arguments::{self, source_range};
use crate::error::{ClaimsError, VerificationError};
use crate::pg::jsonb::{JsonText, Jsonb};
use crate::pg::spi::{self, Connection};
use crate::pg::uuid::from_pg_uuid;
use crate::service::read::status_name;
use crate::service::{admission, durability, naming};
use crate::store::catalog::{self, Catalog};
use crate::store::service::verify::{self, Actual, Part};
use claims_model::limits::MAX_COMPARED;

/// One row of the answer, in the order of its columns.
type FindingRow = (&'static str, Option<String>, String, Option<JsonText>, Option<JsonText>, Option<&'static str>);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity, clippy::too_many_arguments)]
fn verify_records(
    cell_id: Option<i64>,
    source_type: Option<String>,
    source_id_gt: Option<String>,
    source_id_lte: Option<String>,
    expected: Option<Jsonb>,
    recent: default!(Option<Interval>, "'1 hour'"),
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
    let answers = spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        let expected = access::given(expected, "expected")?;
        let recent = access::given(recent, "recent")?;
        let correct = access::given(correct, "correct")?;
        let source_type = access::given(source_type, "source_type")?;
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        if correct {
            admission::admit(&catalog, cell_id, Need::Settle)?;
        }
        let read = |catalog: &Catalog| {
            let mut tokens = expected.tokens();
            expected_records(&mut tokens, "expected", &catalog.types, MAX_COMPARED).map_err(too_many)
        };
        let recent = arguments::span(recent, "recent")?;
        let (source_type, _) = arguments::source_type(&source_type, &catalog.types)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        // What is only compared needs nobody to hold still.
        let can_change = |expected: &Vec<Claim>| {
            correct && expected.iter().any(|claim| naming::can_change(claim.bucket.bucket_type))
        };
        let (catalog, expected) = naming::settled(connection, catalog, read, can_change)?;
        let types = &catalog.types;
        let only = extra_uuids.map(|uuids| uuids.into_iter().flatten().map(from_pg_uuid).collect::<HashSet<_>>());
        let part = Part { cell_id, source_type, range: &range };
        let mut findings = find(connection, &part, &expected, only.as_ref(), recent)?;
        if correct {
            durability::promise();
            correct::correct(connection, cell_id, recent, types, &mut findings);
        } else {
            find_rivals(connection, recent, types, &mut findings);
        }
        findings.iter().map(|finding| answer(finding, types)).collect::<Result<Vec<_>, ClaimsError>>()
    })?;
    Ok(TableIterator::new(answers))
}

/// The limit of a batch can be raised; this one cannot, and does not need to be: a range can be narrowed.
fn too_many(bad: BadInput) -> ClaimsError {
    match bad.problem {
        Problem::TooManyRecords { limit, .. } => VerificationError::RangeTooLarge { limit }.into(),
        _ => bad.into(),
    }
}

/// Compares, and returns what differs, in the order of the buckets: the order of all locks.
fn find<'e>(
    connection: &Connection,
    part: &Part,
    expected: &'e [Claim<'e>],
    only: Option<&HashSet<Uuid>>,
    recent: Interval,
) -> Result<Vec<Finding<'e>>, ClaimsError> {
    let in_range = verify::in_range(connection, part, recent, MAX_COMPARED + 1);
    if in_range.len() > MAX_COMPARED {
        return Err(VerificationError::RangeTooLarge { limit: MAX_COMPARED }.into());
    }
    let wanted: HashSet<_> = expected.iter().map(|claim| &claim.bucket).collect();
    let is_extra =
        |actual: &Actual| !wanted.contains(&actual.claim.bucket) && only.is_none_or(|only| only.contains(&actual.uuid));
    let extra = in_range.into_iter().filter(is_extra).map(|actual| Finding {
        discrepancy: Discrepancy::Extra,
        expected: None,
        outcome: rules::alone(actual.state_for(part.cell_id)),
        actual: Some(actual),
    });
    let buckets: Vec<_> = expected.iter().map(|claim| &claim.bucket).collect();
    let mut standing = verify::on_buckets(connection, &buckets, recent);
    let lacking = expected.iter().filter_map(|claim| {
        let actual = standing.remove(&claim.bucket);
        let seen = actual.as_ref().map(|actual| (&actual.claim, actual.state_for(part.cell_id)));
        let (discrepancy, outcome) = rules::judge(claim, seen)?;
        Some(Finding { discrepancy, expected: Some(claim), actual, outcome })
    });
    let mut findings: Vec<_> = extra.chain(lacking).collect();
    findings.sort_by(|a, b| a.bucket().cmp(&b.bucket()));
    Ok(findings)
}

/// What is missing and could not be claimed either, because of a name that looks like it.
fn find_rivals(connection: &Connection, recent: Interval, types: &Types, findings: &mut [Finding]) {
    if types.naming.is_empty() {
        return;
    }
    let is_open = |finding: &&Finding| finding.discrepancy == Discrepancy::Missing && finding.outcome.is_none();
    let open = findings.iter().filter(is_open).filter_map(|finding| Some(&finding.expected?.bucket));
    let mut found = rivals(connection, open, recent, types);
    for finding in findings.iter_mut().filter(|finding| finding.outcome.is_none() && finding.actual.is_none()) {
        if let Some((outcome, rival)) = finding.expected.and_then(|claim| found.remove(&claim.bucket)) {
            (finding.outcome, finding.actual) = (Some(outcome), Some(rival));
        }
    }
}

fn answer(finding: &Finding, types: &Types) -> Result<FindingRow, ClaimsError> {
    let bucket = finding.bucket();
    let expected = finding.expected.map(|claim| rules::record_json(claim, types).map(JsonText)).transpose()?;
    // Of a reserved name there is nothing to be told but that.
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
