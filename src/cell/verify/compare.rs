//! Comparing a small range record by record, and correcting it.
//!
//! The first comparison locks nothing, here or at the service. What it finds is only a suspicion: a local transaction may
//! have ended in between. Each suspect is checked again, now that the claim was seen as ACTIVE or missing:
//! since a claim becomes ACTIVE, or is deleted, only after its local transaction has ended, the rows that call for the
//! claim must be visible by now. While claims are corrected, the rows that call for them are locked.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use claims_model::source_range::SourceRange;
use claims_model::verify::{Discrepancy, Outcome};
use uuid::Uuid;

use super::expected::{Called, Expected, Unclaimable, list_json};
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

/// What came of comparing a range.
#[derive(Default)]
pub struct ComparedRange {
    /// Claims that rows call for, and extra ones.
    pub checked: i64,
    pub found: Vec<FoundDiscrepancy>,
}

/// A discrepancy, and what becomes of it.
pub struct FoundDiscrepancy {
    pub discrepancy: Discrepancy,
    pub bucket_type: String,
    pub bucket_value: String,
    /// Of the row that calls for the claim; where none does, of the claim.
    pub source_id: Option<String>,
    pub holder: Option<i64>,
    pub outcome: Option<Outcome>,
}

impl FoundDiscrepancy {
    /// As the service says it; `source_id` is that of the row, if there is one.
    fn of(report: &Report, source_id: Option<&String>) -> FoundDiscrepancy {
        FoundDiscrepancy {
            discrepancy: report.discrepancy,
            bucket_type: report.bucket_type.clone(),
            bucket_value: report.bucket_value.clone(),
            source_id: source_id.or(report.source.as_ref().map(|(_, id)| id)).cloned(),
            holder: report.holder,
            outcome: report.outcome,
        }
    }

    fn impossible(row: Unclaimable) -> FoundDiscrepancy {
        let Unclaimable { bucket_type, value: bucket_value, source_id } = row;
        let (discrepancy, outcome) = (Discrepancy::Missing, Some(Outcome::Impossible));
        FoundDiscrepancy { discrepancy, bucket_type, bucket_value, source_id, holder: None, outcome }
    }

    fn doubled(called: Called) -> FoundDiscrepancy {
        FoundDiscrepancy {
            discrepancy: Discrepancy::Missing,
            bucket_type: called.bucket_type().to_owned(),
            bucket_value: called.value,
            source_id: Some(called.source_id),
            holder: None,
            outcome: Some(Outcome::Doubled),
        }
    }

    fn with(self, outcome: Outcome) -> FoundDiscrepancy {
        FoundDiscrepancy { outcome: Some(outcome), ..self }
    }
}

/// A discrepancy that was found once, and the row that calls for the bucket, if any.
struct Suspect {
    report: Report,
    called: Option<Called>,
}

impl Suspect {
    fn found(&self) -> FoundDiscrepancy {
        FoundDiscrepancy::of(&self.report, self.called.as_ref().map(|called| &called.source_id))
    }
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
    /// Compares a range.
    pub fn compare(&self, range: &SourceRange) -> Result<ComparedRange, ClaimsError> {
        let records = self.expected.records(range)?;
        let rows = records.claims.len() + records.unclaimable.len();
        let mut found: Vec<_> = records.unclaimable.into_iter().map(FoundDiscrepancy::impossible).collect();
        let mut by_bucket: HashMap<BucketName, Called> = HashMap::new();
        for called in records.claims {
            match by_bucket.entry((called.bucket_type().to_owned(), called.value.clone())) {
                Entry::Occupied(_) => found.push(FoundDiscrepancy::doubled(called)),
                Entry::Vacant(entry) => {
                    entry.insert(called);
                }
            }
        }
        let reports = self.remote.compare(range, &list_json(by_bucket.values()))?;
        let extra = reports.iter().filter(|report| report.discrepancy == Discrepancy::Extra).count();
        let mut suspects = Vec::new();
        for report in reports {
            let called = by_bucket.remove(&(report.bucket_type.clone(), report.bucket_value.clone()));
            let suspect = Suspect { report, called };
            match suspect.report.outcome {
                // Left alone, whatever a second look says.
                Some(Outcome::Leased | Outcome::Recent | Outcome::Busy) => found.push(suspect.found()),
                _ => suspects.push(suspect),
            }
        }
        if !suspects.is_empty() {
            found.extend(if self.correct { self.put_right(range, suspects)? } else { self.still_wrong(suspects) });
        }
        Ok(ComparedRange { checked: (rows + extra) as i64, found })
    }

    /// What is still wrong in the second check.
    fn still_wrong(&self, suspects: Vec<Suspect>) -> Vec<FoundDiscrepancy> {
        let rows = self.rows(&suspects, Hold::No);
        let still_wrong = |suspect: Suspect| {
            let found = suspect.found();
            match self.judge(suspect, &rows) {
                Decision::Dismissed => None,
                Decision::Left(outcome) => Some(found.with(outcome)),
                Decision::Foreign => Some(found.with(Outcome::Foreign)),
                // It is reported by the range of the row, if that is of this source type.
                Decision::Claim(called) if found.discrepancy == Discrepancy::Extra => {
                    let is_elsewhere = called.attribute().source_type != self.source_type;
                    is_elsewhere.then_some(FoundDiscrepancy {
                        discrepancy: Discrepancy::Different,
                        outcome: None,
                        ..found
                    })
                }
                Decision::Claim(_) | Decision::Destroy(_) => Some(found),
            }
        };
        suspects.into_iter().filter_map(still_wrong).collect()
    }

    /// Locks the rows, has the service correct, and unlocks the rows: in a subtransaction that is rolled back, since
    /// nothing is written here.
    fn put_right(&self, range: &SourceRange, suspects: Vec<Suspect>) -> Result<Vec<FoundDiscrepancy>, ClaimsError> {
        let held = attempt(|| Err::<Infallible, _>(self.hold_and_correct(range, suspects)));
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
    ) -> Result<Vec<FoundDiscrepancy>, ClaimsError> {
        let rows = self.rows(&suspects, Hold::Unchanged);
        let (mut all, mut claim, mut destroy) = (Vec::new(), Vec::new(), Vec::new());
        for suspect in suspects {
            let found = suspect.found();
            match self.judge(suspect, &rows) {
                Decision::Dismissed => {}
                Decision::Left(outcome) => all.push(found.with(outcome)),
                Decision::Foreign => all.push(found.with(Outcome::Foreign)),
                // A name that looks like it may be given up by the same correction.
                Decision::Claim(_) if found.outcome.is_some_and(|outcome| outcome != Outcome::Confusable) => {
                    all.push(found);
                }
                Decision::Claim(called) => claim.push(called),
                Decision::Destroy(uuid) => destroy.push(uuid),
            }
        }
        if claim.is_empty() && destroy.is_empty() {
            return Ok(all);
        }
        (self.in_charge)()?;
        let source_ids: HashMap<_, _> =
            claim.iter().map(|called| ((called.bucket_type(), called.value.as_str()), &called.source_id)).collect();
        for report in self.remote.correct(range, &list_json(&claim), &destroy)? {
            let source_id = source_ids.get(&(report.bucket_type.as_str(), report.bucket_value.as_str())).copied();
            all.push(FoundDiscrepancy::of(&report, source_id));
        }
        Ok(all)
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
