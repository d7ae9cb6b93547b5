//! The change feed: positions in it, and whether a reader can continue at its position.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cursor::Cursor;

/// The largest number of changes in one stored row.
pub const SET_SIZE: usize = 1000;
/// The distance between the ids of two stored rows.
const STRIDE: i64 = 1024;

/// A position in the feed: `list_changes` continues after this change. (0, 0) is before every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCursor {
    pub feed: Uuid,
    pub xid: u64,
    pub id: i64,
    /// The time of the change, in microseconds of PostgreSQL's epoch. It tells the change from another one with equal
    /// numbers, which exists if a cluster was set back.
    pub at: i64,
}

impl ChangeCursor {
    /// Returns the id of the stored row that has the change.
    pub fn set_id(&self) -> i64 {
        self.id - self.id.rem_euclid(STRIDE)
    }

    fn position(&self) -> (u64, i64) {
        (self.xid, self.id)
    }

    /// Returns whether a reader can continue here.
    pub fn status(&self, snapshot: &FeedSnapshot) -> CursorStatus {
        let horizon = &snapshot.horizon;
        if self.feed != horizon.feed {
            return CursorStatus::Foreign;
        }
        match self.position().cmp(&horizon.position()) {
            std::cmp::Ordering::Less => CursorStatus::Purged,
            std::cmp::Ordering::Equal if self.at == horizon.at => CursorStatus::Good,
            std::cmp::Ordering::Equal => CursorStatus::Foreign,
            // The change is not missing: the snapshot is older than the cursor, or the standby has not replayed it yet.
            std::cmp::Ordering::Greater if self.xid >= snapshot.decided => {
                let was_never_here = !snapshot.is_standby && self.xid >= snapshot.next;
                if was_never_here { CursorStatus::Foreign } else { CursorStatus::Ahead }
            }
            std::cmp::Ordering::Greater if snapshot.found_at == Some(self.at) => CursorStatus::Good,
            std::cmp::Ordering::Greater => CursorStatus::Foreign,
        }
    }
}

impl Cursor for ChangeCursor {
    const TAG: char = 'c';

    fn is_sound(&self) -> bool {
        self.xid <= i64::MAX as u64 && self.id >= 0
    }
}

/// The part of the feed around a cursor, as one snapshot shows it.
#[derive(Debug, Clone)]
pub struct FeedSnapshot {
    /// The last purged change.
    pub horizon: ChangeCursor,
    /// Every transaction below this id has ended, and its changes are visible.
    pub decided: u64,
    /// The id that the next transaction gets, at this moment.
    pub next: u64,
    pub is_standby: bool,
    /// The time of the change at the cursor, if the change exists.
    pub found_at: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorStatus {
    /// No change is missing between the cursor and the next one.
    Good,
    /// The snapshot does not reach the cursor yet, so there are no changes to return.
    Ahead,
    /// Changes after the cursor were purged.
    Purged,
    /// The cursor names a change that this feed does not have.
    Foreign,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(xid: u64, id: i64, at: i64) -> ChangeCursor {
        ChangeCursor { feed: Uuid::from_u128(1), xid, id, at }
    }

    /// Returns a feed that is purged up to (10, 1030). Transactions below 100 have ended, and 120 is the next one.
    fn snapshot(found_at: Option<i64>) -> FeedSnapshot {
        FeedSnapshot { horizon: cursor(10, 1030, 5), decided: 100, next: 120, is_standby: false, found_at }
    }

    #[test]
    fn a_cursor_is_written_and_read_back() {
        let written = cursor(7, 2050, -3);
        assert_eq!(ChangeCursor::decode(&written.encode()), Ok(written));
        assert!(ChangeCursor::decode(&cursor(7, -1, 0).encode()).is_err());
        assert!(ChangeCursor::decode(&cursor(u64::MAX, 1, 0).encode()).is_err());
    }

    #[test]
    fn a_change_is_in_the_row_whose_ids_cover_it() {
        assert_eq!(cursor(1, 1024, 0).set_id(), 1024);
        assert_eq!(cursor(1, 2023, 0).set_id(), 1024);
        assert_eq!(cursor(1, 2048, 0).set_id(), 2048);
        assert_eq!(cursor(0, 0, 0).set_id(), 0);
    }

    #[test]
    fn a_reader_continues_after_an_existing_change() {
        assert_eq!(cursor(50, 4096, 9).status(&snapshot(Some(9))), CursorStatus::Good);
    }

    #[test]
    fn a_change_that_is_not_there_is_of_another_history() {
        assert_eq!(cursor(50, 4096, 9).status(&snapshot(None)), CursorStatus::Foreign);
        assert_eq!(cursor(50, 4096, 9).status(&snapshot(Some(8))), CursorStatus::Foreign);
        assert_eq!(cursor(10, 1030, 6).status(&snapshot(None)), CursorStatus::Foreign);
        let other = ChangeCursor { feed: Uuid::from_u128(2), ..cursor(50, 4096, 9) };
        assert_eq!(other.status(&snapshot(Some(9))), CursorStatus::Foreign);
    }

    #[test]
    fn changes_purged_after_the_cursor_are_missed() {
        assert_eq!(cursor(10, 1029, 5).status(&snapshot(None)), CursorStatus::Purged);
        assert_eq!(cursor(0, 0, 0).status(&snapshot(None)), CursorStatus::Purged);
        assert_eq!(cursor(10, 1030, 5).status(&snapshot(None)), CursorStatus::Good);
    }

    #[test]
    fn a_cursor_ahead_of_the_snapshot_waits_unless_its_transaction_never_was() {
        assert_eq!(cursor(100, 4096, 9).status(&snapshot(None)), CursorStatus::Ahead);
        assert_eq!(cursor(119, 4096, 9).status(&snapshot(None)), CursorStatus::Ahead);
        assert_eq!(cursor(120, 4096, 9).status(&snapshot(None)), CursorStatus::Foreign);
        assert_eq!(
            cursor(120, 4096, 9).status(&FeedSnapshot { is_standby: true, ..snapshot(None) }),
            CursorStatus::Ahead
        );
    }

    #[test]
    fn a_feed_that_was_never_purged_begins_before_everything() {
        let fresh = FeedSnapshot { horizon: cursor(0, 0, 0), ..snapshot(None) };
        assert_eq!(cursor(0, 0, 0).status(&fresh), CursorStatus::Good);
    }
}
