//! Statements that record requests, and statements on the creates that updates wait for.
//!
//! Waiting updates are read and changed with the latest snapshot. An old snapshot shows neither all of them nor the
//! current marks, and changing a row that has changed since would raise an error.

use crate::kernel::sql_text::is_row;
use pg::jsonb::Jsonb;
use pg::query::{query, record};

record! {
    /// A complete create that is marked.
    pub struct Marked {
        pub entity: String,
        /// Whether some of the entity's updates are blocked.
        pub is_waited_for: bool,
        /// The first blocked update after the id of the argument.
        pub first: Option<i64>,
    }
}

const CREATE_STATUS: &str =
    "SELECT status FROM claims.requests WHERE queue = :queue AND entity = :entity AND request_type = 'create'";

query! {
    /// Records a request. Returns `None` if the entity already has a create.
    pub fn enqueue(queue: &str, entity: &str, request_type: &str, payload: Option<Jsonb>, blocked: bool) -> Option<i64> = [Statement]
        "INSERT INTO claims.requests (queue, entity, request_type, payload, blocked)
         VALUES (:queue, :entity, :request_type, :payload, :blocked)
         ON CONFLICT (queue, entity) WHERE request_type = 'create' DO NOTHING RETURNING id";
    /// Returns the status of the entity's create, if it has one.
    pub fn create_status(queue: &str, entity: &str) -> Option<String> = [Statement] CREATE_STATUS;
    /// Returns the committed status of the entity's create, if it has one.
    pub fn latest_create_status(queue: &str, entity: &str) -> Option<String> = [Latest] CREATE_STATUS;
    /// Locks the entity's create, so that it is not settled unnoticed while an update that waits for it is being
    /// recorded. Returns false if another transaction is closing it or has closed it.
    pub fn lock_create(queue: &str, entity: &str) -> bool = [Statement]
        "SELECT FROM claims.requests WHERE queue = :queue AND entity = :entity AND request_type = 'create'
            FOR KEY SHARE SKIP LOCKED";
    /// Prevents recording updates that wait for this create until this transaction ends. Returns false if one is being
    /// recorded.
    pub fn close_create(queue: &str, entity: &str) -> bool = [LatestToWrite]
        "SELECT FROM claims.requests WHERE queue = :queue AND entity = :entity AND request_type = 'create' FOR UPDATE SKIP LOCKED";
    /// Unblocks the entity's updates. Returns their ids.
    pub fn unblock(queue: &str, entity: &str) -> Vec<i64> = [LatestToWrite] concat!(
        "WITH waiting AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE queue = :queue AND entity = :entity AND status IN ('new', 'in-progress') AND blocked
              ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.requests r SET blocked = false, entered_xid = pg_current_xact_id()
           FROM waiting w WHERE ", is_row!("r.queue", "r.id", "w.queue", "w.id"), " RETURNING r.id");
    /// Returns whether some of the entity's updates are still blocked.
    pub fn has_blocked(queue: &str, entity: &str) -> bool = [Latest]
        "SELECT EXISTS (SELECT FROM claims.requests r
                         WHERE r.queue = :queue AND r.entity = :entity AND r.status IN ('new', 'in-progress') AND r.blocked)";
    /// Marks a complete create whose updates may still have to be unblocked, or removes the mark.
    pub fn mark_create(queue: &str, entity: &str, marked: bool) = [LatestToWrite]
        "UPDATE claims.requests SET unblock = :marked
          WHERE queue = :queue AND entity = :entity AND request_type = 'create' AND status = 'complete' AND unblock <> :marked";
    /// Returns marked creates, at most 1000.
    pub fn marked_creates(queue: &str, after: i64) -> Vec<Marked> = [Latest]
        "SELECT c.entity,
                EXISTS (SELECT FROM claims.requests b
                         WHERE b.queue = c.queue AND b.entity = c.entity AND b.status IN ('new', 'in-progress') AND b.blocked)
                    AS is_waited_for,
                (SELECT b.id FROM claims.requests b
                  WHERE b.queue = c.queue AND b.entity = c.entity AND b.status IN ('new', 'in-progress') AND b.blocked
                    AND b.id > :after
                  ORDER BY b.id LIMIT 1) AS first
           FROM claims.requests c WHERE c.queue = :queue AND c.unblock ORDER BY c.id LIMIT 1000";
    pub fn notify(queue: &str) = [Statement] "SELECT pg_notify('claims_requests', :queue)";
}
