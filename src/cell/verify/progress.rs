//! The progress of a verification, for its caller and for other sessions.

use claims_model::source_range::SourceRange;
use claims_model::verify::{Discrepancy, Outcome};

use super::compare::ComparedRange;
use super::expected::{Expected, Summary};
use super::walk::Findings;
use pg::activity::Activity;

/// The counts of a verification. A discrepancy counts once by its kind, and again if it was corrected, belongs to another cell, or was
/// skipped.
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
    /// Rows whose value another row has as well.
    pub doubles: i64,
}

impl Tally {
    /// Returns the counts by name, for claims.passes.
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

    /// Adds the results of a comparison.
    pub fn add(&mut self, compared: &ComparedRange) {
        self.checked += compared.checked;
        self.skipped += compared.off;
        for found in &compared.found {
            self.count(found.discrepancy, found.outcome);
        }
    }

    fn count(&mut self, discrepancy: Discrepancy, outcome: Option<Outcome>) {
        match discrepancy {
            Discrepancy::Missing => self.missing += 1,
            Discrepancy::Different => self.different += 1,
            Discrepancy::Extra => self.extra += 1,
        }
        use Outcome::*;
        match outcome {
            None => {}
            Some(Corrected) => self.corrected += 1,
            Some(HeldByOther) => self.held_by_other += 1,
            Some(
                Leased | Recent | Busy | Confusable | Reserved | Quarantined | Impossible | Doubled | Foreign
                | OtherService,
            ) => self.skipped += 1,
        }
        self.unclaimable += i64::from(outcome == Some(Impossible));
        self.doubles += i64::from(outcome == Some(Doubled));
    }

    /// Adds a range whose digests agree. Its rows that cannot have a claim count as missing and skipped.
    pub fn add_in_order(&mut self, expected: &Summary) {
        let rows = expected.unclaimable;
        self.checked += expected.claims.records + rows;
        self.missing += rows;
        self.skipped += rows;
        self.unclaimable += rows;
    }

    fn discrepancies(&self) -> i64 {
        self.missing + self.different + self.extra
    }
}

/// Counts the findings of a walk, and shows the counts.
pub struct Counting<'a> {
    pub tally: Tally,
    pub progress: Progress<'a>,
}

impl<'a> Counting<'a> {
    /// Continues a tally, and begins showing it.
    pub fn begin(cell_id: i64, source_type: &'a str, expected: &Expected, tally: Tally) -> Self {
        Counting { tally, progress: Progress::begin(cell_id, source_type, expected.estimated_rows()) }
    }
}

impl Findings for Counting<'_> {
    fn are_in_order(&mut self, expected: &Summary) -> bool {
        self.tally.add_in_order(expected);
        true
    }

    fn compared(&mut self, _: &SourceRange, compared: ComparedRange) {
        self.tally.add(&compared);
    }

    fn reached(&mut self, position: Option<&str>) {
        self.progress.show(&self.tally, position);
    }

    fn are_enough(&self) -> bool {
        false
    }
}

/// Shows the counts in pg_stat_activity. claims.verification_progress parses the text.
pub struct Progress<'a> {
    activity: Activity,
    cell_id: i64,
    source_type: &'a str,
    rows: i64,
}

impl<'a> Progress<'a> {
    /// Begins showing the progress. `rows` is the estimated number of rows.
    pub fn begin(cell_id: i64, source_type: &'a str, rows: i64) -> Self {
        Progress { activity: Activity::begin(), cell_id, source_type, rows }
    }

    /// Shows the counts. Everything up to source id `position` is verified.
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
