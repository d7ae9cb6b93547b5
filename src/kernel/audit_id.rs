//! Ids of rows of the audit log.

use std::sync::atomic::{AtomicU32, Ordering};

use pg::background::own_process;

/// The number of ids that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Returns an id that no other row of the same microsecond has: the pid of this process, and a count. Random ids would take longer to
/// make, and UUIDs more space.
pub fn next_id() -> i64 {
    i64::from(own_process()) << 32 | i64::from(MADE.fetch_add(1, Ordering::Relaxed))
}
