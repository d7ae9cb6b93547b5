//! Compares a small range record by record, and corrects it.
//!
//! The first comparison locks nothing, neither here nor at the service. Its results are only suspects: a local transaction may have
//! ended between the reads of the two sides. So each suspect is checked again, after its claim was seen as ACTIVE or missing. A claim
//! becomes ACTIVE, or is deleted, only after its local transaction has ended, so by now the rows that need the claim are visible. A
//! correction locks these rows.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::rc::Rc;

use claims_model::source_range::SourceRange;
use claims_model::verify::{Discrepancy, Outcome};
use uuid::Uuid;

use super::expected::{Expected, ExpectedClaim, Unclaimable, list_json};
use super::moved_claims::{self, MovedClaim};
use super::remote::Remote;
use super::rows::SeenRows;
use crate::cell::claimed::expected::ShareLock;
use crate::cell::client::records::Report;
use crate::kernel::error::ClaimsError;
use pg::spi::Connection;
use pg::subtransaction::{Stopped, attempt};

/// A comparison of the two sides, with its options.
pub struct Comparison<'a> {
    pub connection: &'a Connection,
    pub expected: &'a Expected<'a>,
    pub remote: &'a Remote<'a, 'a>,
    pub source_type: &'a str,
    pub correct: bool,
    /// Raises an error if another worker has taken the range. Otherwise none can take it until the subtransaction ends.
    pub require_range: &'a dyn Fn() -> Result<(), ClaimsError>,
}

/// A bucket: its type and its value.
type BucketName = (String, String);

#[derive(Default)]
pub struct ComparedRange {
    /// Number of rows that need a claim, and of extra claims.
    pub checked: i64,
    pub found: Vec<FoundDiscrepancy>,
    /// Number of discrepancies that the service has reported.
    pub reported: usize,
    /// Number of claims of rows whose declarations are off.
    pub off: i64,
}

pub struct FoundDiscrepancy {
    pub discrepancy: Discrepancy,
    pub bucket_type: String,
    pub bucket_value: String,
    /// Source id of the row that needs the claim, or of the claim if no row needs it.
    pub source_id: Option<String>,
    pub holder: Option<i64>,
    pub outcome: Option<Outcome>,
}

impl FoundDiscrepancy {
    /// Converts the service's report. `source_id` is that of the row, if there is one.
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
        let Unclaimable { bucket_type, value: bucket_value, source_id, .. } = row;
        let (discrepancy, outcome) = (Discrepancy::Missing, Some(Outcome::Impossible));
        FoundDiscrepancy { discrepancy, bucket_type, bucket_value, source_id, holder: None, outcome }
    }

    fn doubled(expected_claim: ExpectedClaim) -> FoundDiscrepancy {
        FoundDiscrepancy {
            discrepancy: Discrepancy::Missing,
            bucket_type: expected_claim.bucket_type().to_owned(),
            bucket_value: expected_claim.value,
            source_id: Some(expected_claim.source_id),
            holder: None,
            outcome: Some(Outcome::Doubled),
        }
    }

    fn with(self, outcome: Outcome) -> FoundDiscrepancy {
        FoundDiscrepancy { outcome: Some(outcome), ..self }
    }
}

/// A discrepancy that the first comparison found, and the claim that a row needs, if any.
struct Suspect {
    report: Report,
    expected_claim: Option<ExpectedClaim>,
}

impl Suspect {
    fn found(&self) -> FoundDiscrepancy {
        FoundDiscrepancy::of(&self.report, self.expected_claim.as_ref().map(|expected_claim| &expected_claim.source_id))
    }
}

/// The decision about a suspect.
enum Decision {
    /// It is no discrepancy, or no longer one.
    Dismissed,
    /// It is reported and not corrected.
    Skip(Outcome),
    /// No column that is claimed here can have made this claim.
    Foreign,
    /// A row needs the claim at this other service.
    Elsewhere(Rc<str>),
    /// The claim must become the one that this row needs.
    Claim(ExpectedClaim),
    /// The claim must be destroyed.
    Destroy(Uuid),
}

impl Comparison<'_> {
    /// Compares a range, and corrects it if requested.
    pub fn compare(&self, range: &SourceRange) -> Result<ComparedRange, ClaimsError> {
        let records = self.expected.records(range)?;
        let rows = records.claims.len() + records.unclaimable.len();
        let mut found: Vec<_> = records.unclaimable.into_iter().map(FoundDiscrepancy::impossible).collect();
        let mut by_bucket: HashMap<BucketName, ExpectedClaim> = HashMap::new();
        for expected_claim in records.claims {
            match by_bucket.entry((expected_claim.bucket_type().to_owned(), expected_claim.value.clone())) {
                Entry::Occupied(_) => found.push(FoundDiscrepancy::doubled(expected_claim)),
                Entry::Vacant(entry) => {
                    entry.insert(expected_claim);
                }
            }
        }
        let mut reports = self.remote.compare(range, &list_json(by_bucket.values())?)?;
        let reported = reports.len();
        let off = self.leave_out_off(&mut reports);
        let extra = reports.iter().filter(|report| report.discrepancy == Discrepancy::Extra).count();
        let mut suspects = Vec::new();
        for report in reports {
            let expected_claim = by_bucket.remove(&(report.bucket_type.clone(), report.bucket_value.clone()));
            let suspect = Suspect { report, expected_claim };
            match suspect.report.outcome {
                // These are reported whatever a second check would find.
                Some(Outcome::Leased | Outcome::Recent | Outcome::Busy) => found.push(suspect.found()),
                _ => suspects.push(suspect),
            }
        }
        if !suspects.is_empty() {
            found.extend(if self.correct { self.correct_suspects(range, suspects)? } else { self.confirm(suspects) });
        }
        Ok(ComparedRange { checked: (rows + extra) as i64, found, reported, off })
    }

    /// Leaves out the claims of rows whose declarations are off, and returns their number: they are neither needed nor extra. Such a row may
    /// have changed its name, or be gone, because nothing is captured.
    fn leave_out_off(&self, reports: &mut Vec<Report>) -> i64 {
        if !self.expected.has_off() {
            return 0;
        }
        let may_be_off = |report: &Report| {
            let Some((source_type, id)) = &report.source else { return false };
            report.discrepancy == Discrepancy::Extra
                && *source_type == self.source_type
                && self.expected.may_be_off(&report.bucket_type, &report.bucket_value, id)
        };
        let (maybe_off, others): (Vec<_>, Vec<_>) = reports.drain(..).partition(may_be_off);
        *reports = others;
        let mut rows = SeenRows::default();
        rows.read_sources(self.connection, maybe_off.iter().filter_map(|report| report.source.clone()).collect());
        let (extra, off): (Vec<_>, Vec<_>) = maybe_off.into_iter().partition(|report| rows.is_source_enforced(report));
        reports.extend(extra);
        off.len() as i64
    }

    /// Returns the discrepancies that the second check confirms.
    fn confirm(&self, suspects: Vec<Suspect>) -> Vec<FoundDiscrepancy> {
        let rows = self.rows(&suspects, ShareLock::None);
        let confirm = |suspect: Suspect| {
            let found = suspect.found();
            match self.judge(suspect, &rows) {
                Decision::Dismissed => None,
                Decision::Skip(outcome) => Some(found.with(outcome)),
                Decision::Foreign => Some(found.with(Outcome::Foreign)),
                Decision::Elsewhere(_) => Some(found.with(Outcome::OtherService)),
                // The range that contains the row reports it, unless the row has another source type.
                Decision::Claim(expected_claim) if found.discrepancy == Discrepancy::Extra => {
                    let is_elsewhere = expected_claim.attribute().source_type != self.source_type;
                    is_elsewhere.then_some(FoundDiscrepancy {
                        discrepancy: Discrepancy::Different,
                        outcome: None,
                        ..found
                    })
                }
                Decision::Claim(_) | Decision::Destroy(_) => Some(found),
            }
        };
        suspects.into_iter().filter_map(confirm).collect()
    }

    /// Locks the rows and has the service correct their claims. It runs in a subtransaction that is rolled back to release the locks:
    /// nothing is written here.
    fn correct_suspects(
        &self,
        range: &SourceRange,
        suspects: Vec<Suspect>,
    ) -> Result<Vec<FoundDiscrepancy>, ClaimsError> {
        let held = attempt(|| Err::<Infallible, _>(self.lock_and_correct(range, suspects)));
        match held {
            Ok(never) => match never {},
            Err(Stopped::ByBody(result)) => result,
            Err(Stopped::ByError(caught)) => caught.rethrow(),
        }
    }

    fn lock_and_correct(
        &self,
        range: &SourceRange,
        suspects: Vec<Suspect>,
    ) -> Result<Vec<FoundDiscrepancy>, ClaimsError> {
        let rows = self.rows(&suspects, ShareLock::Share);
        let (mut all, mut claim, mut destroy) = (Vec::new(), Vec::new(), Vec::new());
        let (mut moved, mut found_moved) = (Vec::new(), Vec::new());
        // The discrepancies of `claim` and `destroy`, in their order.
        let (mut found_claim, mut found_destroy) = (Vec::new(), Vec::new());
        for suspect in suspects {
            let (found, uuid) = (suspect.found(), suspect.report.uuid);
            match self.judge(suspect, &rows) {
                Decision::Dismissed => {}
                Decision::Skip(outcome) => all.push(found.with(outcome)),
                Decision::Foreign => all.push(found.with(Outcome::Foreign)),
                Decision::Elsewhere(service) => {
                    let Some(uuid) = uuid else { continue };
                    let (bucket_type, bucket_value) = (found.bucket_type.clone(), found.bucket_value.clone());
                    moved.push(MovedClaim { bucket_type, bucket_value, uuid, service });
                    found_moved.push((uuid, found));
                }
                // A confusable claim may be one that the same correction destroys, so the service has to decide.
                Decision::Claim(_) if found.outcome.is_some_and(|outcome| outcome != Outcome::Confusable) => {
                    all.push(found);
                }
                Decision::Claim(expected_claim) => {
                    claim.push(expected_claim);
                    found_claim.push(found);
                }
                Decision::Destroy(uuid) => {
                    destroy.push(uuid);
                    found_destroy.push(found);
                }
            }
        }
        let owned: HashSet<_> =
            moved_claims::owned(self.connection, self.remote.cell_id(), &moved).into_iter().collect();
        for (uuid, found) in found_moved {
            match owned.contains(&uuid) {
                true => {
                    destroy.push(uuid);
                    found_destroy.push(found);
                }
                false => all.push(found.with(Outcome::OtherService)),
            }
        }
        if claim.is_empty() && destroy.is_empty() {
            return Ok(all);
        }
        (self.require_range)()?;
        let source_ids: HashMap<_, _> = claim
            .iter()
            .map(|expected_claim| {
                ((expected_claim.bucket_type(), expected_claim.value.as_str()), &expected_claim.source_id)
            })
            .collect();
        let corrected = self.remote.correct(range, &claim, &destroy)?;
        for report in corrected.reports {
            let source_id = source_ids.get(&(report.bucket_type.as_str(), report.bucket_value.as_str())).copied();
            all.push(FoundDiscrepancy::of(&report, source_id));
        }
        // The rate of the cell has left no time for these. The next pass finds them.
        let postponed = found_claim.into_iter().skip(corrected.expected);
        let postponed = postponed.chain(found_destroy.into_iter().skip(corrected.extra));
        all.extend(postponed.map(|found| found.with(Outcome::Busy)));
        Ok(all)
    }

    /// Reads the rows of the suspects again, as committed now.
    fn rows(&self, suspects: &[Suspect], row_lock: ShareLock) -> SeenRows {
        let mut rows = SeenRows::default();
        let is_extra = |suspect: &&Suspect| suspect.expected_claim.is_none();
        let bucket = |suspect: &Suspect| (suspect.report.bucket_type.clone(), suspect.report.bucket_value.clone());
        rows.read_claiming_rows(self.connection, suspects.iter().filter(is_extra).map(bucket));
        let claiming_rows = rows.claiming_rows();
        rows.read_again(
            self.connection,
            suspects.iter().filter_map(|suspect| suspect.expected_claim.clone()).chain(claiming_rows),
            row_lock,
        );
        let sources: HashSet<_> = suspects.iter().filter_map(|suspect| suspect.report.source.clone()).collect();
        rows.read_sources(self.connection, sources);
        rows
    }

    fn judge(&self, suspect: Suspect, rows: &SeenRows) -> Decision {
        let Suspect { report, expected_claim } = suspect;
        let expected_claim = expected_claim.or_else(|| rows.claiming_row(&report.bucket_type, &report.bucket_value));
        if let Some(claim) = &expected_claim
            && let Some(service) = self.expected.service_of(claim.bucket_type())
        {
            let is_needed = rows.is_seen(claim) || rows.is_there(self.connection, claim);
            return if is_needed { Decision::Elsewhere(service) } else { Decision::Dismissed };
        }
        match (expected_claim, report.uuid) {
            // The claim belongs to another row that also needs it, and stays there.
            (Some(expected_claim), _)
                if report.discrepancy == Discrepancy::Different && rows.has_rival(&report, &expected_claim) =>
            {
                Decision::Skip(Outcome::Doubled)
            }
            (Some(expected_claim), _) if rows.is_seen(&expected_claim) => Decision::Claim(expected_claim),
            (Some(expected_claim), _) if rows.is_there(self.connection, &expected_claim) => {
                Decision::Skip(Outcome::Busy)
            }
            (Some(_), _) => Decision::Dismissed,
            (None, Some(_)) if !report.source.is_some_and(|(_, id)| self.expected.can_have(&id)) => Decision::Foreign,
            (None, Some(uuid)) => Decision::Destroy(uuid),
            (None, None) => Decision::Dismissed,
        }
    }
}
