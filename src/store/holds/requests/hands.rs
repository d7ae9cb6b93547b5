//! Statements on the requests of a process: taken, held, settled.

use pgrx::Uuid as PgUuid;

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Makes requests with an expired hold new in the table. Searches already treat them as new.
    RENEW(TEXTOID, INT8ARRAYOID) = concat!(
        "UPDATE claims.requests r SET status = 'new', process_id = NULL, hold_until = NULL, entered_xid = pg_current_xact_id()
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"), " AND r.hold_until IS NOT NULL");
    HOLD(TEXTOID, INT8ARRAYOID, UUIDOID, TIMESTAMPTZOID) = concat!(
        "UPDATE claims.requests r SET status = 'in-progress', process_id = $3, hold_until = $4, attempts = attempts + 1,
                entered_xid = pg_current_xact_id()
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
    /// Counts the requests that a process holds beyond a transaction, its expired holds, and those that were taken
    /// over.
    HOLDS(UUIDOID, TIMESTAMPTZOID) =
        "SELECT count(*) FILTER (WHERE hold_until > $2), count(*) FILTER (WHERE hold_until <= $2),
                (SELECT coalesce(sum(l.requests), 0)::bigint FROM claims.lost_holds l WHERE l.process_id = $1)
           FROM claims.requests WHERE process_id = $1 AND status = 'in-progress'";
    /// Records the loss of expired holds of $2 that process $3 takes over.
    RECORD_LOST_HOLDS(TEXTOID, INT8ARRAYOID, UUIDOID) = concat!(
        "INSERT INTO claims.lost_holds (queue, process_id, requests)
         SELECT $1, r.process_id, count(*)
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
           JOIN claims.requests r ON ", is_row!("r.queue", "r.id", "m.queue", "m.id"), "
          WHERE r.hold_until IS NOT NULL AND r.process_id <> $3 GROUP BY r.process_id");
    /// Deletes the lost holds of a process that holds only the requests $2 of queue $3: it starts again with them.
    FORGET_LOST_HOLDS(UUIDOID, INT8ARRAYOID, TEXTOID) =
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds WHERE process_id = $1
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = $1 AND r.status = 'in-progress'
                                   AND (r.queue <> $3 OR r.id <> ALL ($2)))
              ORDER BY id FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
    LOCK_HELD(UUIDOID, TIMESTAMPTZOID) =
        "SELECT queue, id, entity, request_type = 'create' FROM claims.requests
          WHERE process_id = $1 AND status = 'in-progress' AND coalesce(hold_until > $2, false)
          ORDER BY id FOR NO KEY UPDATE";
    /// Settles requests that this transaction has locked. The attempts of held requests were counted when they were
    /// taken. An update that became visible after the search may still be blocked: a settled one never is, or a retry
    /// would make it new, and no search would find it.
    SETTLE(TEXTOID, INT8ARRAYOID, UUIDOID, TEXTOID, TIMESTAMPTZOID) = concat!(
        "UPDATE claims.requests r
            SET status = CASE WHEN $4 IS NULL THEN 'complete' ELSE 'error' END, process_id = $3, error = $4,
                settled_at = $5, attempts = attempts + (r.status = 'new')::int, hold_until = NULL, blocked = false
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"), " AND r.settled_at IS NULL");
    EXTEND(UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID) = concat!(
        "WITH mine AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE process_id = $1 AND status = 'in-progress' AND coalesce(hold_until > $2, false)
              ORDER BY id FOR NO KEY UPDATE)
         UPDATE claims.requests r SET hold_until = greatest(hold_until, $3)
           FROM mine m WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
}

pub fn renew(connection: &Connection, queue: &str, ids: &[i64]) {
    connection.run(&RENEW, View::Statement, [queue.into(), ids.to_vec().into()]);
}

pub fn hold(connection: &Connection, queue: &str, ids: &[i64], process: PgUuid, until: Moment) {
    connection.run(&HOLD, View::Statement, [queue.into(), ids.to_vec().into(), process.into(), until.into()]);
}

/// The numbers of requests that a process holds beyond a transaction.
#[derive(Default)]
pub struct Holds {
    pub held: i64,
    pub expired: i64,
    /// The number of other requests of the process that were taken over.
    pub lost: i64,
}

pub fn holds(connection: &Connection, process: PgUuid, now: Moment) -> Holds {
    let rows = connection.run(&HOLDS, View::Statement, [process.into(), now.into()]);
    rows.first(|row| Holds { held: row.must(1), expired: row.must(2), lost: row.must(3) }).unwrap_or_default()
}

/// Records that this process takes over expired holds of others.
pub fn record_lost_holds(connection: &Connection, queue: &str, expired: &[i64], process: PgUuid) {
    connection.run(&RECORD_LOST_HOLDS, View::Statement, [queue.into(), expired.to_vec().into(), process.into()]);
}

/// Deletes the lost holds of a process if it holds only these requests.
pub fn forget_lost_holds(connection: &Connection, process: PgUuid, queue: &str, ids: &[i64]) {
    connection.run(&FORGET_LOST_HOLDS, View::Statement, [process.into(), ids.to_vec().into(), queue.into()]);
}

/// Requests of one entity that one process has taken.
pub struct InHand {
    pub queue: String,
    pub entity: String,
    pub is_create: bool,
    pub ids: Vec<i64>,
}

/// Locks the requests that a process holds beyond a transaction.
pub fn lock_held(connection: &Connection, process: PgUuid, now: Moment) -> Vec<InHand> {
    let rows = connection.run(&LOCK_HELD, View::Statement, [process.into(), now.into()]);
    rows.map(|row| InHand { queue: row.must(1), ids: vec![row.must(2)], entity: row.must(3), is_create: row.must(4) })
}

/// Settles the requests taken of an entity. Returns their number.
pub fn settle(connection: &Connection, hand: &InHand, process: PgUuid, error: Option<&str>, now: Moment) -> usize {
    let values = [(*hand.queue).into(), hand.ids.clone().into(), process.into(), error.into(), now.into()];
    connection.run(&SETTLE, View::Statement, values).count()
}

pub fn extend(connection: &Connection, process: PgUuid, now: Moment, until: Moment) -> usize {
    connection.run(&EXTEND, View::Statement, [process.into(), now.into(), until.into()]).count()
}
