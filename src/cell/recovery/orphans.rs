//! The statement on the orphans that recovery has found.

use uuid::Uuid;

use pg::query::query;

query! {
    /// Replaces the orphans that the previous pass of a cell at a service found by those of this pass; the service does not know the leases
    /// in `unknown`. Skips rows that another pass is deleting. Orphans of a server that was renamed or dropped are replaced by those of any.
    pub fn replace(cell_id: i64, service: &str, orphans: &[Uuid], unknown: &[Uuid]) = [Statement]
        "WITH over AS MATERIALIZED (
             SELECT o.lease_uuid FROM claims.seen_orphans o
              WHERE o.cell_id = :cell_id AND NOT o.lease_uuid = ANY (:orphans)
                AND (o.service = :service OR o.service IS NULL
                     OR NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = o.service::name))
                FOR UPDATE SKIP LOCKED),
              dropped AS (DELETE FROM claims.seen_orphans o USING over WHERE o.lease_uuid = over.lease_uuid)
         INSERT INTO claims.seen_orphans AS o (lease_uuid, cell_id, outcome, service)
         SELECT u, :cell_id, CASE WHEN u = ANY (:unknown) THEN NULL ELSE 'rolled_back' END, :service FROM unnest(:orphans) AS u ORDER BY u
         ON CONFLICT (lease_uuid) DO UPDATE
            SET cell_id = excluded.cell_id, outcome = excluded.outcome, seen_at = excluded.seen_at, service = excluded.service";
}
