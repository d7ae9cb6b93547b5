//! Putting claims right, at the service: each in one statement, so that a bucket never stands free in between.

use claims_model::Claim;
use claims_model::verify::{Discrepancy, Outcome};
use pgrx::PgSqlErrorCode as Code;
use pgrx::datum::Interval;

use super::records::Finding;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Undone, in_one};
use crate::service::lease::IN_THE_WAY;
use crate::store::service::verify;

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
pub fn correct(connection: &Connection, cell_id: i64, recent: Interval, findings: &mut [Finding]) {
    let open: Vec<_> = (0..findings.len()).filter(|at| findings[*at].outcome.is_none()).collect();
    if open.is_empty() {
        return;
    }
    let mut is_first = true;
    let correct = |open: &[usize]| {
        let _waits = LockWaits::limit(if is_first { IMPATIENT } else { PATIENT });
        is_first = false;
        open.iter().try_for_each(|at| match correct_one(connection, cell_id, &findings[*at]) {
            Corrected::Done => Ok(()),
            Corrected::Changed => Err(()),
        })
    };
    let troubled = in_one(&IN_THE_WAY, &open, correct).troubled;
    for at in open {
        findings[at].outcome = Some(Outcome::Corrected);
    }
    for (at, undone) in troubled {
        findings[at].outcome = Some(match (undone, findings[at].expected) {
            (Undone::ByError(Code::ERRCODE_UNIQUE_VIOLATION), Some(expected)) => {
                owner_now(connection, cell_id, recent, expected)
            }
            _ => Outcome::Busy,
        });
    }
}

fn correct_one(connection: &Connection, cell_id: i64, finding: &Finding) -> Corrected {
    let done = match (finding.discrepancy, finding.expected, finding.actual.as_ref()) {
        (Discrepancy::Missing, Some(expected), _) => verify::add(connection, cell_id, expected),
        (Discrepancy::Different, Some(expected), Some(actual)) => verify::replace(connection, actual, expected),
        (Discrepancy::Extra, _, Some(actual)) => verify::remove(connection, actual),
        // A finding has what its kind says; without it there is nothing to do.
        _ => false,
    };
    if done { Corrected::Done } else { Corrected::Changed }
}

/// Somebody has claimed the bucket since it was looked at.
fn owner_now(connection: &Connection, cell_id: i64, recent: Interval, expected: &Claim) -> Outcome {
    let now = verify::on_buckets(connection, &[&expected.bucket], recent);
    match now.get(&expected.bucket).map(|actual| actual.state_for(cell_id)) {
        Some(state) if !state.own => Outcome::HeldByOther,
        Some(state) if state.leased => Outcome::Leased,
        _ => Outcome::Busy,
    }
}
