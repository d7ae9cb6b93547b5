//! Putting claims right, at the service: each in one statement, so that a bucket never stands free in between.

use claims_model::lookalike::{NewLook, look_of};
use claims_model::verify::{Discrepancy, Outcome};
use claims_model::{Bucket, Claim, Types};
use pgrx::PgSqlErrorCode as Code;
use pgrx::datum::Interval;

use super::finding::Finding;
use super::rivals::rivals;
use crate::pg::clock::Moment;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Undone, in_one};
use crate::service::engine::{self, CONTENTION_SQLSTATES, EndedLooks};
use crate::service::feed;
use crate::store::service::changes::{Change, ChangeSet};
use crate::store::service::leases::Ending;
use crate::store::service::verify::{self, Actual};

/// Milliseconds to wait for a lock: none at first; where that was in vain, long enough for a table that is
/// being extended.
const IMPATIENT: i64 = 1;
const PATIENT: i64 = 5;

/// What came of one correction.
enum Corrected {
    Done,
    /// The claim is not any more what it was when it was compared.
    Changed,
}

/// Corrects what may be corrected, and writes into each finding what came of it. In bucket order; nothing is waited
/// for: a claim that another open transaction is at is `busy`. All in one go, or all but those where somebody is in the way.
pub fn correct(connection: &Connection, cell_id: i64, recent: Interval, types: &Types, findings: &mut [Finding]) {
    let open: Vec<_> = (0..findings.len()).filter(|at| findings[*at].outcome.is_none()).collect();
    if open.is_empty() {
        return;
    }
    let mut is_first = true;
    let around = engine::current().surroundings();
    let correct = |open: &[usize]| {
        let _waits = LockWaits::limit(if is_first { IMPATIENT } else { PATIENT });
        is_first = false;
        engine::bounded_within(connection, around, || {
            open.iter().try_for_each(|at| match correct_one(connection, cell_id, types, &findings[*at]) {
                Corrected::Done => Ok(()),
                Corrected::Changed => Err(()),
            })
        })
    };
    let troubled = in_one(&CONTENTION_SQLSTATES, &open, correct).troubled;
    for at in open {
        findings[at].outcome = Some(Outcome::Corrected);
    }
    for (at, undone) in troubled {
        let (outcome, actual) = match (undone, findings[at].expected) {
            (Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION), Some(expected)) => {
                in_the_way(connection, cell_id, recent, types, expected)
            }
            _ => (Outcome::Busy, None),
        };
        findings[at].outcome = Some(outcome);
        findings[at].actual = actual.or(findings[at].actual.take());
    }
    tell(connection, cell_id, findings);
}

/// What was put right changes owners, like what a lease does.
fn tell(connection: &Connection, cell_id: i64, findings: &[Finding]) {
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
    feed::tell(connection, &sets, Moment::now());
}

fn correct_one(connection: &Connection, cell_id: i64, types: &Types, finding: &Finding) -> Corrected {
    let done = match (finding.discrepancy, finding.expected, finding.actual.as_ref()) {
        (Discrepancy::Missing, Some(expected), _) => {
            verify::add(connection, cell_id, expected) && take_look(connection, &expected.bucket, types)
        }
        (Discrepancy::Different, Some(expected), Some(actual)) => verify::replace(connection, actual, expected),
        (Discrepancy::Extra, _, Some(actual)) => {
            let removed = verify::remove(connection, actual);
            free_look(connection, &actual.claim.bucket, types);
            removed
        }
        // A finding has what its kind says; without it there is nothing to do.
        _ => false,
    };
    if done { Corrected::Done } else { Corrected::Changed }
}

/// A name whose type refuses look-alikes needs its look for itself.
fn take_look(connection: &Connection, bucket: &Bucket, types: &Types) -> bool {
    let Some(look) = look_of(bucket, types) else { return true };
    engine::current().take_looks(connection, &[NewLook { look, bucket, predecessor: None }], true) == 1
}

fn free_look(connection: &Connection, bucket: &Bucket, types: &Types) {
    if let Some(look) = look_of(bucket, types) {
        let freed = EndedLooks { created: Vec::new(), destroyed: vec![(look, bucket)] };
        engine::current().settle_looks(connection, &freed, Ending::Commit);
    }
}

/// Somebody has claimed the bucket since it was looked at, or there is a claim of a name that looks like it.
fn in_the_way(
    connection: &Connection,
    cell_id: i64,
    recent: Interval,
    types: &Types,
    expected: &Claim,
) -> (Outcome, Option<Actual>) {
    let bucket = &expected.bucket;
    let mut now = verify::on_buckets(connection, &[bucket], recent);
    match now.remove(bucket).map(|actual| (actual.state_for(cell_id), actual)) {
        Some((state, actual)) if state.reserved => (Outcome::Reserved, Some(actual)),
        Some((state, actual)) if !state.own && !state.in_transfer => (Outcome::HeldByOther, Some(actual)),
        Some((state, _)) if state.leased => (Outcome::Leased, None),
        Some(_) => (Outcome::Busy, None),
        None => match rivals(connection, [bucket].into_iter(), recent, types).remove(bucket) {
            Some((outcome, rival)) => (outcome, Some(rival)),
            None => (Outcome::Busy, None),
        },
    }
}
