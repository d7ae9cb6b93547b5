//! Reading the feed of distributed tables. One node has the feed, and its transactions decide how far readers get. A transaction
//! that has committed there may not have committed on another node yet, because each node commits its part by itself. A reader
//! would still find the old claims there, so its changes are not returned before it has ended everywhere.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use claims_model::feed::ChangeCursor;

use super::cluster::Citus;
use super::feed as store;
use super::two_phase::{self, PreparedOnNodes};
use crate::kernel::error::ClaimsError;
use crate::service::feed::errors::FeedError;
use crate::service::feed::{BEGINNING, FeedPages, StoredSet, WantedChanges, cursor_to_continue};
use pg::spi::Connection;
use pg::wait;

/// Maximum number of changes that one statement reads, apart from the rest of its last row.
const PORTION: usize = 1000;

/// Minimum number of changes that one statement reads for a page of one type only, because rows have changes of other types, too.
const SMALLEST_PORTION: usize = 100;

impl FeedPages for Citus {
    fn each_change(
        &self,
        connection: &Connection,
        after: Option<ChangeCursor>,
        wanted: WantedChanges,
        each: &mut dyn FnMut(&ChangeCursor, StoredSet) -> ControlFlow<()>,
    ) -> Result<(), ClaimsError> {
        let has_begun = after.is_some();
        let Some(Start { after, era, passed }) = start(connection, after)? else { return Ok(()) };
        let mut from = (after.xid, after.set_id());
        let (mut passed, mut remaining) = (passed, wanted.limit);
        loop {
            let least = wanted.bucket_type.map_or(1, |_| wanted.limit.min(SMALLEST_PORTION));
            let asked = remaining.max(least).min(PORTION) + std::mem::take(&mut passed);
            let portion = store::portion(connection, era, from, wanted.bucket_type, asked);
            let Some((last, _)) = portion.last() else { break };
            from = (last.xid.0, last.id + 1);
            // Asked after the rows were read: if a transaction had committed there by then, all its parts were prepared.
            let is_of_several = portion.iter().any(|(_, transaction)| transaction.is_some());
            let prepared = is_of_several.then(|| two_phase::prepared(connection));
            let is_ended = portion.into_iter().any(|(set, transaction)| {
                let has_ended = transaction.zip(prepared.as_ref()).is_none_or(|(name, all)| !all.may_have(&name));
                remaining = remaining.saturating_sub(set.count_behind(&after, wanted.bucket_type));
                !has_ended || each(&after, set).is_break()
            });
            if is_ended {
                break;
            }
        }
        // Rows that were purged or moved to another node between the statements were missed: check the cursor again.
        if has_begun {
            start(connection, Some(after))?;
        }
        Ok(())
    }

    fn newest_change(&self, connection: &Connection) -> Result<ChangeCursor, ClaimsError> {
        let (newest, era) = store::newest(connection).ok_or(FeedError::NoHorizon)?;
        let deadline = Instant::now() + COMMIT_TIMEOUT;
        let before = two_phase::prepared(connection);
        let mut left = not_ended(&before, &before)?;
        while !left.is_empty() && Instant::now() < deadline {
            wait::sleep(COMMIT_POLL_INTERVAL);
            left = not_ended(&two_phase::prepared(connection), &before)?;
        }
        // Some transactions have left a prepared part long ago. They matter only if they have written to the feed.
        let hindrance = if left.is_empty() { None } else { store::writer_among(connection, era, &left) };
        match hindrance {
            Some(transaction) => Err(FeedError::BetweenPhases { transaction }.into()),
            None => Ok(newest),
        }
    }
}

/// The position from which a reader continues.
struct Start {
    after: ChangeCursor,
    era: i32,
    /// Number of changes in the row of the cursor's change that the reader already has.
    passed: usize,
}

/// Returns the position from which a reader continues, or `None` if there are no changes to return yet.
fn start(connection: &Connection, after: Option<ChangeCursor>) -> Result<Option<Start>, ClaimsError> {
    let snapshot = store::state(connection, after.as_ref().unwrap_or(&BEGINNING));
    let (snapshot, era) = snapshot.ok_or(FeedError::NoHorizon)?;
    // If the cursor's change was purged, its row does not exist.
    let passed = after.as_ref().zip(snapshot.found_at).map_or(0, |(cursor, _)| cursor.id - cursor.set_id() + 1);
    let passed = usize::try_from(passed).unwrap_or(0);
    Ok(cursor_to_continue(after, snapshot)?.map(|after| Start { after, era, passed }))
}

/// Limit for waiting for commits in progress, which take milliseconds.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);
const COMMIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the transactions of `before` that have not ended yet.
fn not_ended(now: &PreparedOnNodes, before: &PreparedOnNodes) -> Result<Vec<String>, ClaimsError> {
    match &now.silent {
        Some((node, message)) => Err(FeedError::SilentNode { node: node.clone(), message: message.clone() }.into()),
        None => Ok(now.left_of(before)),
    }
}
