//! Statements on `claims.observed`.

use std::collections::BTreeMap;

use pgrx::pg_sys::Oid;

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Adds counts. With $8, adds them to rows that no other transaction has locked, and inserts the others.
    WRITE(OIDARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, BOOLOID) =
        "WITH noted AS MATERIALIZED (
             SELECT n.table_name, n.attribute, n.outcome, n.bucket_type, n.bucket_value, n.holder, n.count, n.number,
                    clock_timestamp() AS now
               FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY
                    AS n (table_name, attribute, outcome, bucket_type, bucket_value, holder, count, number)),
         locked AS MATERIALIZED (
             SELECT n.number, o.row FROM noted n CROSS JOIN LATERAL (
                 SELECT x.ctid AS row FROM claims.observed x
                  WHERE $8 AND x.table_name = n.table_name::regclass AND x.attribute = n.attribute::name AND x.outcome = n.outcome
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
    /// Deletes up to $2 rows that counted last at $1 or earlier.
    PURGE(TIMESTAMPTZOID, INT8OID) =
        "WITH old AS MATERIALIZED (
             SELECT o.id FROM claims.observed o WHERE o.last_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.observed o USING old WHERE o.id = old.id";
}

/// A row of `claims.observations`, without its counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub table: u32,
    pub attribute: String,
    pub outcome: String,
    pub bucket_type: Option<String>,
    pub bucket_value: Option<String>,
    pub holder_cell_id: Option<i64>,
}

impl Key {
    pub fn new(table: u32, attribute: &str, outcome: &str) -> Self {
        let (attribute, outcome) = (attribute.to_owned(), outcome.to_owned());
        Key { table, attribute, outcome, bucket_type: None, bucket_value: None, holder_cell_id: None }
    }

    /// Returns the row that counts names of the same outcome without their names.
    pub fn without_name(self) -> Self {
        Key { bucket_type: None, bucket_value: None, holder_cell_id: None, ..self }
    }
}

/// Deletes at most `limit` rows that counted last at `before` or earlier. Returns their number.
pub fn purge(connection: &Connection, before: Moment, limit: i64) -> usize {
    connection.run(&PURGE, View::Statement, [before.into(), limit.into()]).count()
}

/// Adds counts. Without `may_read` it only inserts rows.
pub fn write(connection: &Connection, counts: &BTreeMap<Key, i64>, may_read: bool) {
    let texts = |text: fn(&Key) -> Option<&str>| -> Vec<Option<String>> {
        counts.keys().map(|key| text(key).map(str::to_owned)).collect()
    };
    let values = [
        counts.keys().map(|key| Oid::from(key.table)).collect::<Vec<_>>().into(),
        texts(|key| Some(&key.attribute)).into(),
        texts(|key| Some(&key.outcome)).into(),
        texts(|key| key.bucket_type.as_deref()).into(),
        texts(|key| key.bucket_value.as_deref()).into(),
        counts.keys().map(|key| key.holder_cell_id).collect::<Vec<Option<i64>>>().into(),
        counts.values().copied().collect::<Vec<i64>>().into(),
        may_read.into(),
    ];
    connection.run(&WRITE, View::Statement, values);
}
