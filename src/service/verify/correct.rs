//! Corrects claims at the service: replaces a claim by one statement, so that a bucket is never free between two statements.

use claims_model::lookalike::{NewSkeleton, skeletons};
use claims_model::quarantine::KeptName;
use claims_model::verify::{ClaimState, Discrepancy, Outcome};
use claims_model::{Bucket, Claim};
use pgrx::PgSqlErrorCode as Code;
use pgrx::datum::Interval;

use super::finding::Finding;
use super::rivals::rivals;
use super::statements;
use super::tables::{Actual, VERIFICATION_TABLES};
use crate::kernel::attribution;
use crate::kernel::call::CellCall;
use crate::service::audit;
use crate::service::audit::AuditedName;
use crate::service::claims::kept::{self, Right};
use crate::service::claims::{CLAIM_TABLES, CONTENTION_SQLSTATES, EndedSkeletons, Ending, Owner, SKELETON_TABLES};
use crate::service::feed::{self, Change, ChangeSet};
use crate::service::quarantine::{Given, asking, keep_skeletons};
use pg::clock::Moment;
use pg::settings::LockWaits;
use pg::subtransaction::{Undone, in_one};
use pg::xact::Surroundings;

/// Milliseconds to wait for a lock: none at first; where that was in vain, long enough for a table that is
/// being extended.
const FIRST_LOCK_TIMEOUT_MS: i64 = 1;
const LOCK_TIMEOUT_MS: i64 = 5;

/// Corrects the findings, and stores in each its outcome. It waits for no transaction: a claim that another open
/// transaction holds is `busy`. It corrects all in one subtransaction, or all except those that fail.
pub fn correct(call: &CellCall, what: &'static str, recent: Interval, findings: &mut [Finding]) {
    let open: Vec<_> = (0..findings.len()).filter(|at| findings[*at].outcome.is_none()).collect();
    if open.is_empty() {
        return;
    }
    let mut is_first = true;
    let around = call.tables.surroundings();
    let correct = |open: &[usize]| {
        let _waits = LockWaits::limit(if is_first { FIRST_LOCK_TIMEOUT_MS } else { LOCK_TIMEOUT_MS });
        is_first = false;
        let chosen: Vec<&Finding> = open.iter().map(|at| &findings[*at]).collect();
        // Where a statement costs no message each claim has its own, in bucket order, which is that of all locks.
        let together = if call.tables.are_distributed() { chosen.len() } else { 1 };
        let is_done = || chosen.chunks(together).all(|part| correct_all(call, around, part));
        call.bounded_within(around, || if is_done() { Ok(()) } else { Err(()) })
    };
    let troubled = in_one(&CONTENTION_SQLSTATES, &open, correct).failed;
    for at in open {
        findings[at].outcome = Some(Outcome::Corrected);
    }
    for (at, undone) in troubled {
        let (outcome, actual) = match (undone, findings[at].expected) {
            (Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION), Some(expected)) => rival_of(call, recent, expected),
            // The bucket was free and could not be added: it is confusable with a reserved name.
            (Undone::ByBody(()), Some(expected)) if findings[at].discrepancy == Discrepancy::Missing => {
                rival_of(call, recent, expected)
            }
            _ => (Outcome::Busy, None),
        };
        findings[at].outcome = Some(outcome);
        findings[at].actual = actual.or(findings[at].actual.take());
    }
    tell(call, what, findings);
}

/// Records corrections in the change feed and, as `what`, in the audit log: they change owners like leases do.
fn tell(call: &CellCall, what: &'static str, findings: &[Finding]) {
    let cell_id = call.cell_id;
    let corrected = |discrepancy| {
        let is_meant =
            |finding: &&Finding| finding.discrepancy == discrepancy && finding.outcome == Some(Outcome::Corrected);
        findings.iter().filter(is_meant).filter_map(Finding::bucket).collect()
    };
    let set = |change, buckets| ChangeSet { change, cause: None, buckets, attribution: attribution::of_session() };
    let sets = [
        set(Change::Destroy(cell_id), corrected(Discrepancy::Extra)),
        set(Change::Replace(cell_id), corrected(Discrepancy::Different)),
        set(Change::Create(cell_id), corrected(Discrepancy::Missing)),
    ];
    feed::tell(call, &sets, Moment::now());
    let is_corrected = |finding: &&Finding| finding.outcome == Some(Outcome::Corrected);
    let names: Vec<_> = findings.iter().filter(is_corrected).filter_map(audited).collect();
    audit::changed(call, None, what, &names);
}

/// Returns the name of a corrected finding, with its owners before and after.
fn audited<'f>(finding: &'f Finding) -> Option<AuditedName<'f>> {
    let owner = |claim: &'f Claim<'f>| Owner { subject: &claim.subject, source: &claim.source };
    let op = match finding.discrepancy {
        Discrepancy::Extra => "destroy",
        Discrepancy::Different => "replace",
        Discrepancy::Missing => "create",
    };
    let actual = finding.actual.as_ref().filter(|_| finding.discrepancy != Discrepancy::Missing);
    let (old, new) = (actual.map(|actual| owner(&actual.claim)), finding.expected.map(owner));
    Some(AuditedName { op, bucket: finding.bucket()?, old, new })
}

/// Corrects all of the findings. Returns `false` if one of the claims has changed since it was compared.
fn correct_all(call: &CellCall, around: Surroundings, findings: &[&Finding]) -> bool {
    let of = |discrepancy| findings.iter().filter(move |finding| finding.discrepancy == discrepancy);
    let extra: Vec<&Actual> = of(Discrepancy::Extra).filter_map(|finding| finding.actual.as_ref()).collect();
    let different: Vec<(&Actual, &Claim)> =
        of(Discrepancy::Different).filter_map(|finding| finding.actual.as_ref().zip(finding.expected)).collect();
    let expected = |reclaims: bool| {
        let meant = of(Discrepancy::Missing).filter(move |finding| finding.reclaims() == reclaims);
        meant.filter_map(|finding| finding.expected).collect::<Vec<&Claim>>()
    };
    let (missing, kept) = (expected(false), expected(true));

    let parts = |buckets: Vec<&Bucket>| match buckets.is_empty() {
        true => Vec::new(),
        false => CLAIM_TABLES.of(call).parts(call.connection, &buckets),
    };
    let mut corrected = 0;
    for part in parts(extra.iter().map(|actual| &actual.claim.bucket).collect()) {
        corrected += give_up(call, &part.iter().map(|at| extra[*at]).collect::<Vec<_>>());
    }
    free_skeletons(call, extra.iter().map(|actual| &actual.claim.bucket));
    let given_up = Given::up(&call.catalog, extra.iter().map(|actual| &actual.claim.bucket).collect());
    keep_skeletons(call, &call.catalog.types, given_up.kept.iter().copied());
    for part in parts(different.iter().map(|(_, claim)| &claim.bucket).collect()) {
        corrected += statements::replace(call.connection, &part.iter().map(|at| different[*at]).collect::<Vec<_>>());
    }
    if !missing.is_empty() {
        corrected += CLAIM_TABLES.of(call).add(call.connection, call.cell_id, &missing, around);
    }
    for claim in &kept {
        let right = Right::of(call.cell_id, call.catalog.reclaim(claim.bucket.bucket_type));
        corrected += kept::reclaim_now(call.connection, call.cell_id, claim, right);
    }
    let new = missing.iter().chain(&kept);
    corrected == findings.len() && take_skeletons(call, new.map(|claim| &claim.bucket))
}

/// Deletes claims, or keeps their names back where their types have a quarantine. Returns the number of those that have not changed since
/// they were read.
fn give_up(call: &CellCall, claims: &[&Actual]) -> usize {
    let type_of = |actual: &Actual| actual.claim.bucket.bucket_type;
    let is_kept = |actual: &&Actual| call.catalog.quarantines.contains_key(&type_of(actual));
    let (mut kept, freed): (Vec<&Actual>, Vec<&Actual>) = claims.iter().copied().partition(is_kept);
    kept.sort_by_key(|actual| type_of(actual));
    let at = Moment::now();
    let keep = |part: &[&Actual]| {
        let end = call.catalog.available_at(type_of(part[0]), at).unwrap_or(at);
        statements::keep_back(call.connection, part, at, end)
    };
    let kept: usize = kept.chunk_by(|one, other| type_of(one) == type_of(other)).map(keep).sum();
    kept + if freed.is_empty() { 0 } else { statements::remove(call.connection, &freed) }
}

/// Takes the skeletons of names whose types refuse confusable names. Returns whether all of them were free.
fn take_skeletons<'b>(call: &CellCall, buckets: impl Iterator<Item = &'b Bucket<'b>>) -> bool {
    let new = |(skeleton, bucket)| NewSkeleton { skeleton, bucket, predecessor: None };
    let new: Vec<_> = skeletons(buckets, &call.catalog.types).into_iter().map(new).collect();
    new.is_empty() || SKELETON_TABLES.of(call).take_skeletons(call.connection, &new, true) == new.len()
}

fn free_skeletons<'b>(call: &CellCall, buckets: impl Iterator<Item = &'b Bucket<'b>>) {
    let destroyed = skeletons(buckets, &call.catalog.types);
    if !destroyed.is_empty() {
        let freed = EndedSkeletons { created: Vec::new(), destroyed };
        SKELETON_TABLES.of(call).settle_skeletons(call.connection, &freed, Ending::Commit);
    }
}

/// Returns the outcome for a bucket that was claimed after the comparison, or that is confusable with a claimed name.
fn rival_of(call: &CellCall, recent: Interval, expected: &Claim) -> (Outcome, Option<Actual>) {
    let bucket = &expected.bucket;
    let mut now = VERIFICATION_TABLES.of(call).actual_on(call.connection, &[bucket], recent);
    match now.remove(bucket).map(|actual| (actual.state_for_claim(&asking(call, expected, Moment::now())), actual)) {
        Some((ClaimState { kept: Some(name), .. }, actual)) => match name {
            KeptName { may_be_had: true, is_leased: false, .. } => (Outcome::Busy, None),
            KeptName { may_be_had: true, .. } => (Outcome::Leased, None),
            _ => (Outcome::Quarantined, Some(actual)),
        },
        Some((state, actual)) if state.reserved => (Outcome::Reserved, Some(actual)),
        Some((state, actual)) if !state.own && !state.in_transfer => (Outcome::HeldByOther, Some(actual)),
        Some((state, _)) if state.leased => (Outcome::Leased, None),
        Some(_) => (Outcome::Busy, None),
        None => match rivals(call, [bucket].into_iter(), recent, &call.catalog.types).remove(bucket) {
            Some((outcome, rival)) => (outcome, Some(rival)),
            None => (Outcome::Busy, None),
        },
    }
}
