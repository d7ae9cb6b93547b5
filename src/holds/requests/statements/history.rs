//! Statements on settled requests.

use crate::kernel::sql_text::is_row;
use pg::clock::Moment;
use pg::query::query;

query! {
    /// Returns whether the entity has outstanding requests and no failed create.
    pub fn has_more(queue: &str, entity: &str) -> bool = [Statement]
        "SELECT EXISTS (SELECT FROM claims.requests r
                         WHERE r.queue = :queue AND r.entity = :entity AND r.status IN ('new', 'in-progress'))
            AND coalesce((SELECT c.status <> 'error' FROM claims.requests c
                           WHERE c.queue = :queue AND c.entity = :entity AND c.request_type = 'create'), true)";
    /// Makes failed requests new again. Returns their ids. Releases before 1.2.0 may have left some of them blocked.
    pub fn retry(queue: &str, entity: &str) -> Vec<i64> = [Statement] concat!(
        "WITH failed AS MATERIALIZED (
             SELECT queue, id FROM claims.requests WHERE queue = :queue AND entity = :entity AND status = 'error'
              ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.requests r
            SET status = 'new', process_id = NULL, error = NULL, settled_at = NULL, blocked = false,
                entered_xid = pg_current_xact_id()
           FROM failed f WHERE ", is_row!("r.queue", "r.id", "f.queue", "f.id"), " RETURNING r.id");
    /// Deletes at most `most` requests above an id that were settled at `before` or earlier. Returns their ids.
    pub fn purge(queue: &str, before: Moment, most: i64, after: i64) -> Vec<i64> = [Statement] concat!(
        "WITH old AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE queue = :queue AND status IN ('complete', 'error') AND settled_at <= :before AND NOT unblock
                AND NOT (request_type = 'create' AND status = 'error') AND id > :after
              ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.requests r USING old o WHERE ", is_row!("r.queue", "r.id", "o.queue", "o.id"), " RETURNING r.id");
    /// Deletes at most `most` requests of all queues that were settled at `before` or earlier. A queue's requests are read from its first
    /// one up to the first that was recorded after `before`, so this costs nothing where nothing is old.
    pub fn purge_old(before: Moment, most: i64) -> usize = [Statement] concat!(
        "WITH RECURSIVE queues AS (
             (SELECT r.queue FROM claims.requests r ORDER BY r.queue LIMIT 1)
             UNION ALL
             SELECT (SELECT r.queue FROM claims.requests r WHERE r.queue > q.queue ORDER BY r.queue LIMIT 1) FROM queues q
              WHERE q.queue IS NOT NULL),
              bounds AS MATERIALIZED (
             SELECT q.queue, coalesce((SELECT r.id FROM claims.requests r WHERE r.queue = q.queue AND r.created_at > :before ORDER BY r.id LIMIT 1),
                                      9223372036854775807) AS below
               FROM queues q WHERE q.queue IS NOT NULL),
              old AS MATERIALIZED (
             SELECT r.queue, r.id FROM bounds b JOIN claims.requests r ON r.queue = b.queue AND r.id < b.below
              WHERE r.status IN ('complete', 'error') AND r.settled_at <= :before AND NOT r.unblock
                AND NOT (r.request_type = 'create' AND r.status = 'error')
              LIMIT :most FOR UPDATE OF r SKIP LOCKED)
         DELETE FROM claims.requests r USING old o WHERE ", is_row!("r.queue", "r.id", "o.queue", "o.id"));
    /// Deletes at most `most` lost holds from `before` or earlier of processes that hold no requests any more.
    pub fn purge_old_lost_holds(before: Moment, most: i64) = [Statement]
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds l WHERE l.lost_at <= :before
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = l.process_id AND r.status = 'in-progress')
              ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
    /// Deletes a queue's lost holds from `before` or earlier of processes that hold no requests any more.
    pub fn purge_lost_holds(queue: &str, before: Moment) = [Statement]
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds l WHERE l.queue = :queue AND l.lost_at <= :before
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = l.process_id AND r.status = 'in-progress')
              ORDER BY id FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
}
