//! Corrects claims at the service: each by one statement, so that a bucket is never free between two statements.

use claims_model::lookalike::{NewSkeleton, skeleton_of};
use claims_model::verify::{Discrepancy, Outcome};
use claims_model::{Bucket, Claim};
use pgrx::PgSqlErrorCode as Code;
use pgrx::datum::Interval;

use super::finding::Finding;
use super::rivals::rivals;
use crate::kernel::call::CellCall;
use crate::service::{audit, feed};
use crate::tables::rows::feed::{Change, ChangeSet};
use crate::tables::rows::leases::Ending;
use crate::tables::rows::verify::Actual;
use crate::tables::shared::verify;
use crate::tables::{CONTENTION_SQLSTATES, EndedSkeletons};
use pg::clock::Moment;
use pg::settings::LockWaits;
use pg::subtransaction::{Undone, in_one};

/// Milliseconds to wait for a lock: none at first; where that was in vain, long enough for a table that is
/// being extended.
const FIRST_LOCK_TIMEOUT_MS: i64 = 1;
const LOCK_TIMEOUT_MS: i64 = 5;

/// The result of one correction.
enum Corrected {
    Done,
    /// The claim has changed since it was compared.
    Changed,
}

/// Corrects the findings, in bucket order, and stores in each its outcome. It waits for no transaction: a claim that another open
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
        call.bounded_within(around, || {
            open.iter().try_for_each(|at| match correct_one(call, &findings[*at]) {
                Corrected::Done => Ok(()),
                Corrected::Changed => Err(()),
            })
        })
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
    let set = |change, buckets| ChangeSet { change, cause: None, buckets };
    let sets = [
        set(Change::Destroy(cell_id), corrected(Discrepancy::Extra)),
        set(Change::Replace(cell_id), corrected(Discrepancy::Different)),
        set(Change::Create(cell_id), corrected(Discrepancy::Missing)),
    ];
    feed::tell(call, &sets, Moment::now());
    audit::changed(call, what, &sets);
}

fn correct_one(call: &CellCall, finding: &Finding) -> Corrected {
    let done = match (finding.discrepancy, finding.expected, finding.actual.as_ref()) {
        (Discrepancy::Missing, Some(expected), _) => {
            verify::add(call.connection, call.cell_id, expected) && take_skeleton(call, &expected.bucket)
        }
        (Discrepancy::Different, Some(expected), Some(actual)) => verify::replace(call.connection, actual, expected),
        (Discrepancy::Extra, _, Some(actual)) => {
            let removed = verify::remove(call.connection, actual);
            free_skeleton(call, &actual.claim.bucket);
            removed
        }
        // A finding always has the parts that its kind needs.
        _ => false,
    };
    if done { Corrected::Done } else { Corrected::Changed }
}

/// Takes the skeleton of a name if its type refuses confusable names.
fn take_skeleton(call: &CellCall, bucket: &Bucket) -> bool {
    let Some(skeleton) = skeleton_of(bucket, &call.catalog.types) else { return true };
    call.tables.take_skeletons(call.connection, &[NewSkeleton { skeleton, bucket, predecessor: None }], true) == 1
}

fn free_skeleton(call: &CellCall, bucket: &Bucket) {
    if let Some(skeleton) = skeleton_of(bucket, &call.catalog.types) {
        let freed = EndedSkeletons { created: Vec::new(), destroyed: vec![(skeleton, bucket)] };
        call.tables.settle_skeletons(call.connection, &freed, Ending::Commit);
    }
}

/// Returns the outcome for a bucket that was claimed after the comparison, or that is confusable with a claimed name.
fn rival_of(call: &CellCall, recent: Interval, expected: &Claim) -> (Outcome, Option<Actual>) {
    let bucket = &expected.bucket;
    let mut now = call.tables.actual_on(call.connection, &[bucket], recent);
    match now.remove(bucket).map(|actual| (actual.state_for(call.cell_id), actual)) {
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
