//! The service's statements on id spaces and on the ranges that cells were given. They work in one database only.

use claims_model::ids::Space;

use pg::clock::Moment;
use pg::spi::{Connection, Row, View};
use pg::statement::{shared_statement, statement};
use pg::xact;

macro_rules! space {
    ($($condition:literal),+) => {
        concat!(
            "SELECT s.number, s.first_id, s.last_id, s.block_size, s.next_id, s.max_range, s.ranges_per_day,
                    s.xmin::text::bigint, s.name FROM claims.id_spaces s WHERE ", $($condition),+)
    };
}

statement! {
    ADD(TEXTOID, INT8OID, INT8OID, INT8OID, INT8OID, INT4OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.id_spaces AS s (number, name, first_id, last_id, block_size, next_id, max_range, ranges_per_day, reason, role)
         SELECT coalesce(max(o.number), 0) + 1, $1, $2, $3, $4, $2, $5, $6, $7, $8::name FROM claims.id_spaces o
         ON CONFLICT (name) DO NOTHING";
    LOCK_SPACES() = "LOCK TABLE claims.id_spaces IN SHARE ROW EXCLUSIVE MODE";
    GROW(INT4OID, INT8OID, INT8OID, INT4OID) =
        "UPDATE claims.id_spaces s SET last_id = $2, max_range = $3, ranges_per_day = $4 WHERE s.number = $1";
    SPACE(TEXTOID) = space!("s.name = $1");
    LOCK_SPACE(TEXTOID) = space!("s.name = $1 FOR NO KEY UPDATE");
    LOCK_NUMBER(INT4OID) = space!("s.number = $1 FOR NO KEY UPDATE");
    MOVE_ON(INT4OID, INT8OID) = "UPDATE claims.id_spaces s SET next_id = $2 WHERE s.number = $1";
    /// Returns the last id of the range of space $1 that cell $2 got last.
    NEWEST(INT4OID, INT8OID) =
        "SELECT upper(r.id_range) - 1 FROM claims.leased_id_ranges r
          WHERE r.space_number = $1 AND r.cell_id = $2 AND r.closed_at IS NULL
          ORDER BY r.leased_at DESC, r.first_id DESC LIMIT 1";
    /// Returns a row if cell $2 may use a range of space $1 that ends with $3.
    ENDS_WITH(INT4OID, INT8OID, INT8OID) =
        "SELECT 1 FROM claims.leased_id_ranges r
          WHERE int4range(r.space_number, r.space_number, '[]') && int4range($1, $1, '[]') AND r.id_range @> $3
            AND r.cell_id = $2 AND r.closed_at IS NULL AND upper(r.id_range) - 1 = $3";
    /// Returns the first id above $2 in space $1 that was given.
    NEXT_GIVEN(INT4OID, INT8OID) =
        "SELECT r.first_id FROM claims.leased_id_ranges r WHERE r.space_number = $1 AND r.first_id > $2 ORDER BY r.first_id LIMIT 1";
    /// Returns when cell $2 got the range of space $1 behind which it has got $3 - 1 others. Those that an administrator has restored
    /// do not count.
    LEASED_BEFORE(INT4OID, INT8OID, INT4OID) =
        "SELECT r.leased_at FROM claims.leased_id_ranges r
          WHERE r.space_number = $1 AND r.cell_id = $2 AND NOT r.restored
          ORDER BY r.leased_at DESC OFFSET $3 - 1 LIMIT 1";
    /// Returns the range of space $1 that call $3 of cell $2 got.
    DRAWN(INT4OID, INT8OID, INT8OID) =
        "SELECT lower(r.id_range), upper(r.id_range) - 1 FROM claims.leased_id_ranges r
          WHERE r.space_number = $1 AND r.cell_id = $2 AND r.call_number = $3 ORDER BY r.leased_at DESC LIMIT 1";
    GIVE(INT4OID, INT8OID, INT8OID, INT8OID, BOOLOID, INT8OID) =
        "INSERT INTO claims.leased_id_ranges (space_number, cell_id, id_range, restored, call_number)
         VALUES ($1, $2, int8range($3, $4, '[]'), $5, $6)";
    /// Returns the holder of a range of space $1 that overlaps ids $2 to $3.
    HOLDER(INT4OID, INT8OID, INT8OID) =
        "SELECT r.cell_id FROM claims.leased_id_ranges r
          WHERE int4range(r.space_number, r.space_number, '[]') && int4range($1, $1, '[]') AND r.id_range && int8range($2, $3, '[]')
          LIMIT 1";
    /// Returns what cell $2 may do with ids $3 to $4 of the space named $1.
    STATE(TEXTOID, INT8OID, INT8OID, INT8OID) =
        "SELECT CASE WHEN count(*) FILTER (WHERE r.cell_id <> $2) > 0 THEN 'foreign'
                     WHEN count(*) FILTER (WHERE r.closed_at IS NOT NULL) > 0 THEN 'closed'
                     WHEN range_agg(r.id_range) @> int8range($3, $4, '[]') THEN 'leased'
                     ELSE 'unknown' END
           FROM claims.leased_id_ranges r JOIN claims.id_spaces s ON s.number = r.space_number
          WHERE s.name = $1 AND r.id_range && int8range($3, $4, '[]')";
}

shared_statement! {
    CLOSE(INT8OID) =
        "UPDATE claims.leased_id_ranges r SET closed_at = clock_timestamp() WHERE r.cell_id = $1 AND r.closed_at IS NULL";
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
    connection.run(&LOCK_SPACES, View::Statement, []);
    let Space { first_id, last_id, block_size, .. } = *new.space;
    let SpaceLimits { max_range, ranges_per_day } = new.limits;
    let values = [
        new.name.into(),
        first_id.into(),
        last_id.into(),
        block_size.into(),
        max_range.into(),
        ranges_per_day.into(),
        new.reason.into(),
        new.role.into(),
    ];
    connection.run(&ADD, View::LatestToWrite, values).count() == 1
}

/// Lets a space grow up to an id, and sets its limits.
pub fn grow(connection: &Connection, number: i32, last_id: i64, limits: SpaceLimits) {
    let SpaceLimits { max_range, ranges_per_day } = limits;
    let values = [number.into(), last_id.into(), max_range.into(), ranges_per_day.into()];
    connection.run(&GROW, View::Statement, values);
}

/// Returns a space as it is committed now.
pub fn find(connection: &Connection, name: &str) -> Option<ExistingSpace> {
    connection.run(&SPACE, View::Latest, [name.into()]).first(|row| existing(&row))
}

/// Returns a space. Locks its row until the transaction ends, and waits for other transactions that have locked it.
pub fn lock(connection: &Connection, name: &str) -> Option<ExistingSpace> {
    connection.run(&LOCK_SPACE, View::Statement, [name.into()]).first(|row| existing(&row))
}

/// Like [`lock`], by the number of the space. Also returns its name.
pub fn lock_number(connection: &Connection, number: i32) -> Option<(String, ExistingSpace)> {
    connection.run(&LOCK_NUMBER, View::Statement, [number.into()]).first(|row| (row.must(9), existing(&row)))
}

fn existing(row: &Row) -> ExistingSpace {
    let xmin: i64 = row.must(8);
    ExistingSpace {
        number: row.must(1),
        space: Space { first_id: row.must(2), last_id: row.must(3), block_size: row.must(4), next_id: row.must(5) },
        limits: SpaceLimits { max_range: row.must(6), ranges_per_day: row.must(7) },
        is_own: u32::try_from(xmin).is_ok_and(xact::is_own),
    }
}

pub fn exists(connection: &Connection, name: &str) -> bool {
    connection.run(&SPACE, View::Latest, [name.into()]).count() > 0
}

/// Returns the last id of the range that a cell got last.
pub fn newest(connection: &Connection, space: i32, cell_id: i64) -> Option<i64> {
    connection.run(&NEWEST, View::Latest, [space.into(), cell_id.into()]).first(|row| row.must(1))
}

/// Returns whether a cell may use a range that ends with an id.
pub fn ends_with(connection: &Connection, space: i32, cell_id: i64, last_id: i64) -> bool {
    connection.run(&ENDS_WITH, View::Latest, [space.into(), cell_id.into(), last_id.into()]).count() > 0
}

/// Returns the first id above `after` that was given.
pub fn next_given(connection: &Connection, space: i32, after: i64) -> Option<i64> {
    connection.run(&NEXT_GIVEN, View::Latest, [space.into(), after.into()]).first(|row| row.must(1))
}

/// Returns when a cell got the range of a space behind which it has got `count` - 1 others. `None` if it has got fewer.
pub fn leased_before(connection: &Connection, space: i32, cell_id: i64, count: i32) -> Option<Moment> {
    let values = [space.into(), cell_id.into(), count.into()];
    connection.run(&LEASED_BEFORE, View::Latest, values).first(|row| row.must(1))
}

/// Returns the range that a call has got.
pub fn drawn(connection: &Connection, space: i32, cell_id: i64, call: i64) -> Option<(i64, i64)> {
    let values = [space.into(), cell_id.into(), call.into()];
    connection.run(&DRAWN, View::Latest, values).first(|row| (row.must(1), row.must(2)))
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
    connection.run(&MOVE_ON, View::Statement, [space.into(), next_id.into()]);
    let (is_restored, call) = match given_by {
        GivenBy::Call(call) => (false, Some(call)),
        GivenBy::Restore => (true, None),
    };
    let values = [space.into(), cell_id.into(), first.into(), last.into(), is_restored.into(), call.into()];
    connection.run(&GIVE, View::Statement, values);
}

/// Returns a cell that was given some of the ids.
pub fn holder(connection: &Connection, space: i32, (first, last): (i64, i64)) -> Option<i64> {
    connection.run(&HOLDER, View::Latest, [space.into(), first.into(), last.into()]).first(|row| row.must(1))
}

/// Returns what a cell may do with ids: `leased`, `closed`, `foreign` or `unknown`.
pub fn state(connection: &Connection, name: &str, cell_id: i64, (first, last): (i64, i64)) -> Option<String> {
    let values = [name.into(), cell_id.into(), first.into(), last.into()];
    connection.run(&STATE, View::Latest, values).first(|row| row.must(1))
}

/// Forbids all databases of a cell to use the ranges that it was given.
pub fn close(connection: &Connection, cell_id: i64) {
    connection.run(&CLOSE, View::Statement, [cell_id.into()]);
}
