//! Statements of verification on the claims themselves: read ranges, see what stands on buckets, put claims right.

use std::collections::HashMap;

use claims_model::source_range::Section;
use claims_model::{Bucket, Claim};
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use uuid::Uuid;

use super::buckets::{claim_values, values_by_type};
use super::distributed::verify as distributed;
use super::verify_rows::actual;
pub use super::verify_rows::{Actual, Part};
use crate::distribution;
use crate::pg::clock::Moment;
use crate::pg::settings::planning_by_index;
use crate::pg::spi::{Connection, Row, Value, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::pg_uuid;

macro_rules! columns {
    ($recent:literal) => {
        concat!(
            "SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, ",
            claim_cell!(),
            ", c.status, c.lease_uuid IS NOT NULL,
               c.updated_at <= clock_timestamp() + interval '1 minute' AND c.updated_at > clock_timestamp() - ",
            $recent,
            ", ",
            other_cell!()
        )
    };
}

/// The claims that are at cell $1, of source type $2, in one section of a range: its own, and those that transfers have brought.
/// Not one statement for all sections, nor comparisons of rows: those are no conditions that an index stops at.
macro_rules! section {
    ($columns:expr, $section:literal) => {
        concat!(
            $columns,
            " FROM claims.claims c WHERE c.creator_id = $1 AND c.source_type = $2 AND ",
            $section,
            " AND ",
            at_home!(),
            " UNION ALL ",
            $columns,
            " FROM ",
            arrived!(),
            " CROSS JOIN LATERAL (SELECT c.* FROM claims.claims c WHERE ",
            brought!(),
            " AND c.source_type = $2 AND ",
            $section,
            " OFFSET 0) c"
        )
    };
    ($columns:expr, of_length) => {
        section!($columns, "length(c.source_id) = $3 AND c.source_id > $4")
    };
    ($columns:expr, of_length_up_to) => {
        section!($columns, "length(c.source_id) = $3 AND c.source_id > $4 AND c.source_id <= $5")
    };
    ($columns:expr, lengths) => {
        section!($columns, "length(c.source_id) BETWEEN $3 AND $4")
    };
}

macro_rules! entries {
    ($section:tt) => {
        section!("SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_id", $section)
    };
}

statement! {
    /// What stands on buckets of type $1 with values $2; recent is what changed within $3.
    ON_BUCKETS(INT4OID, TEXTARRAYOID, INTERVALOID) = concat!(
        columns!("$3"), " FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1");
    /// The claims of a section, at most $6 or $7 of them.
    OF_LENGTH(INT8OID, INT4OID, INT4OID, TEXTOID, INTERVALOID, INT8OID) = concat!(
        section!(columns!("$5"), of_length), " LIMIT $6");
    OF_LENGTH_UP_TO(INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INTERVALOID, INT8OID) = concat!(
        section!(columns!("$6"), of_length_up_to), " LIMIT $7");
    LENGTHS(INT8OID, INT4OID, INT4OID, INT4OID, INTERVALOID, INT8OID) = concat!(
        section!(columns!("$5"), lengths), " LIMIT $6");
}

shared_statement! {
    ADD(UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID, TIMESTAMPTZOID, TEXTOID) =
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, status, created_at, updated_at, display_value)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $9, $10)";
    /// Replaces subject and source of the claim that was seen as $9, unless it has changed since. What comes of it is
    /// another claim, with a uuid and an age of its own: whoever has seen the old one will not touch it.
    REPLACE(UUIDOID, INT4OID, TEXTOID, INT4OID, TEXTOID, TIMESTAMPTZOID, INT4OID, TEXTOID, UUIDOID, INT8OID, TEXTOID) =
        "UPDATE claims.claims c SET uuid = $1, subject_type = $2, subject_id = $3, source_type = $4, source_id = $5,
                                    created_at = $6, updated_at = $6, display_value = $11
          WHERE c.bucket_type = $7 AND c.bucket_value = $8 AND c.uuid IS NOT DISTINCT FROM $9
            AND c.creator_id IS NOT DISTINCT FROM $10 AND c.status = 1 AND c.lease_uuid IS NULL";
    /// Deletes the claim that was seen as $3, unless it has changed since.
    REMOVE(INT4OID, TEXTOID, UUIDOID, INT8OID) =
        "DELETE FROM claims.claims c
          WHERE c.bucket_type = $1 AND c.bucket_value = $2 AND c.uuid IS NOT DISTINCT FROM $3
            AND c.creator_id IS NOT DISTINCT FROM $4 AND c.status = 1 AND c.lease_uuid IS NULL";
}

/// What is committed on these buckets right now.
pub fn on_buckets(connection: &Connection, buckets: &[&Bucket], recent: Interval) -> HashMap<Bucket<'static>, Actual> {
    let mut found = HashMap::new();
    for (bucket_type, bucket_values) in values_by_type(buckets.iter().copied()) {
        let values = [bucket_type.into(), bucket_values.into(), recent.into()];
        let rows = match distribution::is_spread() {
            true => distributed::on_buckets(connection, values),
            false => connection.run(&ON_BUCKETS, View::Latest, values).map(actual),
        };
        found.extend(rows.into_iter().map(|actual| (actual.claim.bucket.clone(), actual)));
    }
    found
}

/// The claims of a part that are committed right now, at most `limit`.
pub fn in_range(connection: &Connection, part: &Part, recent: Interval, limit: usize) -> Vec<Actual> {
    if distribution::is_spread() {
        return distributed::in_range(connection, part, recent, limit);
    }
    let mut found = Vec::new();
    for section in part.range.sections() {
        let statement = match &section {
            Section::Lengths(_) => &LENGTHS,
            Section::OfLength { up_to: None, .. } => &OF_LENGTH,
            Section::OfLength { .. } => &OF_LENGTH_UP_TO,
        };
        let left = limit.saturating_sub(found.len()) as i64;
        let values = part.values(&section).into_iter().chain([recent.into(), left.into()]);
        found.extend(connection.run(statement, View::Latest, values).map(actual));
    }
    found
}

/// A claim as digests read it, types by number.
pub struct DigestRow {
    pub bucket_type: i32,
    pub bucket_value: String,
    pub subject_type: i32,
    pub subject_id: String,
    pub source_id: String,
}

/// Hands over the claims of a part, as the calling query sees them, in no order.
pub fn each_in_range(connection: &Connection, part: &Part, mut each: impl FnMut(DigestRow)) {
    let mut each_of = |row: Row| {
        each(DigestRow {
            bucket_type: row.must(1),
            bucket_value: row.must(2),
            subject_type: row.must(3),
            subject_id: row.must(4),
            source_id: row.must(5),
        });
    };
    if distribution::is_spread() {
        return distributed::each_in_range(connection, part, &mut each_of);
    }
    for section in part.range.sections() {
        let text = match &section {
            Section::Lengths(_) => entries!(lengths),
            Section::OfLength { up_to: None, .. } => entries!(of_length),
            Section::OfLength { .. } => entries!(of_length_up_to),
        };
        planning_by_index(|| connection.stream(text, part.values(&section), true, &mut each_of));
    }
}

fn new_uuid() -> PgUuid {
    pg_uuid(Uuid::now_v7())
}

/// Adds a claim. A bucket that exists is a unique violation.
pub fn add(connection: &Connection, cell_id: i64, claim: &Claim) -> bool {
    let values =
        claim_values(claim).into_iter().chain([cell_id.into(), Moment::now().into(), claim.display.as_deref().into()]);
    connection.run(&ADD, View::Statement, values).count() == 1
}

/// Replaces subject and source of a claim in place. `false`: it has changed since it was seen.
pub fn replace(connection: &Connection, seen: &Actual, claim: &Claim) -> bool {
    let Claim { bucket, subject, source, display } = claim;
    let values: [Value; 11] = [
        new_uuid().into(),
        subject.type_id.into(),
        (&*subject.id).into(),
        source.type_id.into(),
        (&*source.id).into(),
        Moment::now().into(),
        bucket.bucket_type.into(),
        (&*bucket.value).into(),
        pg_uuid(seen.uuid).into(),
        seen.cell_id.into(),
        display.as_deref().into(),
    ];
    connection.run(&REPLACE, View::Statement, values).count() == 1
}

/// Deletes a claim. `false`: it has changed since it was seen.
pub fn remove(connection: &Connection, seen: &Actual) -> bool {
    let bucket = &seen.claim.bucket;
    let values: [Value; 4] =
        [bucket.bucket_type.into(), (&*bucket.value).into(), pg_uuid(seen.uuid).into(), seen.cell_id.into()];
    connection.run(&REMOVE, View::Statement, values).count() == 1
}
