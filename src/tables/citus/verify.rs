//! Statements of verification on distributed claims. A separate query asks for the transfers that hold them.

use std::collections::HashMap;

use claims_model::Bucket;
use claims_model::source_range::Section;
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use uuid::Uuid;

use super::door::Citus;
use super::transfer_locations::{self, TransferLocation};
use crate::tables::door::VerificationTables;
use crate::tables::rows::buckets::values_by_type;
use crate::tables::rows::verify::{Actual, DigestRow, Part, actual, digest_row};
use pg::settings::planning_by_index;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::shared_statement;
use pg::uuid::{from_pg_uuid, pg_uuids};

/// A section of a range of the claims stored under cell $1 that fulfil `$whose`.
macro_rules! distributed_section {
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
        distributed_section!($columns, $whose, "length(c.source_id) = $3 AND c.source_id > $4")
    };
    ($columns:expr, $whose:expr, of_length_up_to) => {
        distributed_section!($columns, $whose, "length(c.source_id) = $3 AND c.source_id > $4 AND c.source_id <= $5")
    };
    ($columns:expr, $whose:expr, lengths) => {
        distributed_section!($columns, $whose, "length(c.source_id) BETWEEN $3 AND $4")
    };
}

/// The columns as they are stored. The last one is the transfer that holds the claim.
macro_rules! distributed_columns {
    ($recent:literal) => {
        concat!(
            "SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.status,
                    c.lease_uuid IS NOT NULL,
                    c.updated_at <= clock_timestamp() + interval '1 minute' AND c.updated_at > clock_timestamp() - ", $recent, ",
                    NULL::bigint, CASE WHEN c.status = 4 THEN c.lease_uuid END"
        )
    };
}

macro_rules! distributed_entries {
    ($whose:expr, $section:tt) => {
        distributed_section!(
            "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_id",
            $whose,
            $section
        )
    };
}

shared_statement! {
    OWN_ON_BUCKETS(INT4OID, TEXTARRAYOID, INTERVALOID) = concat!(
        distributed_columns!("$3"), " FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1");
    /// Own claims, without those that the transfers in the last argument have taken.
    OWN_OF_LENGTH(INT8OID, INT4OID, INT4OID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        distributed_section!(distributed_columns!("$5"), not_taken!("$7"), of_length), " LIMIT $6");
    OWN_OF_LENGTH_UP_TO(INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        distributed_section!(distributed_columns!("$6"), not_taken!("$8"), of_length_up_to), " LIMIT $7");
    OWN_LENGTHS(INT8OID, INT4OID, INT4OID, INT4OID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        distributed_section!(distributed_columns!("$5"), not_taken!("$7"), lengths), " LIMIT $6");
    /// Claims stored under another cell that the transfers in the last argument have brought.
    ARRIVED_OF_LENGTH(INT8OID, INT4OID, INT4OID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        distributed_section!(distributed_columns!("$5"), brought_by!("$7"), of_length), " LIMIT $6");
    ARRIVED_OF_LENGTH_UP_TO(INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        distributed_section!(distributed_columns!("$6"), brought_by!("$8"), of_length_up_to), " LIMIT $7");
    ARRIVED_LENGTHS(INT8OID, INT4OID, INT4OID, INT4OID, INTERVALOID, INT8OID, UUIDARRAYOID) = concat!(
        distributed_section!(distributed_columns!("$5"), brought_by!("$7"), lengths), " LIMIT $6");
}

/// Reads a claim as it is stored, and the transfer that holds it.
fn stored(row: Row) -> (Actual, Option<Uuid>) {
    let transfer = row.get::<PgUuid>(13).map(from_pg_uuid);
    (actual(row), transfer)
}

/// Returns claims with the cells that they are at.
fn located(connection: &Connection, stored: Vec<(Actual, Option<Uuid>)>) -> Vec<Actual> {
    let locations =
        transfer_locations::locations(connection, stored.iter().filter_map(|(_, transfer)| *transfer).collect());
    let located = |(actual, transfer): (Actual, Option<Uuid>)| match transfer.and_then(|held| locations.get(&held)) {
        Some(location) => Actual { cell_id: location.cell_id, other_cell_id: Some(location.other_cell_id), ..actual },
        None => actual,
    };
    stored.into_iter().map(located).collect()
}

impl VerificationTables for Citus {
    fn actual_on(
        &self,
        connection: &Connection,
        buckets: &[&Bucket],
        recent: Interval,
    ) -> HashMap<Bucket<'static>, Actual> {
        let of_type = |(bucket_type, bucket_values): (i32, Vec<&str>)| {
            let values = [bucket_type.into(), bucket_values.into(), recent.into()];
            located(connection, connection.run(&OWN_ON_BUCKETS, View::Latest, values).map(stored))
        };
        let found = values_by_type(buckets.iter().copied()).into_iter().flat_map(of_type);
        found.map(|actual| (actual.claim.bucket.clone(), actual)).collect()
    }

    fn actual_in(&self, connection: &Connection, part: &Part, recent: Interval, limit: usize) -> Vec<Actual> {
        transfer_locations::while_unmoved(connection, part.cell_id, |locations| {
            in_range_by(connection, part, recent, limit, locations)
        })
    }

    fn each_in(&self, connection: &Connection, part: &Part, each: &mut dyn FnMut(DigestRow)) {
        transfer_locations::once(connection, part.cell_id, |locations| each_by(connection, part, locations, each));
    }
}

/// Returns the sets of claims that are at the cell: its own without those that transfers have taken, and for each transfer those
/// that it has brought. Each has: whether they are its own, the cell under which they are stored, and the transfers.
fn shares(part: &Part, locations: &[TransferLocation]) -> Vec<(bool, i64, Value)> {
    let own = (true, part.cell_id, transfer_locations::taken_from(part.cell_id, locations));
    let brought = locations.iter().filter(|location| location.has_brought_to(part.cell_id));
    let brought = brought.map(|location| (false, location.from_cell, pg_uuids([location.transfer])));
    [own].into_iter().chain(brought).collect()
}

fn in_range_by(
    connection: &Connection,
    part: &Part,
    recent: Interval,
    limit: usize,
    locations: &[TransferLocation],
) -> Vec<Actual> {
    let mut found = Vec::new();
    for section in part.range.sections() {
        for (is_own, stored_as, transfers) in shares(part, locations) {
            let statement = match (&section, is_own) {
                (Section::Lengths(_), true) => &OWN_LENGTHS,
                (Section::Lengths(_), false) => &ARRIVED_LENGTHS,
                (Section::OfLength { up_to: None, .. }, true) => &OWN_OF_LENGTH,
                (Section::OfLength { up_to: None, .. }, false) => &ARRIVED_OF_LENGTH,
                (Section::OfLength { .. }, true) => &OWN_OF_LENGTH_UP_TO,
                (Section::OfLength { .. }, false) => &ARRIVED_OF_LENGTH_UP_TO,
            };
            let left = limit.saturating_sub(found.len()) as i64;
            let values = part.values_of(stored_as, &section).into_iter().chain([recent.into(), left.into(), transfers]);
            found.extend(connection.run(statement, View::Latest, values).map(stored));
        }
    }
    located(connection, found)
}

fn each_by(connection: &Connection, part: &Part, locations: &[TransferLocation], each: &mut dyn FnMut(DigestRow)) {
    for section in part.range.sections() {
        for (is_own, stored_as, transfers) in shares(part, locations) {
            let text = match (&section, is_own) {
                (Section::Lengths(_), true) => {
                    distributed_entries!(not_taken!("$5"), lengths)
                }
                (Section::Lengths(_), false) => distributed_entries!(brought_by!("$5"), lengths),
                (Section::OfLength { up_to: None, .. }, true) => {
                    distributed_entries!(not_taken!("$5"), of_length)
                }
                (Section::OfLength { up_to: None, .. }, false) => {
                    distributed_entries!(brought_by!("$5"), of_length)
                }
                (Section::OfLength { .. }, true) => {
                    distributed_entries!(not_taken!("$6"), of_length_up_to)
                }
                (Section::OfLength { .. }, false) => {
                    distributed_entries!(brought_by!("$6"), of_length_up_to)
                }
            };
            let values = part.values_of(stored_as, &section).into_iter().chain([transfers]);
            planning_by_index(|| connection.stream(text, values, true, |row| each(digest_row(&row))));
        }
    }
}
