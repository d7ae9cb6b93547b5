//! The change feed of distributed tables. One node has all of it, in the only shard of its tables. So that node's transactions
//! decide its order and which changes are final.
//!
//! If Citus moves the feed to another node, a new era begins, because transaction ids of one node mean nothing on another. The
//! numbers of changes continue: a later era has greater ones.

use claims_model::Bucket;
use claims_model::feed::{ChangeCursor, FeedSnapshot, SET_SIZE};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::door::Citus;
use super::two_phase;
use crate::error::{ClaimsError, or_raise};
use crate::tables::door::FeedTables;
use crate::tables::errors::FeedError;
use crate::tables::rows::feed::{BucketChange, ChangeSet, StoredSet, actor, bucket_change, stored_set};
use pg::clock::Moment;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::shared_statement;
use pg::uuid::{from_pg_uuid, pg_uuid};
use pg::xid8::Xid8;

macro_rules! decided {
    () => {
        "s.xid < pg_snapshot_xmin(pg_current_snapshot())"
    };
}

shared_statement! {
    /// Draws numbers. Runs on the node of the feed, at the request of another node.
    DRAW(INT4OID) = "SELECT nextval('claims.change_sets_id_seq') FROM generate_series(1, $1)";
    DRAW_NUMBERS(INT4OID) = "SELECT h.era, h.node, claims.change_node(), claims.take_change_places($1) FROM claims.change_horizon h";
    NODE() = "SELECT h.era, h.node, claims.change_node() FROM claims.change_horizon h";
    BEGIN_ERA(INT4OID) =
        "UPDATE claims.change_horizon h
            SET era = h.era + 1, node = $1, xid = '0', id = 0, at = '2000-01-01 00:00:00+00', has_earlier = true
          WHERE h.node IS DISTINCT FROM $1";
    STATE(XID8OID, INT8OID, INT8OID) =
        "SELECT h.feed, h.xid, h.id, h.at, h.era, h.node, claims.change_node(), pg_snapshot_xmin(pg_current_snapshot()),
                pg_snapshot_xmax(pg_current_snapshot()), pg_is_in_recovery(),
                (SELECT s.at FROM claims.change_sets s
                  WHERE s.xid = $1 AND s.id = $2 AND s.era = h.era AND $3 - $2 < cardinality(s.bucket_values))
           FROM claims.change_horizon h";
    NEWEST() = concat!(
        "SELECT h.feed, coalesce(l.xid, h.xid), coalesce(l.id, h.id), coalesce(l.at, h.at), h.era, h.node, claims.change_node()
           FROM claims.change_horizon h
           LEFT JOIN LATERAL (SELECT s.xid, s.id + cardinality(s.bucket_values) - 1 AS id, s.at FROM claims.change_sets s
                               WHERE s.era = h.era AND (s.xid, s.id) > (h.xid, h.id) AND ", decided!(), "
                               ORDER BY s.xid DESC, s.id DESC LIMIT 1) l ON true");
    /// Returns rows of era $1 from row $3 of transaction $2 on. All but the last one have at most $5 changes together.
    FROM_ROW(INT4OID, XID8OID, INT8OID, INT4OID, INT8OID) = concat!(
        "SELECT p.xid, p.id, p.at, p.op, p.old_cell_id, p.new_cell_id, p.lease_uuid, p.actor::text, p.bucket_types, p.bucket_values, p.two_phase
           FROM (SELECT f.*, sum(cardinality(f.bucket_values)) OVER (ORDER BY f.xid, f.id) - cardinality(f.bucket_values) AS before
                   FROM (SELECT s.* FROM claims.change_sets s
                          WHERE s.era = $1 AND (s.xid, s.id) >= ($2, $3) AND ", decided!(), " AND ($4 IS NULL OR $4 = ANY (s.bucket_types))
                          ORDER BY s.xid, s.id LIMIT $5) f) p
          WHERE p.before < $5 ORDER BY p.xid, p.id");
    OF_BUCKET(INT4OID, TEXTOID) =
        "SELECT s.at, s.op, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor::text
           FROM claims.change_sets s
          CROSS JOIN LATERAL unnest(s.bucket_types, s.bucket_values) WITH ORDINALITY AS n (bucket_type, bucket_value, nth)
          WHERE s.bucket_values @> ARRAY[$2 COLLATE \"C\"] AND n.bucket_type = $1 AND n.bucket_value = $2
          ORDER BY s.id + n.nth";
    OF_TRANSACTIONS(INT4OID, TEXTARRAYOID) =
        "SELECT s.two_phase FROM claims.change_sets s WHERE s.era = $1 AND s.two_phase = ANY ($2) LIMIT 1";
    /// Locks the horizon. The session that gets the lock purges.
    LOCK_HORIZON() =
        "SELECT h.xid, h.id, h.era, h.node, claims.change_node(), h.has_earlier FROM claims.change_horizon h FOR UPDATE SKIP LOCKED";
    FIRST(INT4OID, XID8OID, INT8OID, INT8OID) = concat!(
        "SELECT s.xid, s.id, s.at, cardinality(s.bucket_values), s.two_phase FROM claims.change_sets s
          WHERE s.era = $1 AND (s.xid, s.id) > ($2, $3) AND ", decided!(), " ORDER BY s.xid, s.id LIMIT $4");
    MOVE_HORIZON(XID8OID, INT8OID, TIMESTAMPTZOID) = "UPDATE claims.change_horizon h SET xid = $1, id = $2, at = $3 WHERE h.feed IS NOT NULL";
    DROP(INT4OID, XID8OID, INT8OID) = "DELETE FROM claims.change_sets s WHERE s.era = $1 AND (s.xid, s.id) <= ($2, $3)";
    EARLIER(INT4OID, INT8OID) =
        "SELECT s.id, s.at, cardinality(s.bucket_values) FROM claims.change_sets s WHERE s.era IS DISTINCT FROM $1 ORDER BY s.id LIMIT $2";
    DROP_EARLIER(INT4OID, INT8ARRAYOID) = "DELETE FROM claims.change_sets s WHERE s.era IS DISTINCT FROM $1 AND s.id = ANY ($2)";
    NO_EARLIER() = "UPDATE claims.change_horizon h SET has_earlier = false WHERE h.has_earlier";
}

/// Number of bits of a change's number below its era.
const ERA_SHIFT: u32 = 44;
/// Number of rows that one statement inserts.
const ROWS: usize = 200;

/// Draws numbers for rows, on the node of the feed.
pub fn draw(connection: &Connection, rows: i32) -> Vec<i64> {
    connection.run(&DRAW, View::Statement, [rows.into()]).map(|row| row.must(1))
}

/// Returns the current era of the feed. Begins a new one if the feed was moved to another node: the first session to write locks
/// out the others.
pub fn era(connection: &Connection) -> i32 {
    let read = || connection.run(&NODE, View::Latest, []).first(|row| (row.must(1), row.get::<i32>(2), row.must(3)));
    let (era, kept_by, here): (i32, _, i32) = or_no_horizon(read());
    if kept_by == Some(here) {
        return era;
    }
    connection.run(&BEGIN_ERA, View::Statement, [here.into()]);
    or_no_horizon(read()).0
}

fn or_no_horizon<T>(of_horizon: Option<T>) -> T {
    or_raise(of_horizon.ok_or(ClaimsError::from(FeedError::NoHorizon)))
}

impl FeedTables for Citus {
    fn tell(&self, connection: &Connection, sets: &[ChangeSet], at: Moment) {
        let parts: Vec<(&ChangeSet, &[&Bucket])> =
            sets.iter().flat_map(|set| set.buckets.chunks(SET_SIZE).map(move |buckets| (set, buckets))).collect();
        let Ok(rows @ 1..) = i32::try_from(parts.len()) else { return };
        let drawn = connection.run(&DRAW_NUMBERS, View::Statement, [rows.into()]);
        let drawn =
            drawn.first(|row| (row.must::<i32>(1), row.get::<i32>(2), row.must::<i32>(3), row.must::<Vec<i64>>(4)));
        let (last_era, node_of_era, feed_node, drawn) = or_no_horizon(drawn);
        let era = if node_of_era == Some(feed_node) { last_era } else { era(connection) };
        let [xid, numbers @ ..] = drawn.as_slice() else { return };
        let common = Common { xid: Xid8(xid.cast_unsigned()), at, era, two_phase: two_phase::own_name(connection) };
        let numbered: Vec<_> = numbers.iter().copied().zip(parts).collect();
        let mut first = 0;
        // A statement has at most as many names as a row may have, except that the last row may exceed it.
        while first < numbered.len() {
            let mut names = 0;
            let fits = |(_, (_, buckets)): &&(i64, (&ChangeSet, &[&Bucket]))| {
                names += buckets.len();
                names <= SET_SIZE
            };
            let rows = numbered[first..].iter().take(ROWS).take_while(fits).count().max(1);
            put(connection, &common, &numbered[first..first + rows]);
            first += rows;
        }
    }

    fn changes_of(&self, connection: &Connection, bucket_type: i32, bucket_value: &str) -> Vec<BucketChange> {
        connection
            .run(&OF_BUCKET, View::Caller, [bucket_type.into(), bucket_value.into()])
            .map(|row| bucket_change(&row))
    }

    fn purge_changes(&self, connection: &Connection, before: Moment, limit: i64) -> (i64, i64) {
        let locked = connection.run(&LOCK_HORIZON, View::Statement, []).first(|row| {
            (
                row.must::<Xid8>(1),
                row.must::<i64>(2),
                row.must::<i32>(3),
                row.get::<i32>(4) == row.get(5),
                row.must::<bool>(6),
            )
        });
        let Some((xid, id, seen, is_kept_here, has_earlier)) = locked else { return (0, 0) };
        let (era, horizon) = if is_kept_here { (seen, (xid, id)) } else { (era(connection), (Xid8(0), 0)) };
        let (rows, changes) = purge_era(connection, era, horizon, before, limit);
        let may_have_earlier = has_earlier || !is_kept_here;
        if rows == limit || !may_have_earlier {
            return (rows, changes);
        }
        let (more_rows, more_changes) = purge_earlier(connection, era, before, limit - rows);
        (rows + more_rows, changes + more_changes)
    }
}

/// The values that all rows of one call share.
struct Common {
    xid: Xid8,
    at: Moment,
    era: i32,
    two_phase: Option<String>,
}

fn put(connection: &Connection, common: &Common, rows: &[(i64, (&ChangeSet, &[&Bucket]))]) {
    let row = |nth: usize| {
        let at = |column: usize| 5 + 7 * nth + column;
        let [id, op, old, new, lease, types, values] = [at(1), at(2), at(3), at(4), at(5), at(6), at(7)];
        format!("($1, ${id}, $2, ${op}, ${old}, ${new}, ${lease}, $3::name, ${types}, ${values}, $4, $5)")
    };
    let text = format!(
        "INSERT INTO claims.change_sets
                (xid, id, at, op, old_cell_id, new_cell_id, lease_uuid, actor, bucket_types, bucket_values, era, two_phase)
         VALUES {}",
        (0..rows.len()).map(row).collect::<Vec<_>>().join(", ")
    );
    let each = |(number, (set, buckets)): &(i64, (&ChangeSet, &[&Bucket]))| -> [Value; 7] {
        let types = buckets.iter().map(|bucket| bucket.bucket_type).collect::<Vec<i32>>();
        let values = buckets.iter().map(|bucket| &*bucket.value).collect::<Vec<&str>>();
        [
            ((i64::from(common.era) << ERA_SHIFT) | number).into(),
            set.change.op().into(),
            set.change.old_cell().into(),
            set.change.new_cell().into(),
            set.cause.map(pg_uuid).into(),
            types.into(),
            values.into(),
        ]
    };
    let shared: [Value; 5] =
        [common.xid.into(), common.at.into(), actor().into(), common.era.into(), common.two_phase.clone().into()];
    connection.run_text(&text, shared.into_iter().chain(rows.iter().flat_map(each)));
}

/// The identity of a feed, which differs in each era. If nobody has written since the feed was moved, it is that of the next era.
struct Standpoint {
    feed: Uuid,
    era: i32,
    is_new: bool,
}

fn standpoint(row: &Row, feed: i32, era: i32) -> Standpoint {
    let (kept_by, here): (Option<i32>, i32) = (row.get(era + 1), row.must(era + 2));
    let is_new = kept_by != Some(here);
    let era = row.must::<i32>(era) + i32::from(is_new);
    let feed = from_pg_uuid(row.must::<PgUuid>(feed)).as_u128() ^ u128::from(era.cast_unsigned());
    Standpoint { feed: Uuid::from_u128(feed), era, is_new }
}

/// Returns the cursor in columns 2 to 4, or one before everything if the era is new.
fn cursor_of(row: &Row, standpoint: &Standpoint) -> ChangeCursor {
    let feed = standpoint.feed;
    if standpoint.is_new {
        return ChangeCursor { feed, xid: 0, id: 0, at: 0 };
    }
    ChangeCursor { feed, xid: row.must::<Xid8>(2).0, id: row.must(3), at: row.must::<Moment>(4).0 }
}

/// Returns the state of the feed around a cursor on the node of the feed, and the era. `None` if somebody has emptied
/// claims.change_horizon.
pub fn state(connection: &Connection, cursor: &ChangeCursor) -> Option<(FeedSnapshot, i32)> {
    let values = [Xid8(cursor.xid).into(), cursor.set_id().into(), cursor.id.into()];
    connection.run(&STATE, View::Caller, values).first(|row| {
        let standpoint = standpoint(&row, 1, 5);
        let state = FeedSnapshot {
            horizon: cursor_of(&row, &standpoint),
            decided: row.must::<Xid8>(8).0,
            next: row.must::<Xid8>(9).0,
            is_standby: row.must(10),
            found_at: row.get::<Moment>(11).map(|at| at.0),
        };
        (state, standpoint.era)
    })
}

/// Returns the cursor of the last change that is committed on the node of the feed, and the era.
pub fn newest(connection: &Connection) -> Option<(ChangeCursor, i32)> {
    connection.run(&NEWEST, View::Caller, []).first(|row| {
        let standpoint = standpoint(&row, 1, 5);
        (cursor_of(&row, &standpoint), standpoint.era)
    })
}

/// Returns rows from row `id` of transaction `xid` on, with about `changes` changes, each with its transaction's name on all
/// nodes.
pub fn portion(
    connection: &Connection,
    era: i32,
    (xid, id): (u64, i64),
    bucket_type: Option<i32>,
    changes: usize,
) -> Vec<(StoredSet, Option<String>)> {
    let values = [era.into(), Xid8(xid).into(), id.into(), bucket_type.into(), (changes as i64).into()];
    connection.run(&FROM_ROW, View::Caller, values).map(|row| (stored_set(&row), row.get(11)))
}

/// Returns one of these transactions, by their names on all nodes, that has written to the feed. Reads the whole feed.
pub fn writer_among(connection: &Connection, era: i32, transactions: Vec<String>) -> Option<String> {
    connection.run(&OF_TRANSACTIONS, View::Latest, [era.into(), transactions.into()]).first(|row| row.must(1))
}

fn purge_era(connection: &Connection, era: i32, (xid, id): (Xid8, i64), before: Moment, limit: i64) -> (i64, i64) {
    let first = connection.run(&FIRST, View::Latest, [era.into(), xid.into(), id.into(), limit.into()]);
    let row = |row: Row| {
        (row.must::<Xid8>(1), row.must::<i64>(2), row.must::<Moment>(3), row.must::<i32>(4), row.get::<String>(5))
    };
    let mut old: Vec<_> = first.map(row).into_iter().take_while(|(_, _, at, ..)| at.0 <= before.0).collect();
    if old.iter().any(|(.., two_phase)| two_phase.is_some()) {
        let prepared = two_phase::prepared(connection);
        let is_held = |two_phase: &Option<String>| two_phase.as_deref().is_some_and(|name| prepared.may_have(name));
        let ended = old.iter().take_while(|(.., two_phase)| !is_held(two_phase)).count();
        old.truncate(ended);
    }
    let Some((xid, id, at, changes, _)) = old.last() else { return (0, 0) };
    let last = id + i64::from(*changes) - 1;
    connection.run(&MOVE_HORIZON, View::Statement, [(*xid).into(), last.into(), (*at).into()]);
    connection.run(&DROP, View::Statement, [era.into(), (*xid).into(), last.into()]);
    (old.len() as i64, old.iter().map(|(.., changes, _)| i64::from(*changes)).sum())
}

/// Deletes rows of earlier eras, which readers cannot get any more.
fn purge_earlier(connection: &Connection, era: i32, before: Moment, limit: i64) -> (i64, i64) {
    let first = connection.run(&EARLIER, View::Latest, [era.into(), limit.into()]);
    let row = |row: Row| (row.must::<i64>(1), row.must::<Moment>(2), row.must::<i32>(3));
    let first: Vec<_> = first.map(row);
    if first.is_empty() {
        connection.run(&NO_EARLIER, View::Statement, []);
        return (0, 0);
    }
    let old: Vec<_> = first.into_iter().filter(|(_, at, _)| at.0 <= before.0).collect();
    if !old.is_empty() {
        let ids: Vec<i64> = old.iter().map(|(id, ..)| *id).collect();
        connection.run(&DROP_EARLIER, View::Statement, [era.into(), ids.into()]);
    }
    (old.len() as i64, old.iter().map(|(.., changes)| i64::from(*changes)).sum())
}
