//! Comparing a small range record by record, and correcting it.
//!
//! The first comparison locks nothing, here or at the service. What it finds is only a suspicion: a local transaction may
//! have ended in between. Each suspect is checked again, now that the claim was seen as ACTIVE or missing:
//! since a claim becomes ACTIVE, or is deleted, only after its local transaction has ended, the rows that call for the
//! claim must be visible by now. While claims are corrected, the rows that call for them are locked.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use claims_model::source_range::SourceRange;
use claims_model::verify::{Discrepancy, Outcome};
use uuid::Uuid;

use super::expected::{Called, Expected, list_json};
use super::progress::Tally;
use super::remote::Remote;
use super::rows::SeenRows;
use crate::cell::client::records::Report;
use crate::error::ClaimsError;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Stopped, attempt};
use crate::store::cell::expected::Hold;

/// The two sides, and the options of the comparison.
pub struct Comparison<'a> {
    pub connection: &'a Connection,
    pub expected: &'a Expected<'a>,
    pub remote: &'a Remote<'a, 'a>,
    pub source_type: &'a str,
    pub correct: bool,
    /// Raises if another worker has taken the range over. Otherwise none can until the subtransaction ends.
    pub in_charge: &'a dyn Fn() -> Result<(), ClaimsError>,
}

/// A type of bucket, and a value.
type BucketName = (String, String);

/// A discrepancy that was found once, and the row that calls for the bucket, if any.
struct Suspect {
    report: Report,
    called: Option<Called>,
}

/// What is to be done about a suspect.
enum Decision {
    /// It is no discrepancy (any more).
    Dismissed,
    /// It is skipped.
    Left(Outcome),
    /// No column that is claimed here can have made this claim.
    Foreign,
    /// The claim is to be as this row calls for it.
    Claim(Called),
    /// The claim is to be destroyed.
    Destroy(Uuid),
}

impl Comparison<'_> {
    /// Compares a range, and counts what is found.
    pub fn compare(&self, range: &SourceRange, tally: &mut Tally) -> Result<(), ClaimsError> {
        let records = self.expected.records(range)?;
        let rows = records.claims.len() as i64;
        let mut by_bucket: HashMap<BucketName, Called> = HashMap::new();
        for called in records.claims {
            by_bucket.entry((called.bucket_type().to_owned(), called.value.clone())).or_insert(called);
        }
        let reports = self.remote.compare(range, &list_json(by_bucket.values()))?;
        let extra = reports.iter().filter(|report| report.discrepancy == Discrepancy::Extra).count();
        tally.checked += rows + extra as i64;
        tally.count_unclaimable(records.unclaimable);
        tally.count_doubles(rows - by_bucket.len() as i64);
        let mut suspects = Vec::new();
        for report in reports {
            match report.outcome {
                Some(outcome) if outcome != Outcome::HeldByOther => tally.count(report.discrepancy, Some(outcome)),
                _ => {
                    let called = by_bucket.remove(&(report.bucket_type.clone(), report.bucket_value.clone()));
                    suspects.push(Suspect { report, called });
                }
            }
        }
        match (suspects.is_empty(), self.correct) {
            (true, _) => Ok(()),
            (false, false) => self.count(suspects, tally),
            (false, true) => self.put_right(range, suspects, tally),
        }
    }

    /// Counts what is still wrong in the second check.
    fn count(&self, suspects: Vec<Suspect>, tally: &mut Tally) -> Result<(), ClaimsError> {
        let rows = self.rows(&suspects, Hold::No);
        for suspect in suspects {
            let (discrepancy, outcome) = (suspect.report.discrepancy, suspect.report.outcome);
            match self.judge(suspect, &rows) {
                Decision::Dismissed => {}
                Decision::Left(outcome) => tally.count(discrepancy, Some(outcome)),
                Decision::Foreign => tally.count_foreign(),
                // It is reported by the range of the row.
                Decision::Claim(called) if discrepancy == Discrepancy::Extra => {
                    if called.attribute().source_type != self.source_type {
                        tally.count(Discrepancy::Different, None);
                    }
                }
                Decision::Claim(_) | Decision::Destroy(_) => tally.count(discrepancy, outcome),
            }
        }
        Ok(())
    }

    /// Locks the rows, has the service correct, and unlocks the rows: in a subtransaction that is rolled back, since
    /// nothing is written here.
    fn put_right(&self, range: &SourceRange, suspects: Vec<Suspect>, tally: &mut Tally) -> Result<(), ClaimsError> {
        let held = attempt(|| Err::<Infallible, _>(self.hold_and_correct(range, suspects, tally)));
        match held {
            Ok(never) => match never {},
            Err(Stopped::ByBody(result)) => result,
            Err(Stopped::ByError(caught)) => caught.rethrow(),
        }
    }

    fn hold_and_correct(
        &self,
        range: &SourceRange,
        suspects: Vec<Suspect>,
        tally: &mut Tally,
    ) -> Result<(), ClaimsError> {
        let rows = self.rows(&suspects, Hold::Unchanged);
        let (mut claim, mut destroy) = (Vec::new(), Vec::new());
        for suspect in suspects {
            let (discrepancy, outcome) = (suspect.report.discrepancy, suspect.report.outcome);
            match self.judge(suspect, &rows) {
                Decision::Dismissed => {}
                Decision::Left(outcome) => tally.count(discrepancy, Some(outcome)),
                Decision::Foreign => tally.count_foreign(),
                Decision::Claim(_) if outcome.is_some() => tally.count(discrepancy, outcome),
                Decision::Claim(called) => claim.push(called),
                Decision::Destroy(uuid) => destroy.push(uuid),
            }
        }
        if claim.is_empty() && destroy.is_empty() {
            return Ok(());
        }
        (self.in_charge)()?;
        for report in self.remote.correct(range, &list_json(&claim), &destroy)? {
            tally.count(report.discrepancy, report.outcome);
        }
        Ok(())
    }

    /// Reads the rows concerned again, as committed now.
    fn rows(&self, suspects: &[Suspect], hold: Hold) -> SeenRows {
        let mut rows = SeenRows::default();
        let is_extra = |suspect: &&Suspect| suspect.called.is_none();
        let bucket = |suspect: &Suspect| (suspect.report.bucket_type.clone(), suspect.report.bucket_value.clone());
        rows.find_callers(self.connection, suspects.iter().filter(is_extra).map(bucket));
        let callers = rows.callers();
        rows.look(self.connection, suspects.iter().filter_map(|suspect| suspect.called.clone()).chain(callers), hold);
        let sources: HashSet<_> = suspects.iter().filter_map(|suspect| suspect.report.source.clone()).collect();
        rows.look_at_sources(self.connection, sources);
        rows
    }

    fn judge(&self, suspect: Suspect, rows: &SeenRows) -> Decision {
        let Suspect { report, called } = suspect;
        let called = called.or_else(|| rows.caller(&report.bucket_type, &report.bucket_value));
        match (called, report.uuid) {
            // Another row has the claim and calls for it, too: it keeps it.
            (Some(called), _) if report.discrepancy == Discrepancy::Different && rows.has_rival(&report, &called) => {
                Decision::Left(Outcome::Busy)
            }
            (Some(called), _) if rows.is_seen(&called) => Decision::Claim(called),
            (Some(called), _) if rows.is_there(self.connection, &called) => Decision::Left(Outcome::Busy),
            (Some(_), _) => Decision::Dismissed,
            (None, Some(_)) if !report.source.is_some_and(|(_, id)| self.expected.can_have(&id)) => Decision::Foreign,
            (None, Some(uuid)) => Decision::Destroy(uuid),
            (None, None) => Decision::Dismissed,
        }
    }
}
