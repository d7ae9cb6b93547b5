//! Rows of claims: what there is to say of them wherever they are stored.

use pgrx::Uuid as PgUuid;

use crate::pg::clock::Moment;
use crate::pg::spi::{Row, Value};

/// The status of a claim that nobody holds.
pub const ACTIVE: i16 = 1;
/// The status of a claim that a transfer holds.
pub const TRANSFERRING: i16 = 4;

/// The columns of a claim, with its cell.
macro_rules! columns {
    ($cell:literal) => {
        concat!(
            " c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, ",
            $cell,
            " AS cell_id, c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value "
        )
    };
}

/// A page of the claims that are at cell $1, of source type $2: its own, and those that transfers have brought. Each half is read in
/// the order of the index, up to the last claim of a source: with the whole order in its place the planner might sort all that is
/// behind the cursor, where statistics do not know yet how many claims a transfer holds.
macro_rules! claim_page {
    (of range) => {
        claim_page!(of "(length(c.source_id), c.source_id) >= (length($3), $3)
         AND length(c.source_id) <= $6
         AND ((length(c.source_id), c.source_id) > (length($3), $3) OR (c.bucket_type, c.bucket_value) > ($4, $5))")
    };
    (of last_range) => {
        claim_page!(of "length(c.source_id) = length($6) AND c.source_id >= $3 AND c.source_id <= $6
         AND (c.source_id > $3 OR (c.bucket_type, c.bucket_value) > ($4, $5))")
    };
    (of $range:literal) => {
        concat!("c.source_type = $2 AND ($8 IS NULL OR c.bucket_type = ANY ($8)) AND ", $range)
    };
    (by_source) => {
        " ORDER BY length(c.source_id), c.source_id FETCH FIRST ($7) ROWS WITH TIES"
    };
    (order) => {
        " ORDER BY length(c.source_id), c.source_id, c.bucket_type, c.bucket_value LIMIT $7"
    };
    ($range:ident) => {
        concat!(
            "SELECT * FROM (
                (SELECT ", columns!("$1"), " FROM claims.claims c WHERE c.creator_id = $1 AND ", claim_page!(of $range),
                 " AND ", at_home!(), claim_page!(by_source), ")
                UNION ALL
                (SELECT b.* FROM ", arrived!(), " CROSS JOIN LATERAL (
                    SELECT ", columns!("$1"), " FROM claims.claims c WHERE ", brought!(), " AND ", claim_page!(of $range),
                    claim_page!(by_source), ") b)) c", claim_page!(order)
        )
    };
}

pub(super) use {claim_page, columns};

/// A claim as it is stored.
#[derive(Clone)]
pub struct StoredClaim {
    pub uuid: PgUuid,
    pub bucket_type: i32,
    pub bucket_value: String,
    pub subject_type: i32,
    pub subject_id: String,
    pub source_type: i32,
    pub source_id: String,
    pub cell_id: i64,
    pub status: i16,
    pub lease_uuid: Option<PgUuid>,
    pub created_at: Moment,
    pub updated_at: Moment,
    /// The name as it was given, where that is not its canonical form.
    pub display_value: Option<String>,
}

pub(super) fn claim(row: Row) -> StoredClaim {
    StoredClaim {
        uuid: row.must(1),
        bucket_type: row.must(2),
        bucket_value: row.must(3),
        subject_type: row.must(4),
        subject_id: row.must(5),
        source_type: row.must(6),
        source_id: row.must(7),
        cell_id: row.must(8),
        status: row.must(9),
        lease_uuid: row.get(10),
        created_at: row.must(11),
        updated_at: row.must(12),
        display_value: row.get(13),
    }
}

/// Where a page ends: at source ids that are no longer than this, or at one, among those as long as that.
#[derive(Clone, Copy)]
pub enum PageEnd<'e> {
    Length(i32),
    SourceId(&'e str),
}

impl From<PageEnd<'_>> for Value {
    fn from(end: PageEnd) -> Self {
        match end {
            PageEnd::Length(length) => length.into(),
            PageEnd::SourceId(id) => id.into(),
        }
    }
}
