//! The change feed: places in it, and whether a reader can go on from the one that it brings.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cursor::Cursor;

/// The most changes of one stored row.
pub const SET_SIZE: usize = 1000;
/// How far the ids of two stored rows are apart.
const STRIDE: i64 = 1024;

/// `list_changes` continues after this change. (0, 0) is before every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCursor {
    /// Which feed it is a place of.
    pub feed: Uuid,
    pub xid: u64,
    pub id: i64,
    /// When the change was made, in microseconds of Postgres' own epoch: tells it from another one that got the same numbers after
    /// a cluster was set back.
    pub at: i64,
}

impl ChangeCursor {
    /// The id of the stored row that has the change.
    pub fn set_id(&self) -> i64 {
        self.id - self.id.rem_euclid(STRIDE)
    }

    fn place(&self) -> (u64, i64) {
        (self.xid, self.id)
    }

    /// Whether a reader can go on from here.
    pub fn standing(&self, ground: &Ground) -> Standing {
        let horizon = &ground.horizon;
        if self.feed != horizon.feed {
            return Standing::Foreign;
        }
        match self.place().cmp(&horizon.place()) {
            std::cmp::Ordering::Less => Standing::Purged,
            std::cmp::Ordering::Equal if self.at == horizon.at => Standing::Good,
            std::cmp::Ordering::Equal => Standing::Foreign,
            // Neither is a gap: the snapshot is older than the cursor, or the standby has not come so far.
            std::cmp::Ordering::Greater if self.xid >= ground.decided => {
                let was_never_here = !ground.is_standby && self.xid >= ground.next;
                if was_never_here { Standing::Foreign } else { Standing::Ahead }
            }
            std::cmp::Ordering::Greater if ground.found_at == Some(self.at) => Standing::Good,
            std::cmp::Ordering::Greater => Standing::Foreign,
        }
    }
}

impl Cursor for ChangeCursor {
    const TAG: char = 'c';

    fn is_sound(&self) -> bool {
        self.xid <= i64::MAX as u64 && self.id >= 0
    }
}

/// What a snapshot shows of the feed around a cursor.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The last change that was purged.
    pub horizon: ChangeCursor,
    /// Every transaction below has ended, and what it committed is visible.
    pub decided: u64,
    /// The id that the next transaction gets, by now.
    pub next: u64,
    pub is_standby: bool,
    /// When the change at the cursor was made, if it is there.
    pub found_at: Option<i64>,
}

/// What a cursor is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing between it and what comes next is missing.
    Good,
    /// There is nothing to be told yet.
    Ahead,
    /// Changes after it were purged.
    Purged,
    /// It names a change that this feed does not have.
    Foreign,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(xid: u64, id: i64, at: i64) -> ChangeCursor {
        ChangeCursor { feed: Uuid::from_u128(1), xid, id, at }
    }

    /// Purged up to (10, 1030); transactions below 100 are decided, and 120 is the next one.
    fn ground(found_at: Option<i64>) -> Ground {
        Ground { horizon: cursor(10, 1030, 5), decided: 100, next: 120, is_standby: false, found_at }
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
    fn a_change_that_is_there_is_a_place_to_go_on_from() {
        assert_eq!(cursor(50, 4096, 9).standing(&ground(Some(9))), Standing::Good);
    }

    #[test]
    fn a_change_that_is_not_there_is_of_another_history() {
        assert_eq!(cursor(50, 4096, 9).standing(&ground(None)), Standing::Foreign);
        assert_eq!(cursor(50, 4096, 9).standing(&ground(Some(8))), Standing::Foreign);
        assert_eq!(cursor(10, 1030, 6).standing(&ground(None)), Standing::Foreign);
        let other = ChangeCursor { feed: Uuid::from_u128(2), ..cursor(50, 4096, 9) };
        assert_eq!(other.standing(&ground(Some(9))), Standing::Foreign);
    }

    #[test]
    fn what_was_purged_after_the_cursor_is_missed() {
        assert_eq!(cursor(10, 1029, 5).standing(&ground(None)), Standing::Purged);
        assert_eq!(cursor(0, 0, 0).standing(&ground(None)), Standing::Purged);
        assert_eq!(cursor(10, 1030, 5).standing(&ground(None)), Standing::Good);
    }

    #[test]
    fn a_cursor_ahead_of_the_snapshot_waits_unless_its_transaction_never_was() {
        assert_eq!(cursor(100, 4096, 9).standing(&ground(None)), Standing::Ahead);
        assert_eq!(cursor(119, 4096, 9).standing(&ground(None)), Standing::Ahead);
        assert_eq!(cursor(120, 4096, 9).standing(&ground(None)), Standing::Foreign);
        assert_eq!(cursor(120, 4096, 9).standing(&Ground { is_standby: true, ..ground(None) }), Standing::Ahead);
    }

    #[test]
    fn a_feed_that_was_never_purged_begins_before_everything() {
        let fresh = Ground { horizon: cursor(0, 0, 0), ..ground(None) };
        assert_eq!(cursor(0, 0, 0).standing(&fresh), Standing::Good);
    }
}
