//! The progress of a verification, for its caller and for other sessions.

use claims_model::verify::{Discrepancy, Outcome};

use super::expected::Summary;
use crate::pg::activity::Activity;

/// The counts. Every discrepancy counts once by its kind, and once more if it was corrected, is another cell's, or
/// was skipped.
#[derive(Default)]
pub struct Tally {
    pub checked: i64,
    pub missing: i64,
    pub different: i64,
    pub extra: i64,
    pub corrected: i64,
    pub held_by_other: i64,
    pub skipped: i64,
    /// Rows that cannot have a claim.
    pub unclaimable: i64,
    /// Rows whose value another row has, too.
    pub doubles: i64,
}

impl Tally {
    /// By name, for claims.passes.
    pub fn counts(&self, finished: bool) -> [(&'static str, i64); 8] {
        [
            ("checked", self.checked),
            ("missing", self.missing),
            ("different", self.different),
            ("extra", self.extra),
            ("corrected", self.corrected),
            ("held_by_other", self.held_by_other),
            ("skipped", self.skipped),
            ("finished", finished.into()),
        ]
    }

    pub fn count(&mut self, discrepancy: Discrepancy, outcome: Option<Outcome>) {
        match discrepancy {
            Discrepancy::Missing => self.missing += 1,
            Discrepancy::Different => self.different += 1,
            Discrepancy::Extra => self.extra += 1,
        }
        match outcome {
            None => {}
            Some(Outcome::Corrected) => self.corrected += 1,
            Some(Outcome::HeldByOther) => self.held_by_other += 1,
            Some(Outcome::Leased | Outcome::Recent | Outcome::Busy) => self.skipped += 1,
        }
    }

    /// A range of which the service has what is called for.
    pub fn count_in_order(&mut self, expected: &Summary) {
        self.checked += expected.claims.records;
        self.count_unclaimable(expected.unclaimable);
    }

    /// A claim that no row here can call for: it is skipped.
    pub fn count_foreign(&mut self) {
        self.extra += 1;
        self.skipped += 1;
    }

    /// Rows that have no claim, and cannot have one.
    pub fn count_unclaimable(&mut self, rows: i64) {
        self.checked += rows;
        self.missing += rows;
        self.skipped += rows;
        self.unclaimable += rows;
    }

    /// Rows whose bucket another row calls for.
    pub fn count_doubles(&mut self, rows: i64) {
        self.missing += rows;
        self.skipped += rows;
        self.doubles += rows;
    }

    fn discrepancies(&self) -> i64 {
        self.missing + self.different + self.extra
    }
}

/// Shows the counts to other sessions; claims.verification_progress parses the text.
pub struct Progress<'a> {
    activity: Activity,
    cell_id: i64,
    source_type: &'a str,
    rows: i64,
}

impl<'a> Progress<'a> {
    /// `rows`: their estimated number.
    pub fn begin(cell_id: i64, source_type: &'a str, rows: i64) -> Self {
        Progress { activity: Activity::begin(), cell_id, source_type, rows }
    }

    /// `position`: the source id up to which everything is verified.
    pub fn show(&self, tally: &Tally, position: Option<&str>) {
        let Progress { activity, cell_id, source_type, rows } = self;
        activity.tell(&format!(
            "claims.verify: cell {cell_id}, {source_type}, checked {} of about {rows}, {} discrepancies, up to source id {}",
            tally.checked,
            tally.discrepancies(),
            position.unwrap_or_default()
        ));
    }
}
