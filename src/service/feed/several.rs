//! The feed where the tables are spread over several nodes. One of them keeps it, and its transactions decide how far readers come. A
//! transaction that it has committed may not have ended on another node yet, which commits its part by itself: there a reader would still
//! find what was. So nobody is told of it before.

use std::time::{Duration, Instant};

use claims_model::feed::{ChangeCursor, Standing};

use super::page::{BEGINNING, ChangePage, Listed};
use crate::error::{ClaimsError, FeedError};
use crate::pg::spi::Connection;
use crate::pg::wait;
use crate::store::service::distributed::changes as store;
use crate::store::service::two_phase::{self, Prepared};

/// The most changes that are read at once, but for those of one row more.
const PORTION: usize = 1000;

/// Fills a page.
pub fn read(
    mut page: ChangePage,
    connection: &Connection,
    after: Option<ChangeCursor>,
) -> Result<Vec<Listed>, ClaimsError> {
    let has_begun = after.is_some();
    let Some((after, era)) = start(connection, after)? else { return Ok(Vec::new()) };
    let mut from = (after.xid, after.set_id());
    loop {
        let wanted = (page.limit - page.rows.len()).min(PORTION);
        let portion = store::portion(connection, era, from, page.bucket_type, wanted);
        let Some((last, _)) = portion.last() else { break };
        from = (last.xid, last.id + 1);
        // After the rows: whose transaction was committed there by then has all its parts prepared.
        let is_of_several = portion.iter().any(|(_, transaction)| transaction.is_some());
        let prepared = is_of_several.then(|| two_phase::prepared(connection));
        let mut is_full = false;
        for (set, transaction) in portion {
            let has_ended = transaction.zip(prepared.as_ref()).is_none_or(|(name, all)| !all.may_have(&name));
            if !has_ended || page.add(&after, set).is_break() {
                is_full = true;
                break;
            }
        }
        if is_full {
            break;
        }
    }
    // What was purged, or moved to another node, between the statements was missed.
    if has_begun {
        start(connection, Some(after))?;
    }
    Ok(page.rows)
}

/// The place from which a reader goes on, and the era. `None`: there is nothing to be told yet.
fn start(connection: &Connection, after: Option<ChangeCursor>) -> Result<Option<(ChangeCursor, i32)>, ClaimsError> {
    let ground = store::ground(connection, after.as_ref().unwrap_or(&BEGINNING));
    let (ground, era) = ground.ok_or(FeedError::NoHorizon)?;
    let Some(cursor) = after else { return Ok(Some((ground.horizon, era))) };
    match cursor.standing(&ground) {
        Standing::Good => Ok(Some((cursor, era))),
        Standing::Ahead => Ok(None),
        Standing::Purged => Err(FeedError::Purged.into()),
        Standing::Foreign => Err(FeedError::Foreign.into()),
    }
}

/// How long to wait for commits that are on their way, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// The place of the last change that readers can get. What comes before it has ended on all nodes.
pub fn newest(connection: &Connection) -> Result<ChangeCursor, ClaimsError> {
    let (newest, era) = store::newest(connection).ok_or(FeedError::NoHorizon)?;
    let deadline = Instant::now() + PATIENCE;
    let before = two_phase::prepared(connection);
    let mut left = not_ended(&before, &before)?;
    while !left.is_empty() && Instant::now() < deadline {
        wait::sleep(PAUSE);
        left = not_ended(&two_phase::prepared(connection), &before)?;
    }
    // Transactions that have left a part behind, long ago: do they matter here?
    let hindrance = if left.is_empty() { None } else { store::has_told(connection, era, left) };
    match hindrance {
        Some(transaction) => Err(FeedError::BetweenPhases { transaction }.into()),
        None => Ok(newest),
    }
}

/// Which of the transactions `before` have not ended yet.
fn not_ended(now: &Prepared, before: &Prepared) -> Result<Vec<String>, ClaimsError> {
    match &now.silent {
        Some((node, message)) => Err(FeedError::SilentNode { node: node.clone(), message: message.clone() }.into()),
        None => Ok(now.left_of(before)),
    }
}
