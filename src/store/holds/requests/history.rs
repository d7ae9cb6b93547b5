//! Statements on settled requests.

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Returns whether the entity has outstanding requests and no failed create.
    HAS_MORE(TEXTOID, TEXTOID) =
        "SELECT EXISTS (SELECT FROM claims.requests r
                         WHERE r.queue = $1 AND r.entity = $2 AND r.status IN ('new', 'in-progress'))
            AND coalesce((SELECT c.status <> 'error' FROM claims.requests c
                           WHERE c.queue = $1 AND c.entity = $2 AND c.request_type = 'create'), true)";
    /// Makes failed requests new. Releases before 1.2.0 may have left some of them blocked.
    RETRY(TEXTOID, TEXTOID) = concat!(
        "WITH failed AS MATERIALIZED (
             SELECT queue, id FROM claims.requests WHERE queue = $1 AND entity = $2 AND status = 'error'
              ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.requests r
            SET status = 'new', process_id = NULL, error = NULL, settled_at = NULL, blocked = false,
                entered_xid = pg_current_xact_id()
           FROM failed f WHERE ", is_row!("r.queue", "r.id", "f.queue", "f.id"), " RETURNING r.id");
    /// Deletes up to $3 old requests with ids above $4.
    PURGE(TEXTOID, TIMESTAMPTZOID, INT8OID, INT8OID) = concat!(
        "WITH old AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE queue = $1 AND status IN ('complete', 'error') AND settled_at <= $2 AND NOT unblock
                AND NOT (request_type = 'create' AND status = 'error') AND id > $4
              ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.requests r USING old o WHERE ", is_row!("r.queue", "r.id", "o.queue", "o.id"), " RETURNING r.id");
    /// Deletes up to $2 requests of all queues that were settled at $1 or earlier. A queue's requests are read from its first one up to
    /// the first that was recorded after $1, so this costs nothing where nothing is old.
    PURGE_OLD(TIMESTAMPTZOID, INT8OID) = concat!(
        "WITH RECURSIVE queues AS (
             (SELECT r.queue FROM claims.requests r ORDER BY r.queue LIMIT 1)
             UNION ALL
             SELECT (SELECT r.queue FROM claims.requests r WHERE r.queue > q.queue ORDER BY r.queue LIMIT 1) FROM queues q
              WHERE q.queue IS NOT NULL),
              bounds AS MATERIALIZED (
             SELECT q.queue, coalesce((SELECT r.id FROM claims.requests r WHERE r.queue = q.queue AND r.created_at > $1 ORDER BY r.id LIMIT 1),
                                      9223372036854775807) AS below
               FROM queues q WHERE q.queue IS NOT NULL),
              old AS MATERIALIZED (
             SELECT r.queue, r.id FROM bounds b JOIN claims.requests r ON r.queue = b.queue AND r.id < b.below
              WHERE r.status IN ('complete', 'error') AND r.settled_at <= $1 AND NOT r.unblock
                AND NOT (r.request_type = 'create' AND r.status = 'error')
              LIMIT $2 FOR UPDATE OF r SKIP LOCKED)
         DELETE FROM claims.requests r USING old o WHERE ", is_row!("r.queue", "r.id", "o.queue", "o.id"));
    /// Deletes up to $2 lost holds from $1 or earlier of processes that hold no requests any more.
    PURGE_OLD_LOST_HOLDS(TIMESTAMPTZOID, INT8OID) =
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds l WHERE l.lost_at <= $1
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = l.process_id AND r.status = 'in-progress')
              ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
    /// Deletes the lost holds from $2 or earlier of processes that hold no requests any more.
    PURGE_LOST_HOLDS(TEXTOID, TIMESTAMPTZOID) =
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds l WHERE l.queue = $1 AND l.lost_at <= $2
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = l.process_id AND r.status = 'in-progress')
              ORDER BY id FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
}

pub fn has_more(connection: &Connection, queue: &str, entity: &str) -> bool {
    let rows = connection.run(&HAS_MORE, View::Statement, [queue.into(), entity.into()]);
    rows.first(|row| row.must(1)).unwrap_or(false)
}

/// Makes failed requests new again. Returns their ids.
pub fn retry(connection: &Connection, queue: &str, entity: &str) -> Vec<i64> {
    connection.run(&RETRY, View::Statement, [queue.into(), entity.into()]).map(|row| row.must(1))
}

/// Deletes at most `limit` requests above an id that were settled at `before` or earlier. Returns their ids.
pub fn purge(connection: &Connection, queue: &str, before: Moment, limit: i64, after: i64) -> Vec<i64> {
    let values = [queue.into(), before.into(), limit.into(), after.into()];
    connection.run(&PURGE, View::Statement, values).map(|row| row.must(1))
}

/// Deletes lost holds from `before` or earlier that are no longer needed.
pub fn purge_lost_holds(connection: &Connection, queue: &str, before: Moment) {
    connection.run(&PURGE_LOST_HOLDS, View::Statement, [queue.into(), before.into()]);
}

/// Deletes at most `limit` requests of all queues that were settled at `before` or earlier, and as many lost holds that are no longer
/// needed. Returns the number of requests.
pub fn purge_old(connection: &Connection, before: Moment, limit: i64) -> usize {
    connection.run(&PURGE_OLD_LOST_HOLDS, View::Statement, [before.into(), limit.into()]);
    connection.run(&PURGE_OLD, View::Statement, [before.into(), limit.into()]).count()
}
