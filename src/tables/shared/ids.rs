//! The service's statements on id spaces and on the ranges that cells were given. They work in one database only.

use claims_model::ids::Space;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::{shared_statement, statement};

statement! {
    ADD(TEXTOID, INT8OID, INT8OID, INT8OID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.id_spaces AS s (number, name, first_id, last_id, block_size, next_id, reason, role)
         SELECT coalesce(max(o.number), 0) + 1, $1, $2, $3, $4, $2, $5, $6::name FROM claims.id_spaces o
         ON CONFLICT (name) DO NOTHING";
    LOCK_SPACES() = "LOCK TABLE claims.id_spaces IN SHARE ROW EXCLUSIVE MODE";
    SPACE(TEXTOID) =
        "SELECT s.number, s.first_id, s.last_id, s.block_size, s.next_id FROM claims.id_spaces s WHERE s.name = $1";
    LOCK_SPACE(TEXTOID) =
        "SELECT s.number, s.first_id, s.last_id, s.block_size, s.next_id FROM claims.id_spaces s WHERE s.name = $1 FOR NO KEY UPDATE";
    /// Writes the row of space $1 even where next_id stays: under REPEATABLE READ the next call must notice this one.
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
    /// Counts the blocks of space $1 that begin with a range that cell $2 got within the last hour.
    BLOCKS(INT4OID, INT8OID) =
        "SELECT count(*) FROM claims.leased_id_ranges r JOIN claims.id_spaces s ON s.number = r.space_number
          WHERE r.space_number = $1 AND r.cell_id = $2 AND r.leased_at > clock_timestamp() - interval '1 hour'
            AND (r.first_id - s.first_id) % s.block_size = 0";
    GIVE(INT4OID, INT8OID, INT8OID, INT8OID) =
        "INSERT INTO claims.leased_id_ranges (space_number, cell_id, id_range) VALUES ($1, $2, int8range($3, $4, '[]'))";
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

/// Adds a space. Returns whether there was none of this name. Waits for other transactions that add one.
pub fn add(connection: &Connection, name: &str, space: &Space, reason: &str, role: &str) -> bool {
    connection.run(&LOCK_SPACES, View::Statement, []);
    let Space { first_id, last_id, block_size, .. } = *space;
    let values = [name.into(), first_id.into(), last_id.into(), block_size.into(), reason.into(), role.into()];
    connection.run(&ADD, View::LatestToWrite, values).count() == 1
}

/// Returns the number of a space, and the space. Locks its row until the transaction ends, and waits for other transactions that
/// have locked it.
pub fn lock(connection: &Connection, name: &str) -> Option<(i32, Space)> {
    connection.run(&LOCK_SPACE, View::Statement, [name.into()]).first(|row| {
        let space =
            Space { first_id: row.must(2), last_id: row.must(3), block_size: row.must(4), next_id: row.must(5) };
        (row.must(1), space)
    })
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

/// Returns the number of blocks that a cell has begun within the last hour.
pub fn blocks_of_last_hour(connection: &Connection, space: i32, cell_id: i64) -> i64 {
    connection.run(&BLOCKS, View::Latest, [space.into(), cell_id.into()]).first(|row| row.must(1)).unwrap_or_default()
}

/// Gives a range to a cell. Raises 23P01 if any id of it was given before.
pub fn give(connection: &Connection, space: i32, cell_id: i64, (first, last): (i64, i64), next_id: i64) {
    connection.run(&MOVE_ON, View::Statement, [space.into(), next_id.into()]);
    connection.run(&GIVE, View::Statement, [space.into(), cell_id.into(), first.into(), last.into()]);
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
