//! Rows of claims, independent of where they are stored.

use claims_model::conflict::ExistingClaim;
use claims_model::cursor::ClaimCursor;
use claims_model::quarantine::{Asking, KeptBack};
use claims_model::{Bucket, Reference};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use pg::clock::Moment;
use pg::index::{KeyPart, KeyValue};
use pg::query::{arguments, record};
use pg::xact::Surroundings;

/// The status of a claim that no lease and no transfer holds.
pub const ACTIVE: i16 = 1;
/// The status of a claim that a transfer holds.
pub const TRANSFERRING: i16 = 4;
/// The status of a name that is kept back, and that no lease holds.
pub const KEPT_BACK: i16 = 5;
/// The status of a name that is kept back, and that a lease reclaims.
pub const RECLAIMING: i16 = 6;

record! {
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
}

/// The end of a page: the maximum length of source ids, or the last source id among those of its length.
#[derive(Clone, Copy)]
pub enum PageEnd<'e> {
    Length(i32),
    SourceId(&'e str),
}

/// The status of a claim that a lease creates, or destroys or replaces. Names that a lease reclaims have a status of their own.
#[derive(Debug, Clone, Copy)]
pub enum HeldFor {
    Creating = 2,
    Destroying = 3,
}

/// Claims of one type that ended leases hold with a status, and until when their names are kept back.
pub struct ToKeep<'k> {
    pub held: HeldFor,
    pub buckets: &'k [&'k Bucket<'k>],
    pub available_at: Moment,
}

impl StoredClaim {
    /// Returns whether it is no claim, but a name that is kept back.
    pub fn is_kept_back(&self) -> bool {
        self.status == KEPT_BACK || self.status == RECLAIMING
    }
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
    /// The name is kept back, and no claim.
    pub kept: Option<KeptBack>,
}

/// Returns a name that is kept back, from the columns of its row. `None` for a claim, or for a row that somebody wrote by hand.
pub fn kept_back(
    given_up_by: Option<i64>,
    available_at: Option<Moment>,
    reclaiming_cell: Option<i64>,
) -> Option<KeptBack> {
    let (given_up_by, available_at) = given_up_by.zip(available_at)?;
    Some(KeptBack { given_up_by, available_at_us: available_at.0, reclaiming_cell })
}

impl FoundClaim {
    /// Returns the claim, or the name that is kept back, as a create finds it.
    pub fn for_create(&self, by: &Asking) -> ExistingClaim {
        ExistingClaim {
            kept: self.kept.map(|kept| kept.for_create(&self.subject, by)),
            ..self.for_destroy(by.cell_id, true)
        }
    }

    /// Returns the claim, or the name that is kept back, as a destroy by a cell finds it. `is_meant` says whether it has the subject and the
    /// source that the destroy names.
    pub fn for_destroy(&self, cell_id: i64, is_meant: bool) -> ExistingClaim {
        ExistingClaim {
            holder_cell_id: self.holder_cell_id,
            active: self.active,
            is_meant,
            in_transfer: self.is_in_transfer_of(cell_id),
            kept: self.kept.map(|kept| kept.for_destroy(cell_id)),
        }
    }

    /// Returns whether the name was kept back, and everybody can have it now.
    pub fn is_over(&self, now: Moment) -> bool {
        self.kept.is_some_and(|kept| kept.is_over(now.0) && kept.reclaiming_cell.is_none())
    }

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
        let cell = self.transfer().and_then(cell_of);
        StoredClaim { cell_id: cell.unwrap_or(self.cell_id), ..self }
    }

    /// Returns the transfer that holds the claim.
    pub fn transfer(&self) -> Option<PgUuid> {
        self.lease_uuid.filter(|_| self.status == TRANSFERRING)
    }
}

/// The position of a claim among those of its subject, newest first.
#[derive(Debug, Clone)]
pub struct SubjectPlace {
    pub created_at: Moment,
    pub bucket_type: i32,
    pub bucket_value: String,
}

/// The claims of one source type after a cursor, up to a source id, of some bucket types or all.
pub struct ClaimPart<'p> {
    pub after: &'p ClaimCursor,
    pub last_source_id: Option<&'p str>,
    pub bucket_types: Option<&'p [i32]>,
}

arguments! {
    /// The beginning and the size of a page of claims: those from a source id on, and at that source id those after a bucket.
    #[derive(Clone, Copy)]
    pub struct PageStart<'p> {
        pub source_type: i32,
        pub source_id: &'p str,
        pub bucket_type: i32,
        pub bucket_value: &'p str,
        pub most: i64,
        pub bucket_types: Option<&'p [i32]>,
    }
}

/// Reads a page of claims in the order of the index: shorter source ids first, then those as long as the last one. The arguments
/// of `read` are the end and the beginning.
pub fn read_page(
    part: &ClaimPart,
    limit: i64,
    mut read: impl FnMut(PageEnd, PageStart) -> Vec<StoredClaim>,
) -> Vec<StoredClaim> {
    let ClaimCursor { source_type, source_id: after, bucket_type, bucket_value } = part.after;
    let (source_type, bucket_type, bucket_types) = (*source_type, *bucket_type, part.bucket_types);
    let mut read = |end, source_id, most| {
        read(end, PageStart { source_type, source_id, bucket_type, bucket_value, most, bucket_types })
    };
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
