//! The change feed of distributed tables. One node has all of it, in the only shard of its tables. So that node's transactions
//! decide its order and which changes are final.
//!
//! If Citus moves the feed to another node, a new era begins, because transaction ids of one node mean nothing on another. The
//! numbers of changes continue: a later era has greater ones.

use claims_model::Bucket;
use claims_model::feed::{ChangeCursor, FeedSnapshot, SET_SIZE};
use uuid::Uuid;

use super::cluster::Citus;
use super::two_phase;
use crate::kernel::error::{ClaimsError, or_raise};
use crate::service::feed::errors::FeedError;
use crate::service::feed::{BucketChange, ChangeSet, FeedTables, StoredSet, actor};
use pg::clock::Moment;
use pg::query::{Record, query, record};
use pg::spi::{Connection, Row, Value};
use pg::xid8::Xid8;

macro_rules! decided {
    () => {
        "s.xid < pg_snapshot_xmin(pg_current_snapshot())"
    };
}

record! {
    /// The era of the feed, the node on which it began, and the node of the feed now.
    struct EraRow { era: i32, node: Option<i32>, change_node: i32 }

    struct DrawnRow { era: i32, node: Option<i32>, change_node: i32, take_change_places: Vec<i64> }

    /// The last change that readers can get, or that was purged.
    struct NewestRow {
        feed: Uuid,
        xid: Xid8,
        id: i64,
        at: Moment,
        era: i32,
        node: Option<i32>,
        change_node: i32,
    }

    /// The state of the feed around a change.
    struct StateRow {
        feed: Uuid,
        xid: Xid8,
        id: i64,
        at: Moment,
        era: i32,
        node: Option<i32>,
        change_node: i32,
        decided: Xid8,
        next: Xid8,
        is_standby: bool,
        found_at: Option<Moment>,
    }

    struct HorizonRow {
        xid: Xid8,
        id: i64,
        era: i32,
        node: Option<i32>,
        change_node: i32,
        has_earlier: bool,
    }

    struct OldRow { xid: Xid8, id: i64, at: Moment, changes: i32, two_phase: Option<String> }

    struct EarlierRow { id: i64, at: Moment, changes: i32 }
}

/// A row of the feed, and the name of its transaction on all nodes.
struct NamedSet {
    set: StoredSet,
    two_phase: Option<String>,
}

impl Record for NamedSet {
    fn read(row: &Row) -> Self {
        NamedSet { set: StoredSet::read(row), two_phase: row.field("two_phase", &mut (13..)) }
    }
}

query! {
    /// Draws numbers for rows. Runs on the node of the feed, at the request of another node.
    pub fn draw(rows: i32) -> Vec<i64> = [Statement Anywhere] "SELECT nextval('claims.change_sets_id_seq') FROM generate_series(1, :rows)";
    fn draw_numbers(rows: i32) -> Option<DrawnRow> = [Statement Anywhere]
        "SELECT h.era, h.node, claims.change_node(), claims.take_change_places(:rows) FROM claims.change_horizon h";
    fn current_era() -> Option<EraRow> = [Latest Anywhere] "SELECT h.era, h.node, claims.change_node() FROM claims.change_horizon h";
    fn begin_era(node: i32) = [Statement Anywhere]
        "UPDATE claims.change_horizon h
            SET era = h.era + 1, node = :node, xid = '0', id = 0, at = '2000-01-01 00:00:00+00', has_earlier = true
          WHERE h.node IS DISTINCT FROM :node";
    /// Returns the state of the feed around a change, which is in row `row_id` of a transaction.
    fn state_around(xid: Xid8, row_id: i64, id: i64) -> Option<StateRow> = [Caller Anywhere]
        "SELECT h.feed, h.xid, h.id, h.at, h.era, h.node, claims.change_node(), pg_snapshot_xmin(pg_current_snapshot()) AS decided,
                pg_snapshot_xmax(pg_current_snapshot()) AS next, pg_is_in_recovery() AS is_standby,
                (SELECT s.at FROM claims.change_sets s
                  WHERE s.xid = :xid AND s.id = :row_id AND s.era = h.era AND :id - :row_id < cardinality(s.bucket_values)) AS found_at
           FROM claims.change_horizon h";
    fn newest_row() -> Option<NewestRow> = [Caller Anywhere] concat!(
        "SELECT h.feed, coalesce(l.xid, h.xid) AS xid, coalesce(l.id, h.id) AS id, coalesce(l.at, h.at) AS at, h.era, h.node, claims.change_node()
           FROM claims.change_horizon h
           LEFT JOIN LATERAL (SELECT s.xid, s.id + cardinality(s.bucket_values) - 1 AS id, s.at FROM claims.change_sets s
                               WHERE s.era = h.era AND (s.xid, s.id) > (h.xid, h.id) AND ", decided!(), "
                               ORDER BY s.xid DESC, s.id DESC LIMIT 1) l ON true");
    /// Returns rows of an era from row `row_id` of a transaction on. All but the last one have at most `changes` changes together.
    fn rows_from(era: i32, xid: Xid8, row_id: i64, bucket_type: Option<i32>, changes: i64) -> Vec<NamedSet> = [Caller Anywhere] concat!(
        "SELECT p.xid, p.id, p.at, p.op, p.old_cell_id, p.new_cell_id, p.lease_uuid, p.actor::text, p.bucket_types, p.bucket_values, p.context,
                p.cell_role, p.two_phase
           FROM (SELECT f.*, sum(cardinality(f.bucket_values)) OVER (ORDER BY f.xid, f.id) - cardinality(f.bucket_values) AS before
                   FROM (SELECT s.* FROM claims.change_sets s
                          WHERE s.era = :era AND (s.xid, s.id) >= (:xid, :row_id) AND ", decided!(), "
                            AND (:bucket_type IS NULL OR :bucket_type = ANY (s.bucket_types))
                          ORDER BY s.xid, s.id LIMIT :changes) f) p
          WHERE p.before < :changes ORDER BY p.xid, p.id");
    fn changes_of_bucket(bucket_type: i32, bucket_value: &str) -> Vec<BucketChange> = [Caller Anywhere]
        "SELECT s.at, s.op, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor::text, s.context, s.cell_role
           FROM claims.change_sets s
          CROSS JOIN LATERAL unnest(s.bucket_types, s.bucket_values) WITH ORDINALITY AS n (bucket_type, bucket_value, nth)
          WHERE s.bucket_values @> ARRAY[:bucket_value COLLATE \"C\"] AND n.bucket_type = :bucket_type AND n.bucket_value = :bucket_value
          ORDER BY s.id + n.nth";
    /// Returns one of these transactions, by their names on all nodes, that has written to the feed. Reads the whole feed.
    pub fn writer_among(era: i32, transactions: &[String]) -> Option<String> = [Latest Anywhere]
        "SELECT s.two_phase FROM claims.change_sets s WHERE s.era = :era AND s.two_phase = ANY (:transactions) LIMIT 1";
    /// Locks the horizon. The session that gets the lock purges.
    fn lock_horizon() -> Option<HorizonRow> = [Statement Anywhere]
        "SELECT h.xid, h.id, h.era, h.node, claims.change_node(), h.has_earlier FROM claims.change_horizon h FOR UPDATE SKIP LOCKED";
    fn first_rows(era: i32, xid: Xid8, id: i64, most: i64) -> Vec<OldRow> = [Latest Anywhere] concat!(
        "SELECT s.xid, s.id, s.at, cardinality(s.bucket_values) AS changes, s.two_phase FROM claims.change_sets s
          WHERE s.era = :era AND (s.xid, s.id) > (:xid, :id) AND ", decided!(), " ORDER BY s.xid, s.id LIMIT :most");
    fn move_horizon(xid: Xid8, id: i64, at: Moment) = [Statement Anywhere]
        "UPDATE claims.change_horizon h SET xid = :xid, id = :id, at = :at WHERE h.feed IS NOT NULL";
    fn drop_rows(era: i32, xid: Xid8, id: i64) = [Statement Anywhere]
        "DELETE FROM claims.change_sets s WHERE s.era = :era AND (s.xid, s.id) <= (:xid, :id)";
    fn earlier_rows(era: i32, most: i64) -> Vec<EarlierRow> = [Latest Anywhere]
        "SELECT s.id, s.at, cardinality(s.bucket_values) AS changes FROM claims.change_sets s WHERE s.era IS DISTINCT FROM :era
          ORDER BY s.id LIMIT :most";
    fn drop_earlier(era: i32, ids: &[i64]) = [Statement Anywhere]
        "DELETE FROM claims.change_sets s WHERE s.era IS DISTINCT FROM :era AND s.id = ANY (:ids)";
    fn no_earlier() = [Statement Anywhere] "UPDATE claims.change_horizon h SET has_earlier = false WHERE h.has_earlier";
}

/// Number of bits of a change's number below its era.
const ERA_SHIFT: u32 = 44;
/// Number of rows that one statement inserts.
const ROWS: usize = 200;

/// Returns the current era of the feed. Begins a new one if the feed was moved to another node: the first session to write locks
/// out the others.
pub fn era(connection: &Connection) -> i32 {
    let read = || or_no_horizon(current_era(connection));
    let EraRow { era, node, change_node } = read();
    if node == Some(change_node) {
        return era;
    }
    begin_era(connection, change_node);
    read().era
}

fn or_no_horizon<T>(of_horizon: Option<T>) -> T {
    or_raise(of_horizon.ok_or(ClaimsError::from(FeedError::NoHorizon)))
}

impl FeedTables for Citus {
    fn tell(&self, connection: &Connection, sets: &[ChangeSet], at: Moment) {
        let parts: Vec<(&ChangeSet, &[&Bucket])> =
            sets.iter().flat_map(|set| set.buckets.chunks(SET_SIZE).map(move |buckets| (set, buckets))).collect();
        let Ok(rows @ 1..) = i32::try_from(parts.len()) else { return };
        let drawn = or_no_horizon(draw_numbers(connection, rows));
        let era = if drawn.node == Some(drawn.change_node) { drawn.era } else { era(connection) };
        let [xid, numbers @ ..] = drawn.take_change_places.as_slice() else { return };
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
        changes_of_bucket(connection, bucket_type, bucket_value)
    }

    fn purge_changes(&self, connection: &Connection, before: Moment, limit: i64) -> (i64, i64) {
        let Some(locked) = lock_horizon(connection) else { return (0, 0) };
        let is_kept_here = locked.node == Some(locked.change_node);
        let horizon = if is_kept_here { (locked.xid, locked.id) } else { (Xid8(0), 0) };
        let (era, has_earlier) = (if is_kept_here { locked.era } else { era(connection) }, locked.has_earlier);
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
    let (xid, at, actor_name, era, two_phase) = (1, 2, 3, 4, 5);
    let row = |nth: usize| {
        let column = |column: usize| 5 + 9 * nth + column;
        let [id, op, old, new, lease, types, values, context, cell_role] = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(column);
        format!(
            "(${xid}, ${id}, ${at}, ${op}, ${old}, ${new}, ${lease}, ${actor_name}::name, ${types}, ${values}, ${era}, ${two_phase}, \
             ${context}, ${cell_role})"
        )
    };
    let text = format!(
        "INSERT INTO claims.change_sets
                (xid, id, at, op, old_cell_id, new_cell_id, lease_uuid, actor, bucket_types, bucket_values, era, two_phase, context, cell_role)
         VALUES {}",
        (0..rows.len()).map(row).collect::<Vec<_>>().join(", ")
    );
    let each = |(number, (set, buckets)): &(i64, (&ChangeSet, &[&Bucket]))| -> [Value; 9] {
        let types = buckets.iter().map(|bucket| bucket.bucket_type).collect::<Vec<i32>>();
        let values = buckets.iter().map(|bucket| &*bucket.value).collect::<Vec<&str>>();
        [
            ((i64::from(common.era) << ERA_SHIFT) | number).into(),
            set.change.op().into(),
            set.change.old_cell().into(),
            set.change.new_cell().into(),
            set.cause.into(),
            types.into(),
            values.into(),
            set.attribution.context.as_deref().into(),
            set.attribution.cell_role.as_deref().into(),
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

impl Standpoint {
    fn of(feed: Uuid, era: i32, node: Option<i32>, change_node: i32) -> Self {
        let is_new = node != Some(change_node);
        let era = era + i32::from(is_new);
        Standpoint { feed: Uuid::from_u128(feed.as_u128() ^ u128::from(era.cast_unsigned())), era, is_new }
    }

    /// Returns the cursor of a change, or one before everything if the era is new.
    fn cursor(&self, xid: Xid8, id: i64, at: Moment) -> ChangeCursor {
        match self.is_new {
            true => ChangeCursor { feed: self.feed, xid: 0, id: 0, at: 0 },
            false => ChangeCursor { feed: self.feed, xid: xid.0, id, at: at.0 },
        }
    }
}

/// Returns the state of the feed around a cursor on the node of the feed, and the era. `None` if somebody has emptied
/// claims.change_horizon.
pub fn state(connection: &Connection, cursor: &ChangeCursor) -> Option<(FeedSnapshot, i32)> {
    let row = state_around(connection, Xid8(cursor.xid), cursor.set_id(), cursor.id)?;
    let standpoint = Standpoint::of(row.feed, row.era, row.node, row.change_node);
    let state = FeedSnapshot {
        horizon: standpoint.cursor(row.xid, row.id, row.at),
        decided: row.decided.0,
        next: row.next.0,
        is_standby: row.is_standby,
        found_at: row.found_at.map(|at| at.0),
    };
    Some((state, standpoint.era))
}

/// Returns the cursor of the last change that is committed on the node of the feed, and the era.
pub fn newest(connection: &Connection) -> Option<(ChangeCursor, i32)> {
    let row = newest_row(connection)?;
    let standpoint = Standpoint::of(row.feed, row.era, row.node, row.change_node);
    Some((standpoint.cursor(row.xid, row.id, row.at), standpoint.era))
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
    let rows = rows_from(connection, era, Xid8(xid), id, bucket_type, changes as i64);
    rows.into_iter().map(|named| (named.set, named.two_phase)).collect()
}

fn purge_era(connection: &Connection, era: i32, (xid, id): (Xid8, i64), before: Moment, limit: i64) -> (i64, i64) {
    let first = first_rows(connection, era, xid, id, limit);
    let mut old: Vec<OldRow> = first.into_iter().take_while(|row| row.at.0 <= before.0).collect();
    if old.iter().any(|row| row.two_phase.is_some()) {
        let prepared = two_phase::prepared(connection);
        let is_held = |row: &OldRow| row.two_phase.as_deref().is_some_and(|name| prepared.may_have(name));
        let ended = old.iter().take_while(|row| !is_held(row)).count();
        old.truncate(ended);
    }
    let Some(OldRow { xid, id, at, changes, .. }) = old.last() else { return (0, 0) };
    let last = id + i64::from(*changes) - 1;
    move_horizon(connection, *xid, last, *at);
    drop_rows(connection, era, *xid, last);
    (old.len() as i64, old.iter().map(|row| i64::from(row.changes)).sum())
}

/// Deletes rows of earlier eras, which readers cannot get any more.
fn purge_earlier(connection: &Connection, era: i32, before: Moment, limit: i64) -> (i64, i64) {
    let first = earlier_rows(connection, era, limit);
    if first.is_empty() {
        no_earlier(connection);
        return (0, 0);
    }
    let old: Vec<EarlierRow> = first.into_iter().filter(|row| row.at.0 <= before.0).collect();
    if !old.is_empty() {
        drop_earlier(connection, era, &old.iter().map(|row| row.id).collect::<Vec<i64>>());
    }
    (old.len() as i64, old.iter().map(|row| i64::from(row.changes)).sum())
}
