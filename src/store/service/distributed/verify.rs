//! Statements of verification on claims that are spread over the nodes of a Citus cluster: where transfers have them is asked apart.

use claims_model::source_range::Section;
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use uuid::Uuid;

use super::transfers::{self, Place};
use crate::pg::settings::planning_by_index;
use crate::pg::spi::{Connection, Row, Value, View};
use crate::pg::statement::shared_statement;
use crate::pg::uuid::{from_pg_uuid, pg_uuids};
use crate::store::service::verify_rows::{Actual, Part, actual};

/// Sections of a range where the claims are spread over nodes: those of cell $1 that are `$whose`.
macro_rules! spread_section {
    ($columns:expr, $whose:expr, $section:literal) => {
        concat!(
            $columns,
            " FROM claims.claims c WHERE c.creator_id = $1 AND c.source_type = $2 AND ",
            $whose,
            " AND ",
            $section
        )
    };
    ($columns:expr, $whose:expr, of_length) => {
        spread_section!($columns, $whose, "length(c.source_id) = $3 AND c.source_id > $4")
    };
    ($columns:expr, $whose:expr, of_length_up_to) => {
        spread_section!($columns, $whose, "length(c.source_id) = $3 AND c.source_id > $4 AND c.source_id <= $5")
    };
    ($columns:expr, $whose:expr, lengths) => {
        spread_section!($columns, $whose, "length(c.source_id) BETWEEN $3 AND $4")
    };
}

/// As they are stored; which transfer holds them is the last column.
macro_rules! spread_columns {
    ($recent:literal) => {
        concat!(
            "SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.status,
                    c.lease_uuid IS NOT NULL,
                    c.updated_at <= clock_timestamp() + interval '1 minute' AND c.updated_at > clock_timestamp() - ", $recent, ",
                    NULL::bigint, CASE WHEN c.status = 4 THEN c.lease_uuid END"
        )
    };
}

macro_rules! spread_entries {
    ($whose:expr, $section:tt) => {
        spread_section!(
            "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_id",
            $whose,
            $section
        )
    };
}

shared_statement! {
    SPREAD_ON_BUCKETS(INT4OID, TEXTARRAYOID, INTERVALOID) = concat!(
        spread_columns!("$3"), " FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1");
    /// Own claims, but for those that the transfers of the last argument have taken.
    SPREAD_OF_LENGTH(INT8OID, INT4OID, INT4OID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        spread_section!(spread_columns!("$5"), not_taken!("$7"), of_length), " LIMIT $6");
    SPREAD_OF_LENGTH_UP_TO(INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        spread_section!(spread_columns!("$6"), not_taken!("$8"), of_length_up_to), " LIMIT $7");
    SPREAD_LENGTHS(INT8OID, INT4OID, INT4OID, INT4OID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        spread_section!(spread_columns!("$5"), not_taken!("$7"), lengths), " LIMIT $6");
    /// Those of another cell that the transfers of the last argument have brought.
    ARRIVED_OF_LENGTH(INT8OID, INT4OID, INT4OID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        spread_section!(spread_columns!("$5"), brought_by!("$7"), of_length), " LIMIT $6");
    ARRIVED_OF_LENGTH_UP_TO(INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        spread_section!(spread_columns!("$6"), brought_by!("$8"), of_length_up_to), " LIMIT $7");
    ARRIVED_LENGTHS(INT8OID, INT4OID, INT4OID, INT4OID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        spread_section!(spread_columns!("$5"), brought_by!("$7"), lengths), " LIMIT $6");
}

/// A claim as it is stored on some node, and the transfer that holds it.
fn stored(row: Row) -> (Actual, Option<Uuid>) {
    let transfer = row.get::<PgUuid>(13).map(from_pg_uuid);
    (actual(row), transfer)
}

/// Claims with the cells that they are at.
fn located(connection: &Connection, stored: Vec<(Actual, Option<Uuid>)>) -> Vec<Actual> {
    let places = transfers::places(connection, stored.iter().filter_map(|(_, transfer)| *transfer).collect());
    let located = |(actual, transfer): (Actual, Option<Uuid>)| match transfer.and_then(|held| places.get(&held)) {
        Some(place) => Actual { cell_id: place.cell_id, other_cell_id: Some(place.other_cell_id), ..actual },
        None => actual,
    };
    stored.into_iter().map(located).collect()
}

/// What is committed on buckets right now.
pub fn on_buckets(connection: &Connection, values: [Value; 3]) -> Vec<Actual> {
    located(connection, connection.run(&SPREAD_ON_BUCKETS, View::Latest, values).map(stored))
}

/// Whose claims are at this cell where they are spread: its own, but for those that transfers have taken, and of each cell those
/// that a transfer has brought. Whether they are its own, as which cell's they are stored, and the transfers.
fn shares(part: &Part, places: &[Place]) -> Vec<(bool, i64, Value)> {
    let own = (true, part.cell_id, transfers::taken_from(part.cell_id, places));
    let brought = places.iter().filter(|place| place.has_brought_to(part.cell_id));
    let brought = brought.map(|place| (false, place.from_cell, pg_uuids([place.transfer])));
    [own].into_iter().chain(brought).collect()
}

/// The claims of a part that are committed right now, at most `limit`.
pub fn in_range(connection: &Connection, part: &Part, recent: Interval, limit: usize) -> Vec<Actual> {
    transfers::steadily(connection, part.cell_id, |places| in_range_by(connection, part, recent, limit, places))
}

fn in_range_by(connection: &Connection, part: &Part, recent: Interval, limit: usize, places: &[Place]) -> Vec<Actual> {
    let mut found = Vec::new();
    for section in part.range.sections() {
        for (is_own, stored_as, transfers) in shares(part, places) {
            let statement = match (&section, is_own) {
                (Section::Lengths(_), true) => &SPREAD_LENGTHS,
                (Section::Lengths(_), false) => &ARRIVED_LENGTHS,
                (Section::OfLength { up_to: None, .. }, true) => &SPREAD_OF_LENGTH,
                (Section::OfLength { up_to: None, .. }, false) => &ARRIVED_OF_LENGTH,
                (Section::OfLength { .. }, true) => &SPREAD_OF_LENGTH_UP_TO,
                (Section::OfLength { .. }, false) => &ARRIVED_OF_LENGTH_UP_TO,
            };
            let left = limit.saturating_sub(found.len()) as i64;
            let values = part.values_of(stored_as, &section).into_iter().chain([recent.into(), left.into(), transfers]);
            found.extend(connection.run(statement, View::Latest, values).map(stored));
        }
    }
    located(connection, found)
}

/// Hands over the claims of a part, in no order. They cannot be read again: where a transfer has gone on meanwhile digests differ, and
/// records are compared.
pub fn each_in_range(connection: &Connection, part: &Part, each: &mut impl FnMut(Row)) {
    transfers::once(connection, part.cell_id, |places| each_by(connection, part, places, each));
}

fn each_by(connection: &Connection, part: &Part, places: &[Place], each: &mut impl FnMut(Row)) {
    for section in part.range.sections() {
        for (is_own, stored_as, transfers) in shares(part, places) {
            let text = match (&section, is_own) {
                (Section::Lengths(_), true) => {
                    spread_entries!(not_taken!("$5"), lengths)
                }
                (Section::Lengths(_), false) => spread_entries!(brought_by!("$5"), lengths),
                (Section::OfLength { up_to: None, .. }, true) => {
                    spread_entries!(not_taken!("$5"), of_length)
                }
                (Section::OfLength { up_to: None, .. }, false) => {
                    spread_entries!(brought_by!("$5"), of_length)
                }
                (Section::OfLength { .. }, true) => {
                    spread_entries!(not_taken!("$6"), of_length_up_to)
                }
                (Section::OfLength { .. }, false) => {
                    spread_entries!(brought_by!("$6"), of_length_up_to)
                }
            };
            let values = part.values_of(stored_as, &section).into_iter().chain([transfers]);
            planning_by_index(|| connection.stream(text, values, true, &mut *each));
        }
    }
}
