//! Releases the claims of a cell that is gone.

use super::super::tables::ReleaseTables;
use crate::kernel::sql_text::{is_row, said};
use crate::kernel::tables::Local;
use crate::service::claims::{OwnedName, OwnedRow, kept};
use crate::service::feed::actor;
use pg::clock::Moment;
use pg::query::query;
use pg::spi::Connection;

/// Deletes up to `most` claims of a cell that no lease holds. Skips those that another session has locked.
macro_rules! release {
    () => {
        concat!(
            "WITH free AS MATERIALIZED (
                 SELECT c.bucket_value, c.bucket_type FROM claims.claims c WHERE c.creator_id = :cell_id AND c.status = 1
                  LIMIT :most FOR UPDATE SKIP LOCKED)
             DELETE FROM claims.claims c USING free f WHERE ",
            is_row!("c.bucket_value", "c.bucket_type", "f.bucket_value", "f.bucket_type")
        )
    };
}

query! {
    fn release(cell_id: i64, most: i64) -> usize = [Statement] release!();
    /// Locks claims of a cell that no lease holds. Skips those that another session has locked.
    fn lock_free(cell_id: i64, most: i64) -> Vec<OwnedRow> = [Statement]
        "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id FROM claims.claims c
          WHERE c.creator_id = :cell_id AND c.status = 1 LIMIT :most FOR UPDATE SKIP LOCKED";
    /// Like [`release`], and records the claims in the change feed as freed.
    fn release_and_tell(cell_id: i64, most: i64, actor: &str) -> Option<i64> = [Statement] concat!(
        "WITH gone AS (", release!(), " RETURNING c.bucket_type, c.bucket_value),
              recorded AS (
             INSERT INTO claims.change_sets (op, old_cell_id, actor, bucket_types, bucket_values, context, cell_role)
             SELECT 'destroy', :cell_id, :actor, array_agg(n.bucket_type), array_agg(n.bucket_value), ", said!(), "
               FROM (SELECT g.bucket_type, g.bucket_value, (row_number() OVER () - 1) / 1000 AS portion FROM gone g) n
              GROUP BY n.portion ORDER BY n.portion)
         SELECT count(*) FROM gone");
}

impl ReleaseTables for Local {
    fn release(&self, connection: &Connection, cell_id: i64, limit: i64, ends: &[(i32, Moment)]) -> Vec<OwnedName> {
        let locked: Vec<OwnedName> = lock_free(connection, cell_id, limit).into_iter().map(OwnedName::from).collect();
        kept::end_locked(connection, cell_id, &locked, ends);
        locked
    }

    fn release_in_bulk(&self, connection: &Connection, cell_id: i64, limit: i64, tells: bool) -> Option<i64> {
        match tells {
            true => release_and_tell(connection, cell_id, limit, &actor()),
            false => Some(release(connection, cell_id, limit) as i64),
        }
    }
}
