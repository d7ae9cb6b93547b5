//! Statements that record requests, and statements on the creates that updates wait for.
//!
//! Waiting updates are read and changed with the latest snapshot. An old snapshot shows neither all of them nor the
//! current marks, and changing a row that has changed since would raise an error.

use pg::jsonb::Jsonb;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    ENQUEUE(TEXTOID, TEXTOID, TEXTOID, JSONBOID, BOOLOID) =
        "INSERT INTO claims.requests (queue, entity, request_type, payload, blocked) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (queue, entity) WHERE request_type = 'create' DO NOTHING RETURNING id";
    CREATE_STATUS(TEXTOID, TEXTOID) =
        "SELECT status FROM claims.requests WHERE queue = $1 AND entity = $2 AND request_type = 'create'";
    /// Locks a create, so that it is not settled unnoticed while an update that waits for it is being recorded.
    LOCK_CREATE(TEXTOID, TEXTOID) =
        "SELECT FROM claims.requests WHERE queue = $1 AND entity = $2 AND request_type = 'create'
            FOR KEY SHARE SKIP LOCKED";
    /// Locks a create against sessions that record updates that wait for it, unless one is doing so now.
    CLOSE_CREATE(TEXTOID, TEXTOID) =
        "SELECT FROM claims.requests WHERE queue = $1 AND entity = $2 AND request_type = 'create' FOR UPDATE SKIP LOCKED";
    UNBLOCK(TEXTOID, TEXTOID) = concat!(
        "WITH waiting AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE queue = $1 AND entity = $2 AND status IN ('new', 'in-progress') AND blocked
              ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.requests r SET blocked = false, entered_xid = pg_current_xact_id()
           FROM waiting w WHERE ", is_row!("r.queue", "r.id", "w.queue", "w.id"), " RETURNING r.id");
    BLOCKED(TEXTOID, TEXTOID) =
        "SELECT EXISTS (SELECT FROM claims.requests r
                         WHERE r.queue = $1 AND r.entity = $2 AND r.status IN ('new', 'in-progress') AND r.blocked)";
    MARK_CREATE(TEXTOID, TEXTOID, BOOLOID) =
        "UPDATE claims.requests SET unblock = $3
          WHERE queue = $1 AND entity = $2 AND request_type = 'create' AND status = 'complete' AND unblock <> $3";
    /// Reads marked creates, whether updates wait for each, and the first of these updates after $2.
    MARKED_CREATES(TEXTOID, INT8OID) =
        "SELECT c.entity,
                EXISTS (SELECT FROM claims.requests b
                         WHERE b.queue = c.queue AND b.entity = c.entity AND b.status IN ('new', 'in-progress') AND b.blocked),
                (SELECT b.id FROM claims.requests b
                  WHERE b.queue = c.queue AND b.entity = c.entity AND b.status IN ('new', 'in-progress') AND b.blocked
                    AND b.id > $2
                  ORDER BY b.id LIMIT 1)
           FROM claims.requests c WHERE c.queue = $1 AND c.unblock ORDER BY c.id LIMIT 1000";
    NOTIFY(TEXTOID) = "SELECT pg_notify('claims_requests', $1)";
}

/// Records a request. Returns `None` if the entity already has a create.
pub fn enqueue(
    connection: &Connection,
    queue: &str,
    entity: &str,
    request_type: &str,
    payload: Option<Jsonb>,
    blocked: bool,
) -> Option<i64> {
    let values = [queue.into(), entity.into(), request_type.into(), payload.into(), blocked.into()];
    connection.run(&ENQUEUE, View::Statement, values).first(|row| row.must(1))
}

/// Returns the status of the entity's create, if it has one.
pub fn create_status(connection: &Connection, queue: &str, entity: &str, view: View) -> Option<String> {
    connection.run(&CREATE_STATUS, view, [queue.into(), entity.into()]).first(|row| row.must(1))
}

/// Prevents closing the entity's create until this transaction ends. Returns false if another transaction is closing it
/// or has closed it.
pub fn lock_create(connection: &Connection, queue: &str, entity: &str) -> bool {
    connection.run(&LOCK_CREATE, View::Statement, [queue.into(), entity.into()]).count() == 1
}

/// Prevents recording updates that wait for this create until this transaction ends. Returns false if one is being
/// recorded.
pub fn close_create(connection: &Connection, queue: &str, entity: &str) -> bool {
    connection.run(&CLOSE_CREATE, View::LatestToWrite, [queue.into(), entity.into()]).count() == 1
}

/// Unblocks the entity's updates. Returns the first of those that were blocked.
pub fn unblock(connection: &Connection, queue: &str, entity: &str) -> Option<i64> {
    connection
        .run(&UNBLOCK, View::LatestToWrite, [queue.into(), entity.into()])
        .map(|row| row.must(1))
        .into_iter()
        .min()
}

/// Returns whether some of the entity's updates are still blocked.
pub fn has_blocked(connection: &Connection, queue: &str, entity: &str) -> bool {
    let rows = connection.run(&BLOCKED, View::Latest, [queue.into(), entity.into()]);
    rows.first(|row| row.must(1)).unwrap_or(false)
}

/// Marks a complete create whose updates may still have to be unblocked, or removes the mark.
pub fn mark_create(connection: &Connection, queue: &str, entity: &str, marked: bool) {
    connection.run(&MARK_CREATE, View::LatestToWrite, [queue.into(), entity.into(), marked.into()]);
}

/// A complete create that is marked.
pub struct Marked {
    pub entity: String,
    /// Whether some of the entity's updates are blocked.
    pub is_waited_for: bool,
    /// The first blocked update after the id of the argument.
    pub first: Option<i64>,
}

pub fn marked_creates(connection: &Connection, queue: &str, after: i64) -> Vec<Marked> {
    let rows = connection.run(&MARKED_CREATES, View::Latest, [queue.into(), after.into()]);
    rows.map(|row| Marked { entity: row.must(1), is_waited_for: row.must(2), first: row.get(3) })
}

pub fn notify(connection: &Connection, queue: &str) {
    connection.run(&NOTIFY, View::Statement, [queue.into()]);
}
