//! Statements of verification on distributed claims. A separate query asks for the transfers that hold them.

use std::collections::HashMap;

use claims_model::Bucket;
use claims_model::source_range::Section;
use pgrx::datum::Interval;
use uuid::Uuid;

use super::cluster::Citus;
use super::transfer_locations::{self, TransferLocation};
use crate::service::claims::values_by_type;
use crate::service::verify::{Actual, DigestRow, Part, VerificationTables};
use pg::query::{Record, query, scan};
use pg::settings::planning_by_index;
use pg::spi::{Connection, Row};

/// The columns as they are stored, and the transfer that holds the claim. A claim is recent if it changed within `recent`.
macro_rules! columns {
    () => {
        "SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id AS cell_id, c.status,
                c.lease_uuid IS NOT NULL AS is_leased,
                c.updated_at <= clock_timestamp() + interval '1 minute' AND c.updated_at > clock_timestamp() - :recent AS is_recent,
                NULL::bigint AS other_cell_id, c.given_up_by, c.available_at,
                CASE WHEN c.status = 6 THEN -1::bigint END AS reclaiming_cell, CASE WHEN c.status = 4 THEN c.lease_uuid END AS transfer"
    };
}

/// The columns of a digest.
macro_rules! digest {
    () => {
        "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_id"
    };
}

/// A section of a range of the claims stored under a cell: `own` without those that the transfers have taken, `arrived` those that the
/// transfers hold.
macro_rules! section {
    ($columns:expr, own, $section:ident) => {
        section!($columns, "(c.status <> 4 OR (c.lease_uuid <> ALL (:transfers)) IS NOT FALSE)", $section)
    };
    ($columns:expr, arrived, $section:ident) => {
        section!($columns, "c.status = 4 AND c.lease_uuid = ANY (:transfers)", $section)
    };
    ($columns:expr, $whose:literal, lengths) => {
        section!($columns, $whose, "length(c.source_id) BETWEEN :shortest AND :longest")
    };
    ($columns:expr, $whose:literal, of_length) => {
        section!($columns, $whose, "length(c.source_id) = :length AND c.source_id > :above")
    };
    ($columns:expr, $whose:literal, of_length_up_to) => {
        section!($columns, $whose, "length(c.source_id) = :length AND c.source_id > :above AND c.source_id <= :up_to")
    };
    ($columns:expr, $whose:literal, $section:literal) => {
        concat!(
            $columns,
            " FROM claims.claims c WHERE c.creator_id = :stored_as AND c.source_type = :source_type AND ",
            $whose,
            " AND ",
            $section
        )
    };
}

/// A claim as it is stored, and the transfer that holds it.
struct Stored {
    claim: Actual,
    transfer: Option<Uuid>,
}

impl Record for Stored {
    fn read(row: &Row) -> Self {
        Stored { claim: Actual::read(row), transfer: row.field("transfer", &mut (16..)) }
    }
}

query! {
    /// Asks the node of the change feed, which has the slots for verification for all nodes if the tables are distributed.
    fn hold_slot(cell_id: i64, seconds: i32, slots: i64) -> bool = [Latest Anywhere]
        "SELECT claims.hold_slot_on_node(:cell_id, :seconds, :slots) FROM claims.change_horizon h";
    fn on_buckets(bucket_type: i32, bucket_values: &[&str], recent: Interval) -> Vec<Stored> = [Latest Anywhere] concat!(
        columns!(), " FROM claims.claims c WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type");
    fn own_of_lengths(stored_as: i64, source_type: i32, shortest: i32, longest: i32, recent: Interval, most: i64, transfers: &[Uuid])
        -> Vec<Stored> = [Latest Anywhere] concat!(section!(columns!(), own, lengths), " LIMIT :most");
    fn own_of_length(stored_as: i64, source_type: i32, length: i32, above: &str, recent: Interval, most: i64, transfers: &[Uuid])
        -> Vec<Stored> = [Latest Anywhere] concat!(section!(columns!(), own, of_length), " LIMIT :most");
    fn own_of_length_up_to(
        stored_as: i64, source_type: i32, length: i32, above: &str, up_to: &str, recent: Interval, most: i64, transfers: &[Uuid],
    ) -> Vec<Stored> = [Latest Anywhere] concat!(section!(columns!(), own, of_length_up_to), " LIMIT :most");
    fn arrived_of_lengths(stored_as: i64, source_type: i32, shortest: i32, longest: i32, recent: Interval, most: i64, transfers: &[Uuid])
        -> Vec<Stored> = [Latest Anywhere] concat!(section!(columns!(), arrived, lengths), " LIMIT :most");
    fn arrived_of_length(stored_as: i64, source_type: i32, length: i32, above: &str, recent: Interval, most: i64, transfers: &[Uuid])
        -> Vec<Stored> = [Latest Anywhere] concat!(section!(columns!(), arrived, of_length), " LIMIT :most");
    fn arrived_of_length_up_to(
        stored_as: i64, source_type: i32, length: i32, above: &str, up_to: &str, recent: Interval, most: i64, transfers: &[Uuid],
    ) -> Vec<Stored> = [Latest Anywhere] concat!(section!(columns!(), arrived, of_length_up_to), " LIMIT :most");
}

scan! {
    fn own_digest_of_lengths(stored_as: i64, source_type: i32, shortest: i32, longest: i32, transfers: &[Uuid]) -> DigestRow = [Caller]
        section!(digest!(), own, lengths);
    fn own_digest_of_length(stored_as: i64, source_type: i32, length: i32, above: &str, transfers: &[Uuid]) -> DigestRow = [Caller]
        section!(digest!(), own, of_length);
    fn own_digest_of_length_up_to(stored_as: i64, source_type: i32, length: i32, above: &str, up_to: &str, transfers: &[Uuid]) -> DigestRow
        = [Caller] section!(digest!(), own, of_length_up_to);
    fn arrived_digest_of_lengths(stored_as: i64, source_type: i32, shortest: i32, longest: i32, transfers: &[Uuid]) -> DigestRow = [Caller]
        section!(digest!(), arrived, lengths);
    fn arrived_digest_of_length(stored_as: i64, source_type: i32, length: i32, above: &str, transfers: &[Uuid]) -> DigestRow = [Caller]
        section!(digest!(), arrived, of_length);
    fn arrived_digest_of_length_up_to(stored_as: i64, source_type: i32, length: i32, above: &str, up_to: &str, transfers: &[Uuid])
        -> DigestRow = [Caller] section!(digest!(), arrived, of_length_up_to);
}

/// Returns claims with the cells that they are at.
fn located(connection: &Connection, stored: Vec<Stored>) -> Vec<Actual> {
    let locations = transfer_locations::locations(connection, stored.iter().filter_map(|one| one.transfer).collect());
    let located = |Stored { claim, transfer }| match transfer.and_then(|held| locations.get(&held)) {
        Some(location) => Actual { cell_id: location.cell_id, other_cell_id: Some(location.other_cell_id), ..claim },
        None => claim,
    };
    stored.into_iter().map(located).collect()
}

impl VerificationTables for Citus {
    fn hold_slot(&self, connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool {
        hold_slot(connection, cell_id, seconds, limit)
    }

    fn actual_on(
        &self,
        connection: &Connection,
        buckets: &[&Bucket],
        recent: Interval,
    ) -> HashMap<Bucket<'static>, Actual> {
        let of_type = |(bucket_type, bucket_values): (i32, Vec<&str>)| {
            located(connection, on_buckets(connection, bucket_type, &bucket_values, recent))
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
fn shares(part: &Part, locations: &[TransferLocation]) -> Vec<(bool, i64, Vec<Uuid>)> {
    let own = (true, part.cell_id, transfer_locations::taken_from(part.cell_id, locations));
    let brought = locations.iter().filter(|location| location.has_brought_to(part.cell_id));
    let brought = brought.map(|location| (false, location.from_cell, vec![location.transfer]));
    [own].into_iter().chain(brought).collect()
}

fn in_range_by(
    connection: &Connection,
    part: &Part,
    recent: Interval,
    limit: usize,
    locations: &[TransferLocation],
) -> Vec<Actual> {
    let mut found: Vec<Stored> = Vec::new();
    let source_type = part.source_type;
    for section in part.range.sections() {
        for (is_own, cell, by) in shares(part, locations) {
            let left = limit.saturating_sub(found.len()) as i64;
            let rows = match &section {
                Section::Lengths(lengths) => {
                    let read = if is_own { own_of_lengths } else { arrived_of_lengths };
                    read(connection, cell, source_type, *lengths.start(), *lengths.end(), recent, left, &by)
                }
                Section::OfLength { length, above, up_to: None } => {
                    let read = if is_own { own_of_length } else { arrived_of_length };
                    read(connection, cell, source_type, *length, above, recent, left, &by)
                }
                Section::OfLength { length, above, up_to: Some(up_to) } => {
                    let read = if is_own { own_of_length_up_to } else { arrived_of_length_up_to };
                    read(connection, cell, source_type, *length, above, up_to, recent, left, &by)
                }
            };
            found.extend(rows);
        }
    }
    located(connection, found)
}

fn each_by(connection: &Connection, part: &Part, locations: &[TransferLocation], each: &mut dyn FnMut(DigestRow)) {
    let source_type = part.source_type;
    for section in part.range.sections() {
        for (is_own, cell, by) in shares(part, locations) {
            planning_by_index(|| match &section {
                Section::Lengths(lengths) => {
                    let read = if is_own { own_digest_of_lengths } else { arrived_digest_of_lengths };
                    read(connection, cell, source_type, *lengths.start(), *lengths.end(), &by, &mut *each);
                }
                Section::OfLength { length, above, up_to: None } => {
                    let read = if is_own { own_digest_of_length } else { arrived_digest_of_length };
                    read(connection, cell, source_type, *length, above, &by, &mut *each);
                }
                Section::OfLength { length, above, up_to: Some(up_to) } => {
                    let read = if is_own { own_digest_of_length_up_to } else { arrived_digest_of_length_up_to };
                    read(connection, cell, source_type, *length, above, up_to, &by, &mut *each);
                }
            });
        }
    }
}
