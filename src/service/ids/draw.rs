//! Draws a range of ids for good, in a transaction of a background process, while the caller waits.
//!
//! In the caller's transaction a range could come back: a rollback would return ids that somebody has used, and end the count of
//! ranges against a limit. The row of the space would be locked until that transaction ends, against all cells.

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::errors::IdSpaceError;
use super::spaces::{self, ExistingSpace, GivenBy, RangeToGive};
use crate::kernel::error::ClaimsError;
use crate::kernel::schema;
use crate::service::durability;
use claims_model::ids::Placed;
use pg::background::{self, Errand};
use pg::clock::Moment;
use pg::owner::as_role;
use pg::settings::{LockWaits, with_search_path};
use pg::spi::{self, Connection};
use pg::subtransaction::subtransaction;
use pg::xact;

/// The most ids of one range.
pub const MAX_SIZE: i64 = 1_000_000_000;

/// The name of the background process in pg_stat_activity.
const ERRAND: &str = "claims id range";
/// The first word of its messages.
pub const MESSAGE: &str = "ids ";

/// How long the background process waits for the row of the space. Only administrators lock it for longer than a moment.
const LOCK_TIMEOUT_MS: i64 = 5000;

const DAY_US: i64 = 86_400_000_000;

/// A range that a cell asks for.
#[derive(Debug, Clone, Copy)]
pub struct RangeRequest {
    pub cell_id: i64,
    pub size: i64,
    /// The last id of the range that the new one should follow.
    pub continue_after: Option<i64>,
    pub at_most: i64,
    /// Whether the limits of the space bind it. They do not bind administrators.
    pub is_limited: bool,
}

/// Draws a range. It is the cell's as soon as this returns, whatever the caller's transaction does.
pub fn draw(
    connection: &Connection,
    name: &str,
    found: &ExistingSpace,
    request: &RangeRequest,
) -> Result<(i64, i64), ClaimsError> {
    // On a standby no background process starts.
    xact::must_be_writable(c"claims.lease_id_range()");
    if found.is_own {
        return Err(IdSpaceError::SpaceUncommitted { name: name.to_owned() }.into());
    }
    // A request that is refused starts no process.
    place(connection, name, found, request)?;
    let call = random();
    if !(Errand { name: ERRAND, message: &message(found.number, request, call) }).run() {
        return Err(IdSpaceError::NoProcess.into());
    }
    // A transaction that has written nothing would not wait for standbys.
    durability::promise();
    if let Some(range) = spaces::drawn(connection, found.number, request.cell_id, call) {
        return Ok(range);
    }
    // Another call was faster, or the space is locked.
    let now = spaces::find(connection, name).ok_or_else(|| IdSpaceError::UnknownSpace { name: name.to_owned() })?;
    place(connection, name, &now, request)?;
    Err(IdSpaceError::SpaceBusy { name: name.to_owned() }.into())
}

/// Checks the limits of a space, and places a range in it.
fn place(
    connection: &Connection,
    name: &str,
    ExistingSpace { number, space, limits, .. }: &ExistingSpace,
    request: &RangeRequest,
) -> Result<Placed, ClaimsError> {
    let &RangeRequest { cell_id, size, continue_after, at_most, is_limited } = request;
    if is_limited && size > limits.max_range {
        let (name, limit) = (name.to_owned(), limits.max_range);
        return Err(IdSpaceError::RangeTooLarge { cell_id, name, size, limit }.into());
    }
    if is_limited && let Some(at) = spaces::leased_before(connection, *number, cell_id, limits.ranges_per_day) {
        let again = Moment(at.0.saturating_add(DAY_US));
        if again > Moment::now() {
            let (name, limit) = (name.to_owned(), limits.ranges_per_day);
            return Err(IdSpaceError::TooManyRanges { cell_id, name, limit, again }.into());
        }
    }
    let follows = match continue_after {
        None => spaces::newest(connection, *number, cell_id),
        Some(last) => Some(last).filter(|last| spaces::ends_with(connection, *number, cell_id, *last)),
    };
    let following =
        follows.and_then(|last| space.following(last, spaces::next_given(connection, *number, last), size, at_most));
    let placed = following.or_else(|| space.new_block(size, at_most));
    Ok(placed
        .ok_or_else(|| IdSpaceError::SpaceExhausted { name: name.to_owned(), last_id: at_most.min(space.last_id) })?)
}

/// Writes a request for the background process, in hexadecimal numbers: there is room for 100 bytes.
fn message(number: i32, request: &RangeRequest, call: i64) -> String {
    let RangeRequest { cell_id, size, continue_after, at_most, is_limited } = request;
    let after = continue_after.map_or_else(|| "-".to_owned(), |after| format!("{after:x}"));
    let is_limited = u8::from(*is_limited);
    format!("{MESSAGE}{number:x} {cell_id:x} {size:x} {after} {at_most:x} {is_limited} {call:x}")
}

/// Reads a message of [`message`] without its first word.
fn read(message: &str) -> Option<(i32, RangeRequest, i64)> {
    // Negative numbers are written in two's complement.
    let number = |word: &str| u64::from_str_radix(word, 16).ok().map(u64::cast_signed);
    let words: Vec<_> = message.split(' ').map(number).collect();
    let [Some(space), Some(cell_id), Some(size), continue_after, Some(at_most), Some(is_limited), Some(call)] =
        words[..]
    else {
        return None;
    };
    let is_limited = is_limited == 1;
    Some((i32::try_from(space).ok()?, RangeRequest { cell_id, size, continue_after, at_most, is_limited }, call))
}

/// Runs in the background process: draws the range that a message asks for. Does nothing where a limit is exceeded by now, or where
/// the space is locked.
pub fn run(message: &str) {
    let Some((number, request, call)) = read(message) else { return };
    background::transaction(|| {
        let Some(owner) = spi::connect(schema::owner) else { return };
        as_role(owner, || {
            with_search_path(c"pg_catalog, pg_temp", || {
                let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
                let give = || {
                    spi::connect(|connection| give(connection, number, &request, call));
                    Ok::<_, ()>(())
                };
                // The caller finds out that there is no range.
                let _ = subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], give);
            });
        });
    });
}

fn give(connection: &Connection, number: i32, request: &RangeRequest, call: i64) {
    let Some((name, space)) = spaces::lock_number(connection, number) else { return };
    if let Ok(Placed { first, last, next_id, .. }) = place(connection, &name, &space, request) {
        durability::promise();
        let range = RangeToGive { cell_id: request.cell_id, first, last, next_id };
        spaces::give(connection, number, &range, GivenBy::Call(call));
    }
}

/// Returns 62 random bits.
fn random() -> i64 {
    // The lower half of such a uuid has two bits for its variant and 62 random bits.
    (Uuid::now_v7().as_u128() & ((1 << 62) - 1)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_request_and_fits() {
        let extremes = [
            RangeRequest {
                cell_id: i64::MIN,
                size: MAX_SIZE,
                continue_after: Some(i64::MIN),
                at_most: -1,
                is_limited: true,
            },
            RangeRequest { cell_id: i64::MAX, size: 1, continue_after: None, at_most: i64::MAX, is_limited: false },
        ];
        for request in extremes {
            let message = message(i32::MAX, &request, i64::MAX);
            assert!(message.len() <= 100, "{}", message.len());
            let (number, read, call) = read(&message[MESSAGE.len()..]).expect("readable");
            assert_eq!((number, call, format!("{read:?}")), (i32::MAX, i64::MAX, format!("{request:?}")));
        }
    }
}
