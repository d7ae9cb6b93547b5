//! Releases the claims of a cell that is gone.

use claims_model::Bucket;

use super::door::Local;
use super::feed::tell_all;
use crate::tables::door::ReleaseTables;
use crate::tables::rows::feed::actor;
use pg::spi::{Connection, View};
use pg::statement::statement;

/// Deletes up to $2 claims of cell $1 that no lease holds. Skips those that another session has locked.
macro_rules! release {
    () => {
        concat!(
            "WITH free AS MATERIALIZED (
                 SELECT c.bucket_value, c.bucket_type FROM claims.claims c WHERE c.creator_id = $1 AND c.status = 1
                  LIMIT $2 FOR UPDATE SKIP LOCKED)
             DELETE FROM claims.claims c USING free f WHERE ",
            is_row!("c.bucket_value", "c.bucket_type", "f.bucket_value", "f.bucket_type")
        )
    };
}

statement! {
    RELEASE(INT8OID, INT8OID) = release!();
    /// Like RELEASE, and returns the claims.
    RELEASE_AND_TELL(INT8OID, INT8OID) = concat!(release!(), " RETURNING c.bucket_type, c.bucket_value");
    /// Like RELEASE, and records the claims in the change feed as freed, as role $3.
    RELEASE_INTO_FEED(INT8OID, INT8OID, TEXTOID) = concat!(
        "WITH gone AS (", release!(), " RETURNING c.bucket_type, c.bucket_value),
              recorded AS (", tell_all!("gone", "'destroy'", "$1", "NULL", "NULL", "$3"), ")
         SELECT count(*) FROM gone");
}

impl ReleaseTables for Local {
    fn release(&self, connection: &Connection, cell_id: i64, limit: i64) -> Vec<Bucket<'static>> {
        let bucket = |value: String, bucket_type| Bucket { bucket_type, value: value.into() };
        connection
            .run(&RELEASE_AND_TELL, View::Statement, [cell_id.into(), limit.into()])
            .map(|row| bucket(row.must(2), row.must(1)))
    }

    fn release_in_bulk(&self, connection: &Connection, cell_id: i64, limit: i64, tells: bool) -> Option<i64> {
        if tells {
            let values = [cell_id.into(), limit.into(), actor().into()];
            return connection.run(&RELEASE_INTO_FEED, View::Statement, values).first(|row| row.must(1));
        }
        Some(connection.run(&RELEASE, View::Statement, [cell_id.into(), limit.into()]).count() as i64)
    }
}
