//! The change feed: its rows, and how the tables write and read them.

use std::ops::ControlFlow;

use claims_model::Bucket;
use claims_model::attribution::Attribution;
use claims_model::feed::{ChangeCursor, CursorStatus, FeedSnapshot};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::errors::FeedError;
use crate::kernel::error::ClaimsError;
use crate::kernel::tables::{Door, Local};
use pg::clock::Moment;
use pg::query::record;
use pg::roles;
use pg::spi::Connection;
use pg::xid8::Xid8;

/// A change of a claim's owner. (In one database, one statement records all changes of a transfer.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Create(i64),
    Destroy(i64),
    /// The source changes, and the cell stays.
    Replace(i64),
    /// The claim moves from one cell to another.
    Transfer(i64, i64),
    /// An administrator gives the name to a cell. It was no cell's before.
    HandOver(i64),
}

impl Change {
    pub fn op(self) -> &'static str {
        match self {
            Change::Create(_) => "create",
            Change::Destroy(_) => "destroy",
            Change::Replace(_) => "replace",
            Change::Transfer(..) | Change::HandOver(_) => "transfer",
        }
    }

    pub fn old_cell(self) -> Option<i64> {
        match self {
            Change::Create(_) | Change::HandOver(_) => None,
            Change::Destroy(cell) | Change::Replace(cell) | Change::Transfer(cell, _) => Some(cell),
        }
    }

    pub fn new_cell(self) -> Option<i64> {
        match self {
            Change::Destroy(_) => None,
            Change::Create(cell) | Change::Replace(cell) | Change::Transfer(_, cell) | Change::HandOver(cell) => {
                Some(cell)
            }
        }
    }
}

/// Names whose owner changes in the same way.
pub struct ChangeSet<'b> {
    pub change: Change,
    /// The lease or the transfer that changes them.
    pub cause: Option<Uuid>,
    pub buckets: Vec<&'b Bucket<'b>>,
    /// The word of the client that wanted the change about who acts.
    pub attribution: Attribution,
}

/// Returns the actor that the feed records for changes of the current call.
pub fn actor() -> String {
    roles::name(roles::caller())
}

record! {
    /// A row of the feed.
    pub struct StoredSet {
        pub xid: Xid8,
        /// The number of its first change.
        pub id: i64,
        pub at: Moment,
        pub op: String,
        pub old_cell_id: Option<i64>,
        pub new_cell_id: Option<i64>,
        pub lease_uuid: Option<PgUuid>,
        pub actor: String,
        pub bucket_types: Vec<i32>,
        pub bucket_values: Vec<String>,
        pub context: Option<String>,
        pub cell_role: Option<String>,
    }
}

impl StoredSet {
    /// Returns the number of its changes after a cursor, of one type or all.
    pub fn count_behind(&self, after: &ChangeCursor, bucket_type: Option<i32>) -> usize {
        let is_counted = |(nth, of_type): &(i64, &i32)| {
            (self.xid.0, self.id + nth) > (after.xid, after.id) && bucket_type.is_none_or(|wanted| wanted == **of_type)
        };
        (0..).zip(&self.bucket_types).filter(is_counted).count()
    }
}

record! {
    /// A change of one bucket.
    pub struct BucketChange {
        pub at: Moment,
        pub op: String,
        pub old_cell_id: Option<i64>,
        pub new_cell_id: Option<i64>,
        pub lease_uuid: Option<PgUuid>,
        pub actor: String,
        pub context: Option<String>,
        pub cell_role: Option<String>,
    }
}

/// A cursor before every change of every feed.
pub const BEGINNING: ChangeCursor = ChangeCursor { feed: Uuid::nil(), xid: 0, id: 0, at: 0 };

/// Returns the cursor from which a reader continues, or `None` if there is no change to return yet.
pub fn cursor_to_continue(
    after: Option<ChangeCursor>,
    snapshot: FeedSnapshot,
) -> Result<Option<ChangeCursor>, FeedError> {
    let Some(cursor) = after else { return Ok(Some(snapshot.horizon)) };
    match cursor.status(&snapshot) {
        CursorStatus::Good => Ok(Some(cursor)),
        CursorStatus::Ahead => Ok(None),
        CursorStatus::Purged => Err(FeedError::Purged),
        CursorStatus::Foreign => Err(FeedError::Foreign),
    }
}

/// The change feed for writers.
pub trait FeedTables: Sync {
    /// Records changes, in their order. Call it within `bounded`.
    fn tell(&self, connection: &Connection, sets: &[ChangeSet], at: Moment);

    /// Returns the changes of one bucket, oldest first.
    fn changes_of(&self, connection: &Connection, bucket_type: i32, bucket_value: &str) -> Vec<BucketChange>;

    /// Deletes up to `limit` rows from the beginning of the feed that were made by `before`. Returns the numbers of rows and of
    /// changes. Call it within `bounded`.
    fn purge_changes(&self, connection: &Connection, before: Moment, limit: i64) -> (i64, i64);
}

/// Where the feed is, for writers.
pub static FEED_TABLES: Door<dyn FeedTables> = Door::local(&Local);

/// The changes that a reader of the feed wants.
#[derive(Debug, Clone, Copy)]
pub struct WantedChanges {
    pub bucket_type: Option<i32>,
    pub limit: usize,
}

/// The change feed for readers.
pub trait FeedPages: Sync {
    /// Passes the rows of the feed after a cursor, or from its beginning, to `each`, with the cursor that they follow: rows with
    /// changes of one type, or all. The caller wants about `limit` changes.
    fn each_change(
        &self,
        connection: &Connection,
        after: Option<ChangeCursor>,
        wanted: WantedChanges,
        each: &mut dyn FnMut(&ChangeCursor, StoredSet) -> ControlFlow<()>,
    ) -> Result<(), ClaimsError>;

    /// Returns the cursor of the last change that readers can get.
    fn newest_change(&self, connection: &Connection) -> Result<ChangeCursor, ClaimsError>;
}

/// Where the feed is, for readers.
pub static FEED_PAGES: Door<dyn FeedPages> = Door::local(&Local);
