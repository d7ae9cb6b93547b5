//! Statements on the orphans that recovery has found.

use uuid::Uuid;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;
use crate::pg::uuid::pg_uuids;

statement! {
    /// The orphans of cell $1 are $2 from now on; of those the service does not know $3. Rows that another pass is dropping are its
    /// business.
    KEEP(INT8OID, UUIDARRAYOID, UUIDARRAYOID) =
        "WITH over AS MATERIALIZED (
             SELECT o.lease_uuid FROM claims.seen_orphans o WHERE o.cell_id = $1 AND NOT o.lease_uuid = ANY ($2) FOR UPDATE SKIP LOCKED),
              dropped AS (DELETE FROM claims.seen_orphans o USING over WHERE o.lease_uuid = over.lease_uuid)
         INSERT INTO claims.seen_orphans AS o (lease_uuid, cell_id, outcome)
         SELECT u, $1, CASE WHEN u = ANY ($3) THEN NULL ELSE 'rolled_back' END FROM unnest($2) AS u ORDER BY u
         ON CONFLICT (lease_uuid) DO UPDATE SET cell_id = excluded.cell_id, outcome = excluded.outcome, seen_at = excluded.seen_at";
}

/// Takes down what a pass has found in place of what one before it had.
pub fn keep(connection: &Connection, cell_id: i64, orphans: &[Uuid], unknown: &[Uuid]) {
    let values = [cell_id.into(), pg_uuids(orphans.iter().copied()), pg_uuids(unknown.iter().copied())];
    connection.run(&KEEP, View::Statement, values);
}
