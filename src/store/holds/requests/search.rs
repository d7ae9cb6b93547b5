//! Statements that find requests to take.
//!
//! The search scans `ready`: new requests by queue and id, without updates that wait for their create. A candidate is
//! tested again after all outstanding requests of its entity are locked.

use std::ops::ControlFlow;

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::statement;

/// The predicate of the index requests_ready, literally.
macro_rules! ready {
    () => {
        " r.queue = $1 AND r.status = 'new' AND NOT r.blocked "
    };
}

/// The set of `ready`, as the predicate of the index requests_entered only.
macro_rules! entered {
    () => {
        " r.queue || '' = $1 AND r.settled_at IS NULL AND r.hold_until IS NULL AND NOT r.blocked "
    };
}

/// The holds, as the predicate of the index requests_held_since only.
macro_rules! held_since {
    () => {
        " r.queue || '' = $1 AND r.hold_until IS NOT NULL "
    };
}

/// A column of those requests in a set that entered it after snapshot $3: by transactions that began later, and by
/// those that were open then.
macro_rules! late {
    ($column:literal, $set:expr) => {
        concat!(
            "SELECT r.",
            $column,
            " FROM claims.requests r
              WHERE",
            $set,
            "AND r.entered_xid >= pg_snapshot_xmax($3::pg_snapshot)
                AND r.entered_xid < pg_snapshot_xmax(pg_current_snapshot())
             UNION ALL
             SELECT late.",
            $column,
            " FROM pg_snapshot_xip($3::pg_snapshot) AS open (xid)
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

statement! {
    /// Reads where the search begins. The columns are the current snapshot, the first ready request from id $2 on, and
    /// the first one below that entered after snapshot $3. Then follow the first end of a hold from $4 on, the first
    /// end of the holds made after snapshot $3, and whether there are creates to unblock.
    HORIZON(TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID) = concat!(
        "SELECT pg_current_snapshot()::text,
                (SELECT r.id FROM claims.requests r WHERE", ready!(), "AND r.id >= $2 ORDER BY r.id LIMIT 1),
                (SELECT min(late.id) FROM (", late!("id", entered!()), ") AS late WHERE late.id + 0 < $2),
                (SELECT r.hold_until FROM claims.requests r
                  WHERE r.queue = $1 AND r.hold_until >= $4 ORDER BY r.hold_until LIMIT 1),
                (SELECT min(late.hold_until) FROM (", late!("hold_until", held_since!()), ") AS late),
                EXISTS (SELECT FROM claims.requests r WHERE r.queue = $1 AND r.unblock)");
    /// Reads the entities with expired holds that can be taken, each with the first of its expired requests. Updates
    /// whose create was recorded while they were held wait for it.
    EXPIRED(TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID) =
        "SELECT min(r.id), r.entity FROM claims.requests r
          WHERE r.queue = $1 AND r.hold_until >= $4 AND r.hold_until <= $2 AND r.id > $3
            AND (r.request_type = 'create'
                 OR coalesce((SELECT c.status = 'complete' FROM claims.requests c
                               WHERE c.queue = r.queue AND c.entity = r.entity AND c.request_type = 'create'), true))
          GROUP BY r.entity ORDER BY min(r.id)";
    /// Locks the first ready request between ids $2 and $3 whose entity is not in $4 and can be taken. The tests are
    /// scalar subqueries, which the planner never turns into joins, so each is one index scan. A locked row is skipped.
    FIND(TEXTOID, INT8OID, INT8OID, TEXTARRAYOID, TIMESTAMPTZOID) = concat!(
        "SELECT r.id, r.entity FROM claims.requests r
          WHERE", ready!(), "AND r.id > $2 AND r.id < $3 AND r.entity <> ALL ($4)
            AND (r.request_type = 'create'
                 OR coalesce((SELECT c.status = 'complete' FROM claims.requests c
                               WHERE c.queue = r.queue AND c.entity = r.entity AND c.request_type = 'create'), true))
            AND (SELECT true FROM claims.requests h
                  WHERE h.queue = r.queue AND h.entity = r.entity AND h.status = 'in-progress'
                    AND coalesce(h.hold_until > $5, false)
                  LIMIT 1) IS NULL
          ORDER BY r.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED");
    /// Locks all outstanding requests of one entity. Returns the payload of request $4 only, by which the entity was
    /// found. In most cases there is no other request, and the size of other payloads is unknown before they are read.
    LOCK_ENTITY(TEXTOID, TEXTOID, TIMESTAMPTZOID, INT8OID) =
        "SELECT r.id, r.request_type = 'create', r.status = 'in-progress', coalesce(r.hold_until > $3, false),
                coalesce(r.entered_xid = pg_current_xact_id_if_assigned(), false),
                CASE WHEN r.id = $4 THEN r.payload::text END
           FROM claims.requests r
          WHERE r.queue = $1 AND r.entity = $2 AND r.status IN ('new', 'in-progress')
          ORDER BY r.id FOR NO KEY UPDATE NOWAIT";
    /// Reads the payloads of requests $2, which this transaction has locked, in the order of the array, which leads the
    /// join.
    PAYLOADS(TEXTOID, INT8ARRAYOID) = concat!(
        "SELECT r.id, r.payload::text
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
           JOIN claims.requests r ON ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
    /// Reads the create of an entity, and whether a process holds the entity beyond a transaction.
    ENTITY_STATE(TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "SELECT (SELECT c.status FROM claims.requests c
                  WHERE c.queue = $1 AND c.entity = $2 AND c.request_type = 'create'),
                EXISTS (SELECT FROM claims.requests h
                         WHERE h.queue = $1 AND h.entity = $2 AND h.status = 'in-progress'
                           AND coalesce(h.hold_until > $3, false))";
}

/// The start of a search.
#[derive(Default)]
pub struct Horizon {
    pub snapshot: String,
    /// The lowest ready request, or `None` if there is none.
    pub first: Option<i64>,
    /// The earliest end of a hold, or `None` if there is none.
    pub first_hold: Option<Moment>,
    pub has_marked: bool,
}

/// The cached start of an earlier search.
pub struct Cached {
    /// No ready request had a lower id.
    pub low: i64,
    /// No hold ended earlier.
    pub first_hold: Moment,
    /// The snapshot for which that was true, or `None` if nothing is cached.
    pub snapshot: Option<String>,
}

/// Returns the start of a search, from a cached one.
pub fn horizon(connection: &Connection, queue: &str, cached: &Cached) -> Horizon {
    let values = [queue.into(), cached.low.into(), cached.snapshot.as_deref().into(), cached.first_hold.into()];
    let rows = connection.run(&HORIZON, View::Statement, values);
    let horizon = rows.first(|row| Horizon {
        snapshot: row.must(1),
        first: [row.get::<i64>(2), row.get::<i64>(3)].into_iter().flatten().min(),
        first_hold: [row.get::<Moment>(4), row.get::<Moment>(5)].into_iter().flatten().min(),
        has_marked: row.must(6),
    });
    horizon.unwrap_or_default()
}

/// A request by which an entity may be taken.
pub struct Candidate {
    pub id: i64,
    pub entity: String,
}

/// Returns the entities with expired holds, none of which expired before `first_hold`.
pub fn expired(connection: &Connection, queue: &str, now: Moment, after: i64, first_hold: Moment) -> Vec<Candidate> {
    connection
        .run(&EXPIRED, View::Statement, [queue.into(), now.into(), after.into(), first_hold.into()])
        .map(|row| Candidate { id: row.must(1), entity: row.must(2) })
}

/// Returns the first candidate between two ids, locked.
pub fn find(
    connection: &Connection,
    queue: &str,
    between: (i64, i64),
    skipped: &[String],
    now: Moment,
) -> Option<Candidate> {
    let (after, before) = between;
    let values = [queue.into(), after.into(), before.into(), skipped.to_vec().into(), now.into()];
    let rows = connection.run(&FIND, View::Statement, values);
    rows.first(|row| Candidate { id: row.must(1), entity: row.must(2) })
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

/// Locks all outstanding requests of a candidate's entity. Raises an error at once if another transaction has locked
/// any of them.
pub fn lock_entity(connection: &Connection, queue: &str, candidate: &Candidate, now: Moment) -> Vec<Outstanding> {
    let values = [queue.into(), candidate.entity.as_str().into(), now.into(), candidate.id.into()];
    connection.run(&LOCK_ENTITY, View::Statement, values).map(|row| Outstanding {
        id: row.must(1),
        is_create: row.must(2),
        in_progress: row.must(3),
        held: row.must(4),
        own: row.must(5),
        payload: row.get(6),
    })
}

/// Calls `each` for the payloads of locked requests, one by one in the order of `ids`, until it returns Break.
pub fn payloads(
    connection: &Connection,
    queue: &str,
    ids: &[i64],
    mut each: impl FnMut(i64, Option<String>) -> ControlFlow<()>,
) {
    connection.walk(&PAYLOADS, [queue.into(), ids.to_vec().into()], false, |row| each(row.must(1), row.get(2)));
}

#[derive(Default)]
pub struct EntityState {
    /// The status of its create, if it has one.
    pub create: Option<String>,
    /// Whether a process holds it beyond a transaction.
    pub held: bool,
}

/// Returns the committed state of an entity.
pub fn entity_state(connection: &Connection, queue: &str, entity: &str, now: Moment) -> EntityState {
    let rows = connection.run(&ENTITY_STATE, View::Latest, [queue.into(), entity.into(), now.into()]);
    rows.first(|row| EntityState { create: row.get(1), held: row.must(2) }).unwrap_or_default()
}
