//! Statements on requests.
//!
//! `ready` is what the search goes through: new requests but for updates that wait for their create, by queue and id.
//! Whatever is found is tested again once everything outstanding of its entity is locked.
//!
//! Conditions are worded so that only the right index fits them: by primary key (`is_row` in the parent module) no statement asks for
//! a status, which would offer the planner the partial indexes; coalesce(), `+ 0` and `|| ''` keep a comparison out of an index.

use pgrx::Uuid as PgUuid;

use crate::pg::clock::Moment;
use crate::pg::jsonb::Jsonb;
use crate::pg::spi::{Connection, View};
use crate::statement;

/// The predicate of the index requests_ready, word by word.
macro_rules! ready {
    () => {
        " r.queue = $1 AND r.status = 'new' AND NOT r.blocked "
    };
}

/// The same set, in the words of the index requests_entered and of no other one.
macro_rules! entered {
    () => {
        " r.queue || '' = $1 AND r.settled_at IS NULL AND r.hold_until IS NULL AND NOT r.blocked "
    };
}

/// Holds, in the words of the index requests_held_since and of no other one.
macro_rules! held_since {
    () => {
        " r.queue || '' = $1 AND r.hold_until IS NOT NULL "
    };
}

statement! {
    ENQUEUE(TEXTOID, TEXTOID, TEXTOID, JSONBOID, BOOLOID) =
        "INSERT INTO claims.requests (queue, entity, request_type, payload, blocked) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (queue, entity) WHERE request_type = 'create' DO NOTHING RETURNING id";
    CREATE_STATUS(TEXTOID, TEXTOID) =
        "SELECT status FROM claims.requests WHERE queue = $1 AND entity = $2 AND request_type = 'create'";
    /// Keeps a create from being settled unseen while an update that waits for it is being recorded.
    LOCK_CREATE(TEXTOID, TEXTOID) =
        "SELECT FROM claims.requests WHERE queue = $1 AND entity = $2 AND request_type = 'create'
            FOR KEY SHARE SKIP LOCKED";
    NOTIFY(TEXTOID) = "SELECT pg_notify('claims_requests', $1)";
    /// Where the search has to begin: the snapshot that says so, the first ready request from id $2 on, and the first
    /// one below that came in since snapshot $3; then the same of the ends of holds, from $4 on and of those made since; and
    /// whether there are creates to unblock.
    HORIZON(TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID) = concat!(
        "SELECT pg_current_snapshot()::text,
                (SELECT r.id FROM claims.requests r WHERE", ready!(), "AND r.id >= $2 ORDER BY r.id LIMIT 1),
                (SELECT min(late.id) FROM (
                     SELECT r.id FROM claims.requests r
                      WHERE", entered!(), "AND r.entered_xid >= pg_snapshot_xmax($3::pg_snapshot)
                        AND r.entered_xid < pg_snapshot_xmax(pg_current_snapshot())
                     UNION ALL
                     SELECT late.id FROM pg_snapshot_xip($3::pg_snapshot) AS open (xid)
                      CROSS JOIN LATERAL (SELECT r.id FROM claims.requests r
                                           WHERE", entered!(), "AND r.entered_xid = open.xid OFFSET 0) AS late
                      WHERE pg_visible_in_snapshot(open.xid, pg_current_snapshot())) AS late
                  WHERE late.id + 0 < $2),
                (SELECT r.hold_until FROM claims.requests r
                  WHERE r.queue = $1 AND r.hold_until >= $4 ORDER BY r.hold_until LIMIT 1),
                (SELECT min(late.hold_until) FROM (
                     SELECT r.hold_until FROM claims.requests r
                      WHERE", held_since!(), "AND r.entered_xid >= pg_snapshot_xmax($3::pg_snapshot)
                        AND r.entered_xid < pg_snapshot_xmax(pg_current_snapshot())
                     UNION ALL
                     SELECT late.hold_until FROM pg_snapshot_xip($3::pg_snapshot) AS open (xid)
                      CROSS JOIN LATERAL (SELECT r.hold_until FROM claims.requests r
                                           WHERE", held_since!(), "AND r.entered_xid = open.xid OFFSET 0) AS late
                      WHERE pg_visible_in_snapshot(open.xid, pg_current_snapshot())) AS late),
                EXISTS (SELECT FROM claims.requests r WHERE r.queue = $1 AND r.unblock)");
    /// Entities with expired holds that can be worked on, each with the first of its requests that is one. Updates whose
    /// create came while they were held wait for it.
    EXPIRED(TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID) =
        "SELECT min(r.id), r.entity FROM claims.requests r
          WHERE r.queue = $1 AND r.hold_until >= $4 AND r.hold_until <= $2 AND r.id > $3
            AND (r.request_type = 'create'
                 OR coalesce((SELECT c.status = 'complete' FROM claims.requests c
                               WHERE c.queue = r.queue AND c.entity = r.entity AND c.request_type = 'create'), true))
          GROUP BY r.entity ORDER BY min(r.id)";
    /// The first ready request between ids $2 and $3 whose entity is not in $4 and can be worked on. The tests are scalar
    /// subqueries, which are never turned into joins: each is one look into an index. A locked row is passed over.
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
    /// Everything outstanding of one entity, locked.
    LOCK_ENTITY(TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "SELECT r.id, r.request_type = 'create', r.status = 'in-progress', coalesce(r.hold_until > $3, false),
                coalesce(r.entered_xid = pg_current_xact_id_if_assigned(), false), r.payload::text
           FROM claims.requests r
          WHERE r.queue = $1 AND r.entity = $2 AND r.status IN ('new', 'in-progress')
          ORDER BY r.id FOR NO KEY UPDATE NOWAIT";
    /// Puts requests whose hold has expired back to what they count as.
    RENEW(TEXTOID, INT8ARRAYOID) = concat!(
        "UPDATE claims.requests r SET status = 'new', process_id = NULL, hold_until = NULL, entered_xid = pg_current_xact_id()
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"), " AND r.hold_until IS NOT NULL");
    HOLD(TEXTOID, INT8ARRAYOID, UUIDOID, TIMESTAMPTZOID) = concat!(
        "UPDATE claims.requests r SET status = 'in-progress', process_id = $3, hold_until = $4, attempts = attempts + 1,
                entered_xid = pg_current_xact_id()
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
    /// The create of an entity, and whether somebody holds the entity beyond a transaction.
    STANDING(TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "SELECT (SELECT c.status FROM claims.requests c
                  WHERE c.queue = $1 AND c.entity = $2 AND c.request_type = 'create'),
                EXISTS (SELECT FROM claims.requests h
                         WHERE h.queue = $1 AND h.entity = $2 AND h.status = 'in-progress'
                           AND coalesce(h.hold_until > $3, false))";
    /// How many requests a process holds beyond a transaction, how many holds of it have expired, and how many were taken
    /// over.
    HOLDS(UUIDOID, TIMESTAMPTZOID) =
        "SELECT count(*) FILTER (WHERE hold_until > $2), count(*) FILTER (WHERE hold_until <= $2),
                (SELECT coalesce(sum(l.requests), 0)::bigint FROM claims.lost_holds l WHERE l.process_id = $1)
           FROM claims.requests WHERE process_id = $1 AND status = 'in-progress'";
    /// Leaves word for the processes whose expired holds of $2 process $3 takes over.
    LEAVE_WORD(TEXTOID, INT8ARRAYOID, UUIDOID) = concat!(
        "INSERT INTO claims.lost_holds (queue, process_id, requests)
         SELECT $1, r.process_id, count(*)
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
           JOIN claims.requests r ON ", is_row!("r.queue", "r.id", "m.queue", "m.id"), "
          WHERE r.hold_until IS NOT NULL AND r.process_id <> $3 GROUP BY r.process_id");
    /// Drops the word left for a process that holds nothing but the requests $2 of queue $3: it begins anew with them.
    BEGIN_ANEW(UUIDOID, INT8ARRAYOID, TEXTOID) =
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds WHERE process_id = $1
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = $1 AND r.status = 'in-progress'
                                   AND (r.queue <> $3 OR r.id <> ALL ($2)))
              ORDER BY id FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
    /// Drops words left at $2 or earlier for processes that hold nothing any more.
    PURGE_WORDS(TEXTOID, TIMESTAMPTZOID) =
        "WITH old AS MATERIALIZED (
             SELECT id FROM claims.lost_holds l WHERE l.queue = $1 AND l.lost_at <= $2
                AND NOT EXISTS (SELECT FROM claims.requests r
                                 WHERE r.process_id = l.process_id AND r.status = 'in-progress')
              ORDER BY id FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.lost_holds l USING old WHERE l.id = old.id";
    LOCK_HELD(UUIDOID, TIMESTAMPTZOID) =
        "SELECT queue, id, entity, request_type = 'create' FROM claims.requests
          WHERE process_id = $1 AND status = 'in-progress' AND coalesce(hold_until > $2, false)
          ORDER BY id FOR NO KEY UPDATE";
    /// Settles requests that this transaction has locked. With a hold, the attempt was counted when they were taken.
    SETTLE(TEXTOID, INT8ARRAYOID, UUIDOID, TEXTOID, TIMESTAMPTZOID) = concat!(
        "UPDATE claims.requests r
            SET status = CASE WHEN $4 IS NULL THEN 'complete' ELSE 'error' END, process_id = $3, error = $4,
                settled_at = $5, attempts = attempts + (r.status = 'new')::int, hold_until = NULL
           FROM (SELECT $1 AS queue, id FROM unnest($2) AS id OFFSET 0) AS m
          WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"), " AND r.settled_at IS NULL");
    EXTEND(UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID) = concat!(
        "WITH mine AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE process_id = $1 AND status = 'in-progress' AND coalesce(hold_until > $2, false)
              ORDER BY id FOR NO KEY UPDATE)
         UPDATE claims.requests r SET hold_until = greatest(hold_until, $3)
           FROM mine m WHERE ", is_row!("r.queue", "r.id", "m.queue", "m.id"));
    /// Whether a create can be locked against those who are recording updates that wait for it.
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
    /// Marked creates, whether updates wait for each, and the first of those behind $2.
    MARKED_CREATES(TEXTOID, INT8OID) =
        "SELECT c.entity,
                EXISTS (SELECT FROM claims.requests b
                         WHERE b.queue = c.queue AND b.entity = c.entity AND b.status IN ('new', 'in-progress') AND b.blocked),
                (SELECT b.id FROM claims.requests b
                  WHERE b.queue = c.queue AND b.entity = c.entity AND b.status IN ('new', 'in-progress') AND b.blocked
                    AND b.id > $2
                  ORDER BY b.id LIMIT 1)
           FROM claims.requests c WHERE c.queue = $1 AND c.unblock ORDER BY c.id LIMIT 1000";
    /// Whether the entity has outstanding requests and no failed create in front of them.
    HAS_MORE(TEXTOID, TEXTOID) =
        "SELECT EXISTS (SELECT FROM claims.requests r
                         WHERE r.queue = $1 AND r.entity = $2 AND r.status IN ('new', 'in-progress'))
            AND coalesce((SELECT c.status <> 'error' FROM claims.requests c
                           WHERE c.queue = $1 AND c.entity = $2 AND c.request_type = 'create'), true)";
    RETRY(TEXTOID, TEXTOID) = concat!(
        "WITH failed AS MATERIALIZED (
             SELECT queue, id FROM claims.requests WHERE queue = $1 AND entity = $2 AND status = 'error'
              ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.requests r
            SET status = 'new', process_id = NULL, error = NULL, settled_at = NULL, entered_xid = pg_current_xact_id()
           FROM failed f WHERE ", is_row!("r.queue", "r.id", "f.queue", "f.id"), " RETURNING r.id");
    /// From id $4 on, up to $3 requests.
    PURGE(TEXTOID, TIMESTAMPTZOID, INT8OID, INT8OID) = concat!(
        "WITH old AS MATERIALIZED (
             SELECT queue, id FROM claims.requests
              WHERE queue = $1 AND status IN ('complete', 'error') AND settled_at <= $2 AND NOT unblock
                AND NOT (request_type = 'create' AND status = 'error') AND id > $4
              ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.requests r USING old o WHERE ", is_row!("r.queue", "r.id", "o.queue", "o.id"), " RETURNING r.id");
}

/// Records a request; `None`: the entity has a create already.
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

/// The status of the entity's create, if it has one.
pub fn create_status(connection: &Connection, queue: &str, entity: &str, view: View) -> Option<String> {
    connection.run(&CREATE_STATUS, view, [queue.into(), entity.into()]).first(|row| row.must(1))
}

/// Whether from now on, until this transaction ends, nobody can close the entity's create. `false` where somebody is
/// closing it, or has.
pub fn lock_create(connection: &Connection, queue: &str, entity: &str) -> bool {
    connection.run(&LOCK_CREATE, View::Statement, [queue.into(), entity.into()]).count() == 1
}

pub fn notify(connection: &Connection, queue: &str) {
    connection.run(&NOTIFY, View::Statement, [queue.into()]);
}

/// What a take has to look at.
#[derive(Default)]
pub struct Horizon {
    pub snapshot: String,
    /// No ready request lies below; `None`: there is none at all.
    pub first: Option<i64>,
    /// No hold ends earlier; `None`: there is none at all.
    pub first_hold: Option<Moment>,
    pub has_marked: bool,
}

/// What was known of a queue.
pub struct Known {
    /// No ready request lay below.
    pub low: i64,
    /// No hold ended earlier.
    pub first_hold: Moment,
    /// When that was true; `None`: nothing is known.
    pub snapshot: Option<String>,
}

/// What is ready now, given what was known.
pub fn horizon(connection: &Connection, queue: &str, known: &Known) -> Horizon {
    let values = [queue.into(), known.low.into(), known.snapshot.as_deref().into(), known.first_hold.into()];
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

/// Entities whose holds have expired, none of them before `first_hold`.
pub fn expired(connection: &Connection, queue: &str, now: Moment, after: i64, first_hold: Moment) -> Vec<Candidate> {
    connection
        .run(&EXPIRED, View::Statement, [queue.into(), now.into(), after.into(), first_hold.into()])
        .map(|row| Candidate { id: row.must(1), entity: row.must(2) })
}

/// The first candidate between two ids, locked.
pub fn find(
    connection: &Connection,
    queue: &str,
    between: (i64, i64),
    passed_over: &[String],
    now: Moment,
) -> Option<Candidate> {
    let (after, before) = between;
    let values = [queue.into(), after.into(), before.into(), passed_over.to_vec().into(), now.into()];
    let rows = connection.run(&FIND, View::Statement, values);
    rows.first(|row| Candidate { id: row.must(1), entity: row.must(2) })
}

/// An outstanding request that this transaction has locked.
pub struct Outstanding {
    pub id: i64,
    pub is_create: bool,
    pub in_progress: bool,
    /// Its hold has not expired.
    pub held: bool,
    /// This transaction recorded it: nobody else can see it.
    pub own: bool,
    pub payload: Option<String>,
}

/// Locks all that is outstanding of an entity; an error at once where somebody else has locked any of it.
pub fn lock_entity(connection: &Connection, queue: &str, entity: &str, now: Moment) -> Vec<Outstanding> {
    let values = [queue.into(), entity.into(), now.into()];
    connection.run(&LOCK_ENTITY, View::Statement, values).map(|row| Outstanding {
        id: row.must(1),
        is_create: row.must(2),
        in_progress: row.must(3),
        held: row.must(4),
        own: row.must(5),
        payload: row.get(6),
    })
}

pub fn renew(connection: &Connection, queue: &str, ids: &[i64]) {
    connection.run(&RENEW, View::Statement, [queue.into(), ids.to_vec().into()]);
}

pub fn hold(connection: &Connection, queue: &str, ids: &[i64], process: PgUuid, until: Moment) {
    connection.run(&HOLD, View::Statement, [queue.into(), ids.to_vec().into(), process.into(), until.into()]);
}

/// How an entity stands.
#[derive(Default)]
pub struct Standing {
    /// The status of its create, if it has one.
    pub create: Option<String>,
    /// Somebody holds it beyond a transaction.
    pub held: bool,
}

/// How an entity stands by what is committed right now.
pub fn standing(connection: &Connection, queue: &str, entity: &str, now: Moment) -> Standing {
    let rows = connection.run(&STANDING, View::Latest, [queue.into(), entity.into(), now.into()]);
    rows.first(|row| Standing { create: row.get(1), held: row.must(2) }).unwrap_or_default()
}

/// What a process holds beyond a transaction.
#[derive(Default)]
pub struct Holds {
    pub held: i64,
    pub expired: i64,
    /// Of what it held besides, so many requests were taken over by others.
    pub lost: i64,
}

pub fn holds(connection: &Connection, process: PgUuid, now: Moment) -> Holds {
    let rows = connection.run(&HOLDS, View::Statement, [process.into(), now.into()]);
    rows.first(|row| Holds { held: row.must(1), expired: row.must(2), lost: row.must(3) }).unwrap_or_default()
}

/// Leaves word for other processes whose expired holds this one takes over.
pub fn leave_word(connection: &Connection, queue: &str, expired: &[i64], process: PgUuid) {
    connection.run(&LEAVE_WORD, View::Statement, [queue.into(), expired.to_vec().into(), process.into()]);
}

/// Word that was left for a process counts no more if it holds nothing but these requests.
pub fn begin_anew(connection: &Connection, process: PgUuid, queue: &str, ids: &[i64]) {
    connection.run(&BEGIN_ANEW, View::Statement, [process.into(), ids.to_vec().into(), queue.into()]);
}

/// Drops words left at `before` or earlier that nobody can ask for any more.
pub fn purge_words(connection: &Connection, queue: &str, before: Moment) {
    connection.run(&PURGE_WORDS, View::Statement, [queue.into(), before.into()]);
}

/// Requests of one entity in the hands of one process.
pub struct InHand {
    pub queue: String,
    pub entity: String,
    pub is_create: bool,
    pub ids: Vec<i64>,
}

/// Locks what a process holds beyond a transaction.
pub fn lock_held(connection: &Connection, process: PgUuid, now: Moment) -> Vec<InHand> {
    let rows = connection.run(&LOCK_HELD, View::Statement, [process.into(), now.into()]);
    rows.map(|row| InHand { queue: row.must(1), ids: vec![row.must(2)], entity: row.must(3), is_create: row.must(4) })
}

/// Settles what is in hand of an entity; how many requests that were.
pub fn settle(connection: &Connection, hand: &InHand, process: PgUuid, error: Option<&str>, now: Moment) -> usize {
    let values = [(*hand.queue).into(), hand.ids.clone().into(), process.into(), error.into(), now.into()];
    connection.run(&SETTLE, View::Statement, values).count()
}

pub fn extend(connection: &Connection, process: PgUuid, now: Moment, until: Moment) -> usize {
    connection.run(&EXTEND, View::Statement, [process.into(), now.into(), until.into()]).count()
}

/// Whether from now on, until this transaction ends, nobody can record an update as waiting for this create.
pub fn close_create(connection: &Connection, queue: &str, entity: &str) -> bool {
    connection.run(&CLOSE_CREATE, View::Statement, [queue.into(), entity.into()]).count() == 1
}

/// Lets the search see the entity's updates; returns the first of those that it did not.
pub fn unblock(connection: &Connection, queue: &str, entity: &str) -> Option<i64> {
    connection.run(&UNBLOCK, View::Statement, [queue.into(), entity.into()]).map(|row| row.must(1)).into_iter().min()
}

/// Whether the search still does not see some of the entity's updates.
pub fn has_blocked(connection: &Connection, queue: &str, entity: &str) -> bool {
    let rows = connection.run(&BLOCKED, View::Statement, [queue.into(), entity.into()]);
    rows.first(|row| row.must(1)).unwrap_or(false)
}

/// Marks a complete create as one whose updates may still have to be unblocked, or takes the mark off.
pub fn mark_create(connection: &Connection, queue: &str, entity: &str, marked: bool) {
    connection.run(&MARK_CREATE, View::Statement, [queue.into(), entity.into(), marked.into()]);
}

/// A complete create that is marked.
pub struct Marked {
    pub entity: String,
    /// The search does not see all of the entity's updates.
    pub is_waited_for: bool,
    /// The first of them behind the id that was asked for.
    pub first: Option<i64>,
}

pub fn marked_creates(connection: &Connection, queue: &str, after: i64) -> Vec<Marked> {
    let rows = connection.run(&MARKED_CREATES, View::Statement, [queue.into(), after.into()]);
    rows.map(|row| Marked { entity: row.must(1), is_waited_for: row.must(2), first: row.get(3) })
}

pub fn has_more(connection: &Connection, queue: &str, entity: &str) -> bool {
    let rows = connection.run(&HAS_MORE, View::Statement, [queue.into(), entity.into()]);
    rows.first(|row| row.must(1)).unwrap_or(false)
}

/// Puts failed requests back to new; their ids.
pub fn retry(connection: &Connection, queue: &str, entity: &str) -> Vec<i64> {
    connection.run(&RETRY, View::Statement, [queue.into(), entity.into()]).map(|row| row.must(1))
}

/// Deletes the first requests, `limit` at most, after an id that were settled at `before` or earlier; their ids.
pub fn purge(connection: &Connection, queue: &str, before: Moment, limit: i64, after: i64) -> Vec<i64> {
    let values = [queue.into(), before.into(), limit.into(), after.into()];
    connection.run(&PURGE, View::Statement, values).map(|row| row.must(1))
}
