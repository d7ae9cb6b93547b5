//! Statements on the requests of a process: taken, held, settled.

use pgrx::Uuid as PgUuid;

use crate::kernel::sql_text::is_row;
use pg::clock::Moment;
use pg::query::{query, record};

record! {
    /// The numbers of requests that a process holds beyond a transaction.
    #[derive(Default)]
    pub struct Holds {
        pub held: i64,
        pub expired: i64,
        /// The number of other requests of the process that were taken over.
        pub lost: i64,
    }

    /// A request that a process holds beyond a transaction.
    pub struct HeldRequest {
        pub queue: String,
        pub id: i64,
        pub entity: String,
        pub is_create: bool,
    }
}

macro_rules! settle {
    () => {
        "UPDATE claims.requests r
            SET status = CASE WHEN :error IS NULL THEN 'complete' ELSE 'error' END, process_id = :process, error = :error,
                settled_at = :now, attempts = attempts + (r.status = 'new')::int, hold_until = NULL, blocked = false"
    };
}

query! {
    /// Makes requests with an expired hold new in the table. Searches already treat them as new.
    pub fn renew(queue: &str, ids: &[i64]) = [Statement] concat!(
        "UPDATE claims.requests r SET status = 'new', process_id = NULL, hold_until = NULL, entered_xid = pg_current_xact_id()
           FROM (SELECT :queue AS queue, id FROM unnest(:ids) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"), " AND r.hold_until IS NOT NULL");
    pub fn hold(queue: &str, ids: &[i64], process: PgUuid, until: Moment) = [Statement] concat!(
        "UPDATE claims.requests r SET status = 'in-progress', process_id = :process, hold_until = :until, attempts = attempts + 1,
                entered_xid = pg_current_xact_id()
           FROM (SELECT :queue AS queue, id FROM unnest(:ids) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
    /// Counts the requests that a process holds beyond a transaction, its expired holds, and those that were taken
    /// over.
    pub fn holds(process: PgUuid, now: Moment) -> Option<Holds> = [Statement]
        "SELECT count(*) FILTER (WHERE hold_until > :now) AS held, count(*) FILTER (WHERE hold_until <= :now) AS expired,
                (SELECT coalesce(sum(l.requests), 0)::bigint FROM claims.lost_holds l WHERE l.process_id = :process) AS lost
           FROM claims.requests WHERE process_id = :process AND status = 'in-progress'";
    /// Records that a process takes over expired holds of others.
    pub fn record_lost_holds(queue: &str, expired: &[i64], process: PgUuid) = [Statement] concat!(
        "INSERT INTO claims.lost_holds (queue, process_id, requests)
         SELECT :queue, r.process_id, count(*)
           FROM (SELECT :queue AS queue, id FROM unnest(:expired) AS id OFFSET 0) AS m
           JOIN claims.requests r ON ", is_row!("r.queue", "r.id", "m.queue", "m.id"), "
          WHERE r.hold_until IS NOT NULL AND r.process_id <> :process GROUP BY r.process_id");
    /// Deletes the lost holds of a process that holds only these requests of the queue: it starts again with them.
    pub fn forget_lost_holds(process: PgUuid, queue: &str, ids: &[i64]) = [Statement]
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds WHERE process_id = :process
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = :process AND r.status = 'in-progress'
                                   AND (r.queue <> :queue OR r.id <> ALL (:ids)))
              ORDER BY id FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
    /// Locks the requests that a process holds beyond a transaction.
    pub fn lock_held(process: PgUuid, now: Moment) -> Vec<HeldRequest> = [Statement]
        "SELECT queue, id, entity, request_type = 'create' AS is_create FROM claims.requests
          WHERE process_id = :process AND status = 'in-progress' AND coalesce(hold_until > :now, false)
          ORDER BY id FOR NO KEY UPDATE";
    /// Settles requests that this transaction has locked. Returns their number. The attempts of held requests were
    /// counted when they were taken. An update that became visible after the search may still be blocked: a settled one
    /// never is, or a retry would make it new, and no search would find it.
    pub fn settle_all(queue: &str, ids: &[i64], process: PgUuid, error: Option<&str>, now: Moment) -> usize = [Statement] concat!(
        settle!(), " FROM (SELECT :queue AS queue, id FROM unnest(:ids) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"), " AND r.settled_at IS NULL");
    /// Like [`settle_all`], for one request: without a join.
    pub fn settle_one(queue: &str, id: i64, process: PgUuid, error: Option<&str>, now: Moment) -> usize = [Statement] concat!(
        settle!(), " WHERE r.queue = :queue AND r.id = :id AND r.settled_at IS NULL");
    pub fn extend(process: PgUuid, now: Moment, until: Moment) -> usize = [Statement] concat!(
        "WITH mine AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE process_id = :process AND status = 'in-progress' AND coalesce(hold_until > :now, false)
              ORDER BY id FOR NO KEY UPDATE)
         UPDATE claims.requests r SET hold_until = greatest(hold_until, :until)
           FROM mine m WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
}
