//! Statements of verification that read claims: ranges, and claims on buckets.

use std::collections::HashMap;

use claims_model::Bucket;
use claims_model::source_range::Section;
use pgrx::datum::Interval;

use super::door::Local;
use crate::tables::door::VerificationTables;
use crate::tables::rows::buckets::values_by_type;
use crate::tables::rows::verify::{Actual, DigestRow, Part, actual, digest_row};
use pg::settings::planning_by_index;
use pg::spi::{Connection, View};
use pg::statement::statement;

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

/// The claims at cell $1, of source type $2, in one section of a range: its own, and those that transfers have brought. Each
/// section needs a statement of its own: an index scan does not stop at an OR of sections or at row comparisons.
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
    /// Returns the claims on buckets of type $1 with values $2. A claim is recent if it changed within $3.
    ON_BUCKETS(INT4OID, TEXTARRAYOID, INTERVALOID) = concat!(
        columns!("$3"), " FROM claims.claims c WHERE c.bucket_value = ANY ($2) AND c.bucket_type = $1");
    /// Returns the claims of a section, at most $6 or $7 of them.
    OF_LENGTH(INT8OID, INT4OID, INT4OID, TEXTOID, INTERVALOID, INT8OID) = concat!(
        section!(columns!("$5"), of_length), " LIMIT $6");
    OF_LENGTH_UP_TO(INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INTERVALOID, INT8OID) = concat!(
        section!(columns!("$6"), of_length_up_to), " LIMIT $7");
    LENGTHS(INT8OID, INT4OID, INT4OID, INT4OID, INTERVALOID, INT8OID) = concat!(
        section!(columns!("$5"), lengths), " LIMIT $6");
}

impl VerificationTables for Local {
    fn actual_on(
        &self,
        connection: &Connection,
        buckets: &[&Bucket],
        recent: Interval,
    ) -> HashMap<Bucket<'static>, Actual> {
        let mut found = HashMap::new();
        for (bucket_type, bucket_values) in values_by_type(buckets.iter().copied()) {
            let values = [bucket_type.into(), bucket_values.into(), recent.into()];
            let rows = connection.run(&ON_BUCKETS, View::Latest, values).map(actual);
            found.extend(rows.into_iter().map(|actual| (actual.claim.bucket.clone(), actual)));
        }
        found
    }

    fn actual_in(&self, connection: &Connection, part: &Part, recent: Interval, limit: usize) -> Vec<Actual> {
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

    fn each_in(&self, connection: &Connection, part: &Part, each: &mut dyn FnMut(DigestRow)) {
        for section in part.range.sections() {
            let text = match &section {
                Section::Lengths(_) => entries!(lengths),
                Section::OfLength { up_to: None, .. } => entries!(of_length),
                Section::OfLength { .. } => entries!(of_length_up_to),
            };
            planning_by_index(|| connection.stream(text, part.values(&section), true, |row| each(digest_row(&row))));
        }
    }
}
