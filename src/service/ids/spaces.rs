//! The service's statements on id spaces and on the ranges that cells were given. They work in one database only.

use claims_model::ids::Space;

use pg::clock::Moment;
use pg::query::{Record, query, record};
use pg::spi::{Connection, Row};
use pg::xact;

record! {
    struct SpaceRow {
        number: i32,
        first_id: i64,
        last_id: i64,
        block_size: i64,
        next_id: i64,
        max_range: i64,
        ranges_per_day: i32,
        xmin: i64,
        name: String,
    }

    struct Range { first: i64, last: i64 }
}

macro_rules! space {
    ($condition:literal) => {
        concat!(
            "SELECT s.number, s.first_id, s.last_id, s.block_size, s.next_id, s.max_range, s.ranges_per_day,
                    s.xmin::text::bigint AS xmin, s.name FROM claims.id_spaces s WHERE ",
            $condition
        )
    };
}

query! {
    fn insert(name: &str, first_id: i64, last_id: i64, block_size: i64, max_range: i64, ranges_per_day: i32, reason: &str, role: &str) -> bool
        = [LatestToWrite]
        "INSERT INTO claims.id_spaces AS s (number, name, first_id, last_id, block_size, next_id, max_range, ranges_per_day, reason, role)
         SELECT coalesce(max(o.number), 0) + 1, :name, :first_id, :last_id, :block_size, :first_id, :max_range, :ranges_per_day, :reason,
                :role::name
           FROM claims.id_spaces o
         ON CONFLICT (name) DO NOTHING";
    fn lock_spaces() = [Statement] "LOCK TABLE claims.id_spaces IN SHARE ROW EXCLUSIVE MODE";
    fn set_limits(number: i32, last_id: i64, max_range: i64, ranges_per_day: i32) = [Statement]
        "UPDATE claims.id_spaces s SET last_id = :last_id, max_range = :max_range, ranges_per_day = :ranges_per_day WHERE s.number = :number";
    /// Returns a space as it is committed now.
    pub fn find(name: &str) -> Option<ExistingSpace> = [Latest] space!("s.name = :name");
    /// Returns a space. Locks its row until the transaction ends, and waits for other transactions that have locked it.
    pub fn lock(name: &str) -> Option<ExistingSpace> = [Statement] space!("s.name = :name FOR NO KEY UPDATE");
    fn lock_by_number(number: i32) -> Option<SpaceRow> = [Statement] space!("s.number = :number FOR NO KEY UPDATE");
    fn move_on(number: i32, next_id: i64) = [Statement] "UPDATE claims.id_spaces s SET next_id = :next_id WHERE s.number = :number";
    /// Returns the last id of the range of a space that a cell got last.
    pub fn newest(space: i32, cell_id: i64) -> Option<i64> = [Latest]
        "SELECT upper(r.id_range) - 1 FROM claims.leased_id_ranges r
          WHERE r.space_number = :space AND r.cell_id = :cell_id AND r.closed_at IS NULL
          ORDER BY r.leased_at DESC, r.first_id DESC LIMIT 1";
    /// Returns whether a cell may use a range of a space that ends with an id.
    pub fn ends_with(space: i32, cell_id: i64, last_id: i64) -> bool = [Latest]
        "SELECT FROM claims.leased_id_ranges r
          WHERE int4range(r.space_number, r.space_number, '[]') && int4range(:space, :space, '[]') AND r.id_range @> :last_id
            AND r.cell_id = :cell_id AND r.closed_at IS NULL AND upper(r.id_range) - 1 = :last_id";
    /// Returns the first id above `after` in a space that was given.
    pub fn next_given(space: i32, after: i64) -> Option<i64> = [Latest]
        "SELECT r.first_id FROM claims.leased_id_ranges r WHERE r.space_number = :space AND r.first_id > :after ORDER BY r.first_id LIMIT 1";
    /// Returns when a cell got the range of a space behind which it has got `count` - 1 others. `None` if it has got fewer. Those that an
    /// administrator has restored do not count.
    pub fn leased_before(space: i32, cell_id: i64, count: i32) -> Option<Moment> = [Latest]
        "SELECT r.leased_at FROM claims.leased_id_ranges r
          WHERE r.space_number = :space AND r.cell_id = :cell_id AND NOT r.restored
          ORDER BY r.leased_at DESC OFFSET :count - 1 LIMIT 1";
    /// Returns the range of a space that a call of a cell got.
    fn drawn_range(space: i32, cell_id: i64, call: i64) -> Option<Range> = [Latest]
        "SELECT lower(r.id_range) AS first, upper(r.id_range) - 1 AS last FROM claims.leased_id_ranges r
          WHERE r.space_number = :space AND r.cell_id = :cell_id AND r.call_number = :call ORDER BY r.leased_at DESC LIMIT 1";
    fn give_range(space: i32, cell_id: i64, first: i64, last: i64, is_restored: bool, call: Option<i64>) = [Statement]
        "INSERT INTO claims.leased_id_ranges (space_number, cell_id, id_range, restored, call_number)
         VALUES (:space, :cell_id, int8range(:first, :last, '[]'), :is_restored, :call)";
    /// Returns the holder of a range of a space that overlaps these ids.
    fn holder_of(space: i32, first: i64, last: i64) -> Option<i64> = [Latest]
        "SELECT r.cell_id FROM claims.leased_id_ranges r
          WHERE int4range(r.space_number, r.space_number, '[]') && int4range(:space, :space, '[]') AND r.id_range && int8range(:first, :last, '[]')
          LIMIT 1";
    fn state_of(name: &str, cell_id: i64, first: i64, last: i64) -> Option<String> = [Latest]
        "SELECT CASE WHEN count(*) FILTER (WHERE r.cell_id <> :cell_id) > 0 THEN 'foreign'
                     WHEN count(*) FILTER (WHERE r.closed_at IS NOT NULL) > 0 THEN 'closed'
                     WHEN range_agg(r.id_range) @> int8range(:first, :last, '[]') THEN 'leased'
                     ELSE 'unknown' END
           FROM claims.leased_id_ranges r JOIN claims.id_spaces s ON s.number = r.space_number
          WHERE s.name = :name AND r.id_range && int8range(:first, :last, '[]')";
    /// Forbids all databases of a cell to use the ranges that it was given.
    pub fn close(cell_id: i64) = [Statement Anywhere]
        "UPDATE claims.leased_id_ranges r SET closed_at = clock_timestamp() WHERE r.cell_id = :cell_id AND r.closed_at IS NULL";
}

/// The most that one cell may lease of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceLimits {
    /// The most ids of one range.
    pub max_range: i64,
    /// The most ranges within 24 hours.
    pub ranges_per_day: i32,
}

/// A space in the table.
pub struct ExistingSpace {
    pub number: i32,
    pub space: Space,
    pub limits: SpaceLimits,
    /// Whether this transaction has written its row, so that no other one sees it.
    pub is_own: bool,
}

/// The reason for a row of `claims.leased_id_ranges`.
pub enum GivenBy {
    /// A call of lease_id_range(), by its random number.
    Call(i64),
    Restore,
}

/// A space that an administrator adds.
pub struct NewSpace<'n> {
    pub name: &'n str,
    pub space: &'n Space,
    pub limits: SpaceLimits,
    pub reason: &'n str,
    pub role: &'n str,
}

/// Adds a space. Returns whether there was none of this name. Waits for other transactions that add one.
pub fn add(connection: &Connection, new: &NewSpace) -> bool {
    lock_spaces(connection);
    let Space { first_id, last_id, block_size, .. } = *new.space;
    let SpaceLimits { max_range, ranges_per_day } = new.limits;
    insert(connection, new.name, first_id, last_id, block_size, max_range, ranges_per_day, new.reason, new.role)
}

/// Lets a space grow up to an id, and sets its limits.
pub fn grow(connection: &Connection, number: i32, last_id: i64, limits: SpaceLimits) {
    set_limits(connection, number, last_id, limits.max_range, limits.ranges_per_day);
}

/// Like [`lock`], by the number of the space. Also returns its name.
pub fn lock_number(connection: &Connection, number: i32) -> Option<(String, ExistingSpace)> {
    lock_by_number(connection, number).map(|row| (row.name.clone(), ExistingSpace::from(row)))
}

impl Record for ExistingSpace {
    fn read(row: &Row) -> Self {
        SpaceRow::read(row).into()
    }
}

impl From<SpaceRow> for ExistingSpace {
    fn from(row: SpaceRow) -> Self {
        let SpaceRow { number, first_id, last_id, block_size, next_id, max_range, ranges_per_day, xmin, .. } = row;
        ExistingSpace {
            number,
            space: Space { first_id, last_id, block_size, next_id },
            limits: SpaceLimits { max_range, ranges_per_day },
            is_own: u32::try_from(xmin).is_ok_and(xact::is_own),
        }
    }
}

/// Returns the range that a call has got.
pub fn drawn(connection: &Connection, space: i32, cell_id: i64, call: i64) -> Option<(i64, i64)> {
    drawn_range(connection, space, cell_id, call).map(|range| (range.first, range.last))
}

/// A range to give to a cell, and the id from which the space continues after it.
pub struct RangeToGive {
    pub cell_id: i64,
    pub first: i64,
    pub last: i64,
    pub next_id: i64,
}

/// Gives a range of a space to a cell. Raises 23P01 if any id of it was given before.
pub fn give(connection: &Connection, space: i32, range: &RangeToGive, given_by: GivenBy) {
    let RangeToGive { cell_id, first, last, next_id } = *range;
    move_on(connection, space, next_id);
    let (is_restored, call) = match given_by {
        GivenBy::Call(call) => (false, Some(call)),
        GivenBy::Restore => (true, None),
    };
    give_range(connection, space, cell_id, first, last, is_restored, call);
}

/// Returns a cell that was given some of the ids.
pub fn holder(connection: &Connection, space: i32, (first, last): (i64, i64)) -> Option<i64> {
    holder_of(connection, space, first, last)
}

/// Returns what a cell may do with ids: `leased`, `closed`, `foreign` or `unknown`.
pub fn state(connection: &Connection, name: &str, cell_id: i64, (first, last): (i64, i64)) -> Option<String> {
    state_of(connection, name, cell_id, first, last)
}
