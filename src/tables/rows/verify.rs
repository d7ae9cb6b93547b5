//! Claims as verification reads them, independent of where they are stored.

use claims_model::source_range::{Section, SourceRange};
use claims_model::verify::ClaimState;
use claims_model::{Bucket, Claim, NOBODY, Reference};
use uuid::Uuid;

use pg::spi::{Row, Value};
use pg::uuid::from_pg_uuid;

/// An existing claim.
#[derive(Clone)]
pub struct Actual {
    pub uuid: Uuid,
    pub claim: Claim<'static>,
    pub cell_id: i64,
    pub status: i16,
    pub leased: bool,
    pub recent: bool,
    /// The cell at the other end of the transfer that holds it, if any.
    pub other_cell_id: Option<i64>,
}

impl Actual {
    pub fn state_for(&self, cell_id: i64) -> ClaimState {
        let (own, reserved) = (self.cell_id == cell_id, self.cell_id == NOBODY);
        let in_transfer = self.other_cell_id == Some(cell_id);
        ClaimState { own, reserved, leased: self.leased, recent: self.recent, in_transfer }
    }
}

pub fn actual(row: Row) -> Actual {
    let status: i16 = row.must(9);
    let text = |column| row.must::<String>(column).into();
    Actual {
        uuid: from_pg_uuid(row.must(1)),
        claim: Claim {
            bucket: Bucket { bucket_type: row.must(2), value: text(3) },
            subject: Reference { type_id: row.must(4), id: text(5) },
            source: Reference { type_id: row.must(6), id: text(7) },
            display: None,
        },
        cell_id: row.must(8),
        status,
        leased: status != 1 || row.must(10),
        recent: row.must(11),
        other_cell_id: row.get(12),
    }
}

/// A range of the source ids of one source type of one cell.
pub struct Part<'r> {
    pub cell_id: i64,
    pub source_type: i32,
    pub range: &'r SourceRange,
}

impl Part<'_> {
    /// Returns cell, source type and bounds of a section.
    pub fn values(&self, section: &Section) -> Vec<Value> {
        self.values_of(self.cell_id, section)
    }

    /// Like [Self::values], for claims stored under another cell.
    pub fn values_of(&self, cell_id: i64, section: &Section) -> Vec<Value> {
        let mut values: Vec<Value> = vec![cell_id.into(), self.source_type.into()];
        match section {
            Section::Lengths(lengths) => values.extend([(*lengths.start()).into(), (*lengths.end()).into()]),
            Section::OfLength { length, above, up_to } => {
                values.extend([(*length).into(), (*above).into()]);
                values.extend(up_to.map(Value::from));
            }
        }
        values
    }
}

/// A claim with the columns of a digest. Types are ids.
pub struct DigestRow {
    pub bucket_type: i32,
    pub bucket_value: String,
    pub subject_type: i32,
    pub subject_id: String,
    pub source_id: String,
}

/// Reads a row with the columns of a digest.
pub fn digest_row(row: &Row) -> DigestRow {
    DigestRow {
        bucket_type: row.must(1),
        bucket_value: row.must(2),
        subject_type: row.must(3),
        subject_id: row.must(4),
        source_id: row.must(5),
    }
}
