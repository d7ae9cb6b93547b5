//! Statements of verification that read claims: ranges, and claims on buckets.

use std::collections::HashMap;

use claims_model::Bucket;
use claims_model::source_range::Section;
use pgrx::datum::Interval;

use super::slots;
use super::tables::{Actual, DigestRow, Part, VerificationTables};
use crate::kernel::tables::Local;
use crate::service::claims::values_by_type;
use pg::query::{query, scan};
use pg::settings::planning_by_index;
use pg::spi::Connection;

/// The columns of a claim with the cell that it is at, which for a claim that a transfer holds is the cell in the transfer's row, and with
/// the other one of the two cells of such a transfer. A claim is recent if it changed within `recent`.
macro_rules! columns {
    () => {
        "SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id,
                CASE WHEN c.status = 4
                     THEN coalesce((SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid), c.creator_id)
                     ELSE c.creator_id END AS cell_id,
                c.status, c.lease_uuid IS NOT NULL AS is_leased,
                c.updated_at <= clock_timestamp() + interval '1 minute' AND c.updated_at > clock_timestamp() - :recent AS is_recent,
                CASE WHEN c.status = 4
                     THEN (SELECT CASE t.cell_id WHEN t.from_cell THEN t.to_cell ELSE t.from_cell END
                             FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid) END AS other_cell_id,
                c.given_up_by, c.available_at, CASE WHEN c.status = 6 THEN -1::bigint END AS reclaiming_cell"
    };
}

/// The columns of a digest.
macro_rules! digest {
    () => {
        "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_id"
    };
}

/// The claims at a cell, of a source type, in one section of a range: its own without those that a transfer has moved to another cell (the
/// subquery for these transfers runs once, not for each claim), and those that transfers have brought and that are stored under another
/// cell (OFFSET 0 keeps the planner from beginning with the claims). Each section needs a statement of its own: an index scan does not stop
/// at an OR of sections or at row comparisons.
macro_rules! section {
    ($columns:expr, $section:literal) => {
        concat!(
            $columns,
            " FROM claims.claims c WHERE c.creator_id = :cell_id AND c.source_type = :source_type AND ",
            $section,
            " AND (c.status <> 4
                   OR (c.lease_uuid <> ALL (ARRAY(SELECT t.transfer_uuid FROM claims.cell_transfers t
                                                   WHERE t.from_cell = :cell_id AND t.cell_id <> t.from_cell AND t.ended_at IS NULL))) IS NOT FALSE)
             UNION ALL ",
            $columns,
            " FROM (SELECT t.transfer_uuid, t.from_cell FROM claims.cell_transfers t
                     WHERE t.cell_id = :cell_id AND t.cell_id <> t.from_cell AND t.ended_at IS NULL OFFSET 0) t
              CROSS JOIN LATERAL (SELECT c.* FROM claims.claims c
                                   WHERE c.creator_id = t.from_cell AND c.status = 4 AND c.lease_uuid = t.transfer_uuid
                                     AND c.source_type = :source_type AND ",
            $section,
            " OFFSET 0) c"
        )
    };
    ($columns:expr, lengths) => {
        section!($columns, "length(c.source_id) BETWEEN :shortest AND :longest")
    };
    ($columns:expr, of_length) => {
        section!($columns, "length(c.source_id) = :length AND c.source_id > :above")
    };
    ($columns:expr, of_length_up_to) => {
        section!($columns, "length(c.source_id) = :length AND c.source_id > :above AND c.source_id <= :up_to")
    };
}

query! {
    fn on_buckets(bucket_type: i32, bucket_values: &[&str], recent: Interval) -> Vec<Actual> = [Latest] concat!(
        columns!(), " FROM claims.claims c WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type");
    fn of_lengths(cell_id: i64, source_type: i32, shortest: i32, longest: i32, recent: Interval, most: i64) -> Vec<Actual> = [Latest]
        concat!(section!(columns!(), lengths), " LIMIT :most");
    fn of_length(cell_id: i64, source_type: i32, length: i32, above: &str, recent: Interval, most: i64) -> Vec<Actual> = [Latest]
        concat!(section!(columns!(), of_length), " LIMIT :most");
    fn of_length_up_to(cell_id: i64, source_type: i32, length: i32, above: &str, up_to: &str, recent: Interval, most: i64) -> Vec<Actual>
        = [Latest] concat!(section!(columns!(), of_length_up_to), " LIMIT :most");
}

scan! {
    fn digest_of_lengths(cell_id: i64, source_type: i32, shortest: i32, longest: i32) -> DigestRow = [Caller] section!(digest!(), lengths);
    fn digest_of_length(cell_id: i64, source_type: i32, length: i32, above: &str) -> DigestRow = [Caller] section!(digest!(), of_length);
    fn digest_of_length_up_to(cell_id: i64, source_type: i32, length: i32, above: &str, up_to: &str) -> DigestRow
        = [Caller] section!(digest!(), of_length_up_to);
}

impl VerificationTables for Local {
    fn hold_slot(&self, connection: &Connection, cell_id: i64, seconds: i32, limit: i64) -> bool {
        slots::hold(connection, cell_id, seconds, limit)
    }

    fn actual_on(
        &self,
        connection: &Connection,
        buckets: &[&Bucket],
        recent: Interval,
    ) -> HashMap<Bucket<'static>, Actual> {
        let of_type = |(bucket_type, values): (i32, Vec<&str>)| on_buckets(connection, bucket_type, &values, recent);
        let found = values_by_type(buckets.iter().copied()).into_iter().flat_map(of_type);
        found.map(|actual| (actual.claim.bucket.clone(), actual)).collect()
    }

    fn actual_in(&self, connection: &Connection, part: &Part, recent: Interval, limit: usize) -> Vec<Actual> {
        let mut found: Vec<Actual> = Vec::new();
        let Part { cell_id, source_type, .. } = *part;
        for section in part.range.sections() {
            let most = limit.saturating_sub(found.len()) as i64;
            let rows = match section {
                Section::Lengths(lengths) => {
                    of_lengths(connection, cell_id, source_type, *lengths.start(), *lengths.end(), recent, most)
                }
                Section::OfLength { length, above, up_to: None } => {
                    of_length(connection, cell_id, source_type, length, above, recent, most)
                }
                Section::OfLength { length, above, up_to: Some(up_to) } => {
                    of_length_up_to(connection, cell_id, source_type, length, above, up_to, recent, most)
                }
            };
            found.extend(rows);
        }
        found
    }

    fn each_in(&self, connection: &Connection, part: &Part, each: &mut dyn FnMut(DigestRow)) {
        let Part { cell_id, source_type, .. } = *part;
        for section in part.range.sections() {
            planning_by_index(|| match section {
                Section::Lengths(lengths) => {
                    digest_of_lengths(connection, cell_id, source_type, *lengths.start(), *lengths.end(), &mut *each);
                }
                Section::OfLength { length, above, up_to: None } => {
                    digest_of_length(connection, cell_id, source_type, length, above, &mut *each);
                }
                Section::OfLength { length, above, up_to: Some(up_to) } => {
                    digest_of_length_up_to(connection, cell_id, source_type, length, above, up_to, &mut *each);
                }
            });
        }
    }
}
