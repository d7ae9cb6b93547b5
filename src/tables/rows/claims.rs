//! Rows of claims, independent of where they are stored.

use claims_model::cursor::ClaimCursor;
use claims_model::{Bucket, Reference};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use pg::clock::Moment;
use pg::index::{KeyPart, KeyValue};
use pg::spi::{Row, Value};
use pg::xact::Surroundings;

/// The status of a claim that no lease and no transfer holds.
pub const ACTIVE: i16 = 1;
/// The status of a claim that a transfer holds.
pub const TRANSFERRING: i16 = 4;

/// The columns of a claim, with an expression for its cell.
macro_rules! columns {
    ($cell:literal) => {
        concat!(
            " c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, ",
            $cell,
            " AS cell_id, c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value "
        )
    };
}

/// A page of the claims at cell $1, of source type $2: its own, and those that transfers have brought. Each half is read in the
/// order of the index, up to the last claim of a source. With the complete order instead, the planner might sort all claims after
/// the cursor while statistics do not know how many claims a transfer holds.
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

pub(in crate::tables) use {claim_page, columns};

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
    /// The original spelling of the name, if that is not canonical.
    pub display_value: Option<String>,
}

pub fn claim(row: Row) -> StoredClaim {
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

/// The end of a page: the maximum length of source ids, or the last source id among those of its length.
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

/// The status of a claim that a lease creates, or destroys or replaces.
#[derive(Debug, Clone, Copy)]
pub enum HeldFor {
    Creating = 2,
    Destroying = 3,
}

/// A claim on one of the requested buckets.
pub struct FoundClaim {
    pub holder_cell_id: i64,
    pub active: bool,
    pub subject: Reference<'static>,
    pub source: Reference<'static>,
    /// The time at which the lease or the transfer that holds it was made.
    pub lease_made_at: Option<Moment>,
    /// The cell at the other end of the transfer that holds it, if any.
    pub other_cell_id: Option<i64>,
}

impl FoundClaim {
    /// Returns whether a transfer from or to a cell holds it.
    pub fn is_in_transfer_of(&self, cell_id: i64) -> bool {
        self.other_cell_id.is_some_and(|other| [self.holder_cell_id, other].contains(&cell_id))
    }
}

/// Ended leases whose claims are settled.
pub struct EndedLeases {
    pub leases: Vec<Uuid>,
    pub at: Moment,
    /// Only used if the claims are on several nodes.
    pub around: Surroundings,
}

/// The unique index on the buckets, for messages.
pub const BUCKET_INDEX: &str = "claims.claims (bucket_value, bucket_type)";

/// Returns the key of a bucket in that index.
pub fn bucket_key_parts(value: &str, bucket_type: i32) -> [KeyPart<'_>; 2] {
    [
        KeyPart { column: c"bucket_value", value: KeyValue::Text(value) },
        KeyPart { column: c"bucket_type", value: KeyValue::Int4(bucket_type) },
    ]
}

impl StoredClaim {
    pub fn bucket(&self) -> Bucket<'static> {
        Bucket { bucket_type: self.bucket_type, value: self.bucket_value.clone().into() }
    }

    /// Returns the claim with the cell that it is at. If a transfer holds it, that is the cell in the transfer's row, in the same
    /// snapshot.
    pub fn located(self, cell_of: impl FnOnce(PgUuid) -> Option<i64>) -> Self {
        let transfer = self.lease_uuid.filter(|_| self.status == TRANSFERRING);
        StoredClaim { cell_id: transfer.and_then(cell_of).unwrap_or(self.cell_id), ..self }
    }
}

/// The claims of one source type after a cursor, up to a source id, of some bucket types or all.
pub struct ClaimPart<'p> {
    pub after: &'p ClaimCursor,
    pub last_source_id: Option<&'p str>,
    pub bucket_types: Option<&'p [i32]>,
}

impl ClaimPart<'_> {
    /// Returns the eight arguments of `claim_page!`, for claims stored under a cell.
    pub fn values(&self, stored_as: i64, source_id: &str, end: PageEnd, limit: i64) -> [Value; 8] {
        let ClaimPart { after, bucket_types, .. } = self;
        [
            stored_as.into(),
            after.source_type.into(),
            source_id.into(),
            after.bucket_type.into(),
            after.bucket_value.as_str().into(),
            end.into(),
            limit.into(),
            bucket_types.map(<[i32]>::to_vec).into(),
        ]
    }
}

/// Reads a page of claims in the order of the index: shorter source ids first, then those as long as the last one. The arguments
/// of `read` are the end, the source id to begin at, and the maximum number of claims.
pub fn read_page(
    part: &ClaimPart,
    limit: i64,
    mut read: impl FnMut(PageEnd, &str, i64) -> Vec<StoredClaim>,
) -> Vec<StoredClaim> {
    let after = part.after.source_id.as_str();
    let length = |id: &str| i32::try_from(id.chars().count()).unwrap_or(i32::MAX);
    let Some(last) = part.last_source_id else { return read(PageEnd::Length(i32::MAX), after, limit) };
    let mut found = read(PageEnd::Length(length(last) - 1), after, limit);
    let room = limit.saturating_sub_unsigned(found.len() as u64);
    if room > 0 && length(after) <= length(last) {
        // The cursor's bucket matters only if its source id has this length. After shorter ids the section begins with the first
        // one.
        let start = if length(after) == length(last) { after } else { "" };
        found.extend(read(PageEnd::SourceId(last), start, room));
    }
    found
}
