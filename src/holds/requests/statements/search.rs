//! Statements that find requests to take.
//!
//! The search scans `ready`: new requests by queue and id, without updates that wait for their create. A candidate is
//! tested again after all outstanding requests of its entity are locked.

use crate::kernel::sql_text::is_row;
use pg::clock::Moment;
use pg::query::{query, record, walk};

/// The predicate of the index requests_ready, literally.
macro_rules! ready {
    () => {
        " r.queue = :queue AND r.status = 'new' AND NOT r.blocked "
    };
}

/// The set of `ready`, as the predicate of the index requests_entered only.
macro_rules! entered {
    () => {
        " r.queue || '' = :queue AND r.settled_at IS NULL AND r.hold_until IS NULL AND NOT r.blocked "
    };
}

/// The holds, as the predicate of the index requests_held_since only.
macro_rules! held_since {
    () => {
        " r.queue || '' = :queue AND r.hold_until IS NOT NULL "
    };
}

/// A column of those requests in a set that entered it after the snapshot `:snapshot`: by transactions that began later, and by
/// those that were open then.
macro_rules! late {
    ($column:literal, $set:expr) => {
        concat!(
            "SELECT r.",
            $column,
            " FROM claims.requests r
              WHERE",
            $set,
            "AND r.entered_xid >= pg_snapshot_xmax(:snapshot::pg_snapshot)
                AND r.entered_xid < pg_snapshot_xmax(pg_current_snapshot())
             UNION ALL
             SELECT late.",
            $column,
            " FROM pg_snapshot_xip(:snapshot::pg_snapshot) AS open (xid)
              CROSS JOIN LATERAL (SELECT r.",
            $column,
            " FROM claims.requests r
                                   WHERE",
            $set,
            "AND r.entered_xid = open.xid OFFSET 0) AS late
              WHERE pg_visible_in_snapshot(open.xid, pg_current_snapshot())"
        )
    };
}

record! {
    /// Where a search begins. Of each pair the first is from the cached start on, the second what has entered since.
    pub struct Start {
        pub snapshot: String,
        /// The lowest ready request.
        pub first: Option<i64>,
        pub first_late: Option<i64>,
        /// The earliest end of a hold.
        pub first_hold: Option<Moment>,
        pub first_late_hold: Option<Moment>,
        pub has_marked: bool,
    }

    /// A request by which an entity may be taken.
    pub struct Candidate {
        pub id: i64,
        pub entity: String,
    }

    /// An outstanding request that this transaction has locked.
    pub struct Outstanding {
        pub id: i64,
        pub is_create: bool,
        pub in_progress: bool,
        /// Whether its hold has not expired.
        pub held: bool,
        /// Whether this transaction has recorded it, so that no other session sees it.
        pub own: bool,
        /// The payload of the candidate's own request.
        pub payload: Option<String>,
    }

    #[derive(Default)]
    pub struct EntityState {
        /// The status of its create, if it has one.
        pub create: Option<String>,
        /// Whether a process holds it beyond a transaction.
        pub held: bool,
    }

    pub struct Payload {
        pub id: i64,
        pub payload: Option<String>,
    }
}

query! {
    /// Returns where a search begins: at id `low` and the end of a hold `hold` for what the snapshot shows, and at what has entered since.
    pub fn start(queue: &str, low: i64, snapshot: Option<&str>, hold: Moment) -> Option<Start> = [Statement] concat!(
        "SELECT pg_current_snapshot()::text AS snapshot,
                (SELECT r.id FROM claims.requests r WHERE", ready!(), "AND r.id >= :low ORDER BY r.id LIMIT 1) AS first,
                (SELECT min(late.id) FROM (", late!("id", entered!()), ") AS late WHERE late.id + 0 < :low) AS first_late,
                (SELECT r.hold_until FROM claims.requests r
                  WHERE r.queue = :queue AND r.hold_until >= :hold ORDER BY r.hold_until LIMIT 1) AS first_hold,
                (SELECT min(late.hold_until) FROM (", late!("hold_until", held_since!()), ") AS late) AS first_late_hold,
                EXISTS (SELECT FROM claims.requests r WHERE r.queue = :queue AND r.unblock) AS has_marked");
    /// Returns the entities with expired holds that can be taken, none of which expired before `first_hold`, each with the first of its
    /// expired requests. Updates whose create was recorded while they were held wait for it.
    pub fn expired(queue: &str, now: Moment, after: i64, first_hold: Moment) -> Vec<Candidate> = [Statement]
        "SELECT min(r.id) AS id, r.entity FROM claims.requests r
          WHERE r.queue = :queue AND r.hold_until >= :first_hold AND r.hold_until <= :now AND r.id > :after
            AND (r.request_type = 'create'
                 OR coalesce((SELECT c.status = 'complete' FROM claims.requests c
                               WHERE c.queue = r.queue AND c.entity = r.entity AND c.request_type = 'create'), true))
          GROUP BY r.entity ORDER BY min(r.id)";
    /// Locks the first ready request between two ids whose entity is not skipped and can be taken. The tests are scalar
    /// subqueries, which the planner never turns into joins, so each is one index scan. A locked row is skipped.
    pub fn find(queue: &str, after: i64, before: i64, skipped: &[String], now: Moment) -> Option<Candidate> = [Statement] concat!(
        "SELECT r.id, r.entity FROM claims.requests r
          WHERE", ready!(), "AND r.id > :after AND r.id < :before AND r.entity <> ALL (:skipped)
            AND (r.request_type = 'create'
                 OR coalesce((SELECT c.status = 'complete' FROM claims.requests c
                               WHERE c.queue = r.queue AND c.entity = r.entity AND c.request_type = 'create'), true))
            AND (SELECT true FROM claims.requests h
                  WHERE h.queue = r.queue AND h.entity = r.entity AND h.status = 'in-progress'
                    AND coalesce(h.hold_until > :now, false)
                  LIMIT 1) IS NULL
          ORDER BY r.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED");
    /// Locks all outstanding requests of one entity. Raises an error at once if another transaction has locked any of them.
    /// Returns the payload of the candidate only, by which the entity was found. In most cases there is no other
    /// request, and the size of other payloads is unknown before they are read.
    pub fn lock_entity(queue: &str, entity: &str, now: Moment, candidate: i64) -> Vec<Outstanding> = [Statement]
        "SELECT r.id, r.request_type = 'create' AS is_create, r.status = 'in-progress' AS in_progress,
                coalesce(r.hold_until > :now, false) AS held,
                coalesce(r.entered_xid = pg_current_xact_id_if_assigned(), false) AS own,
                CASE WHEN r.id = :candidate THEN r.payload::text END AS payload
           FROM claims.requests r
          WHERE r.queue = :queue AND r.entity = :entity AND r.status IN ('new', 'in-progress')
          ORDER BY r.id FOR NO KEY UPDATE NOWAIT";
    /// Returns the committed state of an entity.
    pub fn entity_state(queue: &str, entity: &str, now: Moment) -> Option<EntityState> = [Latest]
        "SELECT (SELECT c.status FROM claims.requests c
                  WHERE c.queue = :queue AND c.entity = :entity AND c.request_type = 'create') AS create,
                EXISTS (SELECT FROM claims.requests h
                         WHERE h.queue = :queue AND h.entity = :entity AND h.status = 'in-progress'
                           AND coalesce(h.hold_until > :now, false)) AS held";
}

walk! {
    /// Calls `each` for the payloads of locked requests, one by one in the order of `ids`, which leads the join.
    pub fn payloads(queue: &str, ids: &[i64]) -> Payload = [Statement] concat!(
        "SELECT r.id, r.payload::text AS payload
           FROM (SELECT :queue AS queue, id FROM unnest(:ids) AS id OFFSET 0) AS m
           JOIN claims.requests r ON ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
}
