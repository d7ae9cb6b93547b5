//! `import_records`: claims the names that a cell's rows had before they were claimed.
//!
//! No lease holds them: the cell locks its rows until this call has committed. The claims are ACTIVE at once, as those of a correction.

use std::collections::HashSet;

use claims_model::batch::expected_records;
use claims_model::json::{Document, NotJson};
use claims_model::limits::MAX_COMPARED;
use claims_model::mode::Need;
use claims_model::verify::{Discrepancy, Outcome};
use claims_model::{BadInput, Bucket, Claim, Confusables, NOBODY, Problem, Types};

use super::correct;
use super::finding::{Finding, compare, find_rivals};
use super::tables::Actual;
use crate::kernel::call::{Call, CellCall};
use crate::kernel::catalog::Catalog;
use crate::kernel::{arguments, attribution};
use crate::service::audit::AuditedName;
use crate::service::claims::{ACTIVE, CLAIM_TABLES, CONTENTION_SQLSTATES, KEY_TABLES, Owner, TRANSFERRING};
use crate::service::feed::{self, Change, ChangeSet};
use crate::service::{admission, audit, durability, naming};
use pg::clock::Moment;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::subtransaction::subtransaction;

/// Milliseconds to wait for a lock: long enough for a table that is being extended.
const LOCK_TIMEOUT_MS: i64 = 5;

/// The outcome of a record whose name the cell has claimed for another row, or for another subject.
const OTHER_SOURCE: &str = "other_source";
/// The word of the audit log for imported names.
const IMPORTED: &str = "imported";

/// A record that was not claimed: its position, the reason, and the cell that has the name.
type Refused = (i32, &'static str, Option<i64>);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn import_records(
    cell_id: Option<i64>,
    records: Option<&str>,
    preview: default!(Option<bool>, false),
) -> Result<
    TableIterator<'static, (name!(place, i32), name!(outcome, &'static str), name!(holder_cell_id, Option<i64>))>,
    ErrorReport,
> {
    arguments::require!(cell_id, records, preview);
    let refused = CellCall::run(Some(cell_id), |call| {
        let document = Document::read(records)
            .map_err(|NotJson { line, column }| BadInput::new("records", Problem::NotJson { line, column }))?;
        let read = |types: &Types| expected_records(&mut document.tokens(), "records", types, MAX_COMPARED);
        if preview {
            return naming::with_unchanged_profiles(call.connection, &call.catalog, |types| {
                let claims = read(types)?;
                Ok(refused(&claims, &find(call, claims.iter(), types)))
            });
        }
        admission::admit(call, Need::Begin)?;
        let (call, claims) = naming::locked(call, |catalog: &Catalog| Ok(read(&catalog.types)?))?;
        admission::admit_records(&call, claims.len())?;
        durability::promise();
        let refused = import(&call, &claims);
        admission::admit_still(&call, Need::Begin)?;
        Ok(refused)
    })?;
    Ok(TableIterator::new(refused))
}

/// Makes the claims. Returns those that could not be made and do not exist.
///
/// Names that are free are added by one statement. If it added none, because some of the names exist or are in flight, a second one
/// adds those that are missing and not in flight. Each of the others needs statements of its own.
fn import(call: &CellCall, claims: &[Claim]) -> Vec<Refused> {
    let added = add_new(call, claims.iter().collect());
    let rest: Vec<_> = claims.iter().filter(|claim| !added.contains(&claim.bucket)).collect();
    if rest.is_empty() {
        return Vec::new();
    }
    let findings = find(call, rest.iter().copied(), &call.catalog.types);
    let (mut missing, others): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.discrepancy == Discrepancy::Missing);
    missing.sort_by(|a, b| a.bucket().cmp(&b.bucket()));
    let added = add_new(call, not_in_flight(call, &missing));
    missing.retain(|finding| finding.bucket().is_none_or(|bucket| !added.contains(bucket)));
    correct::correct(call, IMPORTED, recent(), &mut missing);
    missing.extend(others);
    refused(claims, &missing)
}

/// No claim is too young for an import.
fn recent() -> Interval {
    Interval::from_seconds(0.0)
}

/// Returns the missing claims whose names no other open transaction is writing.
fn not_in_flight<'c>(call: &Call, missing: &[Finding<'c>]) -> Vec<&'c Claim<'c>> {
    let open = missing.iter().filter(|finding| finding.outcome.is_none());
    let claims: Vec<&'c Claim<'c>> = open.filter_map(|finding| finding.expected).collect();
    let buckets: Vec<_> = claims.iter().map(|claim| &claim.bucket).collect();
    let in_flight = KEY_TABLES.of(call).contended_buckets(call.connection, &buckets);
    claims.into_iter().zip(in_flight).filter(|(_, in_flight)| !in_flight).map(|(claim, _)| claim).collect()
}

/// Adds those claims whose names are free, by one statement. Returns their buckets. If another open transaction has one of the names, or
/// the tables cannot pass over one that exists, it adds none. Types that refuse names which look alike are left to the caller.
fn add_new<'c>(call: &CellCall, mut claims: Vec<&'c Claim<'c>>) -> HashSet<&'c Bucket<'c>> {
    let types = &call.catalog.types;
    claims.retain(|claim| types.naming(claim.bucket.bucket_type).confusables == Confusables::Allow);
    if claims.is_empty() {
        return HashSet::new();
    }
    claims.sort_by(|a, b| a.bucket.cmp(&b.bucket));
    let around = call.tables.surroundings();
    let add = || {
        let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
        let add = || Ok::<_, ()>(CLAIM_TABLES.of(call).add_new(call.connection, call.cell_id, &claims, around));
        call.bounded_within(around, add)
    };
    let Ok(mut free) = subtransaction(&CONTENTION_SQLSTATES, add) else { return HashSet::new() };
    let added: Vec<&'c Claim<'c>> = claims.into_iter().filter(|claim| free.remove(&claim.bucket)).collect();
    let buckets = added.iter().map(|claim| &claim.bucket).collect();
    let (change, attribution) = (Change::Create(call.cell_id), attribution::of_session());
    let sets = [ChangeSet { change, cause: None, buckets, attribution }];
    feed::tell(call, &sets, Moment::now());
    let imported = |claim: &&'c Claim<'c>| {
        let Claim { bucket, subject, source, .. } = claim;
        AuditedName { op: "create", bucket, old: None, new: Some(Owner { subject, source }) }
    };
    audit::changed(call, None, IMPORTED, &added.iter().map(imported).collect::<Vec<_>>());
    added.into_iter().map(|claim| &claim.bucket).collect()
}

/// Compares claims with those that exist, and with confusable names. Returns the differences.
fn find<'c>(call: &CellCall, claims: impl Iterator<Item = &'c Claim<'c>> + Clone, types: &Types) -> Vec<Finding<'c>> {
    let mut findings = compare(call, claims, recent());
    find_rivals(call, recent(), types, &mut findings);
    findings
}

fn is_leased(actual: &Actual) -> bool {
    ![ACTIVE, TRANSFERRING].contains(&actual.status)
}

/// Returns the rows of the answer: the findings that prevent a claim.
fn refused(claims: &[Claim], findings: &[Finding]) -> Vec<Refused> {
    let places: std::collections::HashMap<_, _> =
        claims.iter().enumerate().map(|(place, claim)| (&claim.bucket, place as i32)).collect();
    let row = |finding: &Finding| {
        let place = *places.get(finding.bucket()?)?;
        let holder = finding.actual.as_ref().map(|actual| actual.cell_id).filter(|cell| *cell != NOBODY);
        match (finding.discrepancy, finding.outcome) {
            (_, Some(Outcome::Corrected)) => None,
            (Discrepancy::Different, None) => Some((place, OTHER_SOURCE, holder)),
            (Discrepancy::Different, Some(outcome)) => Some((place, outcome.name(), holder)),
            // The lease of another cell may be rolled back.
            (_, Some(Outcome::HeldByOther)) if finding.actual.as_ref().is_some_and(is_leased) => {
                Some((place, Outcome::Leased.name(), holder))
            }
            // A preview found the name free.
            (_, None) => None,
            (_, Some(outcome)) => Some((place, outcome.name(), holder)),
        }
    };
    findings.iter().filter_map(row).collect()
}
