//! Statements on the orphans that recovery has found.

use uuid::Uuid;

use pg::spi::{Connection, View};
use pg::statement::statement;
use pg::uuid::pg_uuids;

statement! {
    /// Replaces the orphans of cell $1 at service $4 by $2; the service does not know the leases in $3. Skips rows that another pass is
    /// deleting. Orphans of a server that was renamed or dropped are replaced by those of any.
    REPLACE(INT8OID, UUIDARRAYOID, UUIDARRAYOID, TEXTOID) =
        "WITH over AS MATERIALIZED (
             SELECT o.lease_uuid FROM claims.seen_orphans o
              WHERE o.cell_id = $1 AND NOT o.lease_uuid = ANY ($2)
                AND (o.service = $4 OR o.service IS NULL OR NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = o.service::name))
                FOR UPDATE SKIP LOCKED),
              dropped AS (DELETE FROM claims.seen_orphans o USING over WHERE o.lease_uuid = over.lease_uuid)
         INSERT INTO claims.seen_orphans AS o (lease_uuid, cell_id, outcome, service)
         SELECT u, $1, CASE WHEN u = ANY ($3) THEN NULL ELSE 'rolled_back' END, $4 FROM unnest($2) AS u ORDER BY u
         ON CONFLICT (lease_uuid) DO UPDATE
            SET cell_id = excluded.cell_id, outcome = excluded.outcome, seen_at = excluded.seen_at, service = excluded.service";
}

/// Replaces the orphans that the previous pass of a cell at a service found by those of this pass.
pub fn replace(connection: &Connection, (cell_id, service): (i64, &str), orphans: &[Uuid], unknown: &[Uuid]) {
    let (orphans, unknown) = (pg_uuids(orphans.iter().copied()), pg_uuids(unknown.iter().copied()));
    connection.run(&REPLACE, View::Statement, [cell_id.into(), orphans, unknown, service.into()]);
}
