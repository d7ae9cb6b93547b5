//! Statements on `claims.observed`.

use std::collections::BTreeMap;

use pgrx::pg_sys::Oid;

use pg::clock::Moment;
use pg::query::query;
use pg::spi::Connection;

query! {
    /// Adds counts. With `may_read`, adds them to rows that no other transaction has locked, and inserts the others.
    fn add(tables: Vec<Oid>, attributes: Vec<&str>, outcomes: Vec<&str>, bucket_types: Vec<Option<&str>>, bucket_values: Vec<Option<&str>>,
           holders: Vec<Option<i64>>, counts: Vec<i64>, may_read: bool) = [Statement]
        "WITH noted AS MATERIALIZED (
             SELECT n.table_name, n.attribute, n.outcome, n.bucket_type, n.bucket_value, n.holder, n.count, n.number,
                    clock_timestamp() AS now
               FROM unnest(:tables, :attributes, :outcomes, :bucket_types, :bucket_values, :holders, :counts) WITH ORDINALITY
                    AS n (table_name, attribute, outcome, bucket_type, bucket_value, holder, count, number)),
         locked AS MATERIALIZED (
             SELECT n.number, o.row FROM noted n CROSS JOIN LATERAL (
                 SELECT x.ctid AS row FROM claims.observed x
                  WHERE :may_read AND x.table_name = n.table_name::regclass AND x.attribute = n.attribute::name AND x.outcome = n.outcome
                    AND md5(coalesce(x.bucket_value, '')) = md5(coalesce(n.bucket_value, ''))
                    AND x.bucket_value IS NOT DISTINCT FROM n.bucket_value AND x.bucket_type IS NOT DISTINCT FROM n.bucket_type
                    AND x.holder_cell_id IS NOT DISTINCT FROM n.holder
                  LIMIT 1 FOR UPDATE SKIP LOCKED) o),
         added AS (
             UPDATE claims.observed o SET count = o.count + n.count, last_at = n.now
               FROM locked l JOIN noted n ON n.number = l.number WHERE o.ctid = l.row
             RETURNING l.number)
         INSERT INTO claims.observed (table_name, attribute, outcome, bucket_type, bucket_value, holder_cell_id, count, first_at, last_at)
         SELECT n.table_name::regclass, n.attribute::name, n.outcome, n.bucket_type, n.bucket_value, n.holder, n.count,
                n.now, n.now
           FROM noted n WHERE NOT EXISTS (SELECT FROM added a WHERE a.number = n.number)";
    /// Deletes at most `most` rows that counted last at `before` or earlier. Returns their number.
    pub fn purge(before: Moment, most: i64) -> usize = [Statement]
        "WITH old AS MATERIALIZED (
             SELECT o.id FROM claims.observed o WHERE o.last_at <= :before LIMIT :most FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.observed o USING old WHERE o.id = old.id";
}

/// A row of `claims.observations`, without its counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservationKey {
    pub table: u32,
    pub attribute: String,
    pub outcome: String,
    pub bucket_type: Option<String>,
    pub bucket_value: Option<String>,
    pub holder_cell_id: Option<i64>,
}

impl ObservationKey {
    pub fn new(table: u32, attribute: &str, outcome: &str) -> Self {
        let (attribute, outcome) = (attribute.to_owned(), outcome.to_owned());
        ObservationKey { table, attribute, outcome, bucket_type: None, bucket_value: None, holder_cell_id: None }
    }

    /// Returns the row that counts names of the same outcome without their names.
    pub fn without_name(self) -> Self {
        ObservationKey { bucket_type: None, bucket_value: None, holder_cell_id: None, ..self }
    }
}

/// Adds counts. Without `may_read` it only inserts rows.
pub fn write(connection: &Connection, counts: &BTreeMap<ObservationKey, i64>, may_read: bool) {
    let keys = || counts.keys();
    add(
        connection,
        keys().map(|key| Oid::from(key.table)).collect(),
        keys().map(|key| key.attribute.as_str()).collect(),
        keys().map(|key| key.outcome.as_str()).collect(),
        keys().map(|key| key.bucket_type.as_deref()).collect(),
        keys().map(|key| key.bucket_value.as_deref()).collect(),
        keys().map(|key| key.holder_cell_id).collect(),
        counts.values().copied().collect(),
        may_read,
    );
}
