//! Statements on the change feed.
//!
//! Writing is set-based: the changes of one kind by one call are one row, with up to [`SET_SIZE`] changes. A session must write
//! them after it has locked the claims, or the lease that holds them. The ids are drawn here, and of two changes of one name the
//! later one must have the greater id.

use std::ops::ControlFlow;

use claims_model::Bucket;
use claims_model::feed::{ChangeCursor, FeedSnapshot, SET_SIZE};
use pgrx::Uuid as PgUuid;

use super::door::Local;
use crate::direct;
use crate::direct::layouts::CHANGE_SETS;
use crate::error::ClaimsError;
use crate::tables::door::{FeedPages, FeedTables, WantedChanges};
use crate::tables::errors::FeedError;
use crate::tables::rows::feed::{
    BEGINNING, BucketChange, ChangeSet, StoredSet, actor, bucket_change, start, stored_set,
};
use pg::clock::Moment;
use pg::direct::Table;
use pg::name::Name;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::statement;
use pg::uuid::{from_pg_uuid, pg_uuid};
use pg::xact;
use pg::xid8::Xid8;

/// An INSERT of the changes that the CTE `$from` returns in columns bucket_type and bucket_value, for statements that change
/// claims in bulk and do not return them to Rust. The other arguments are expressions: op, old and new cell, lease or transfer,
/// actor.
macro_rules! tell_all {
    ($from:literal, $op:literal, $old:literal, $new:literal, $lease:literal, $actor:literal) => {
        concat!(
            "INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, lease_uuid, actor, bucket_types, bucket_values)
             SELECT ",
            $op,
            ", ",
            $old,
            ", ",
            $new,
            ", ",
            $lease,
            ", ",
            $actor,
            ", array_agg(n.bucket_type), array_agg(n.bucket_value)
               FROM (SELECT g.bucket_type, g.bucket_value, (row_number() OVER () - 1) / 1000 AS portion FROM ",
            $from,
            " g) n GROUP BY n.portion ORDER BY n.portion"
        )
    };
}
pub(super) use tell_all;

/// Rows before which no further rows can appear, because every transaction that could write one has ended.
macro_rules! decided {
    () => {
        "s.xid < pg_snapshot_xmin(pg_current_snapshot())"
    };
}

statement! {
    TELL(TEXTOID, INT8OID, INT8OID, UUIDOID, TEXTOID, TIMESTAMPTZOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, lease_uuid, actor, at, bucket_types, bucket_values)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    /// Returns the state of the feed around change $3, which is in row $2 of transaction $1.
    STATE(XID8OID, INT8OID, INT8OID) =
        "SELECT h.feed, h.xid, h.id, h.at, pg_snapshot_xmin(pg_current_snapshot()), pg_is_in_recovery(),
                (SELECT s.at FROM claims.change_sets s WHERE s.xid = $1 AND s.id = $2 AND $3 - $2 < cardinality(s.bucket_values))
           FROM claims.change_horizon h";
    /// Returns the last change that readers can get, or that was purged.
    NEWEST() = concat!(
        "SELECT h.feed, coalesce(l.xid, h.xid), coalesce(l.id, h.id), coalesce(l.at, h.at)
           FROM claims.change_horizon h
           LEFT JOIN LATERAL (SELECT s.xid, s.id + cardinality(s.bucket_values) - 1 AS id, s.at FROM claims.change_sets s
                               WHERE (s.xid, s.id) > (h.xid, h.id) AND ", decided!(), "
                               ORDER BY s.xid DESC, s.id DESC LIMIT 1) l ON true");
    /// Returns rows from row $2 of transaction $1 on; only those with a change of type $3, unless that is NULL.
    FROM_ROW(XID8OID, INT8OID, INT4OID) = concat!(
        "SELECT s.xid, s.id, s.at, s.op, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor::text, s.bucket_types, s.bucket_values
           FROM claims.change_sets s
          WHERE (s.xid, s.id) >= ($1, $2) AND ", decided!(), " AND ($3 IS NULL OR $3 = ANY (s.bucket_types))
          ORDER BY s.xid, s.id");
    /// Returns the changes of one bucket, in their order.
    OF_BUCKET(INT4OID, TEXTOID) =
        "SELECT c.at, c.op, c.old_cell_id, c.new_cell_id, c.lease_uuid, c.actor::text FROM claims.changes_of($1, $2) c";
    /// Deletes rows from the beginning of the feed up to the first one made after $1, at most $2 of them. Returns their number,
    /// and the number of their changes. No row can appear before a row that readers can get, so purging leaves no gaps. The
    /// session that locks the horizon purges.
    PURGE(TIMESTAMPTZOID, INT8OID) = concat!(
        "WITH horizon AS MATERIALIZED (SELECT h.feed, h.xid, h.id FROM claims.change_horizon h FOR UPDATE SKIP LOCKED),
              first AS MATERIALIZED (
             SELECT s.xid, s.id, s.at, s.changes
               FROM horizon h
              CROSS JOIN LATERAL (SELECT s.xid, s.id, s.at, cardinality(s.bucket_values) AS changes FROM claims.change_sets s
                                   WHERE (s.xid, s.id) > (h.xid, h.id) AND ", decided!(), "
                                   ORDER BY s.xid, s.id LIMIT $2) s),
              old AS MATERIALIZED (
             SELECT a.xid, a.id, a.at, a.changes
               FROM (SELECT f.*, bool_and(f.at <= $1) OVER (ORDER BY f.xid, f.id) AS is_old FROM first f) a
              WHERE a.is_old),
              moved AS (
             UPDATE claims.change_horizon h SET xid = l.xid, id = l.id + l.changes - 1, at = l.at
               FROM (SELECT o.* FROM old o ORDER BY o.xid DESC, o.id DESC LIMIT 1) l
              WHERE h.feed = (SELECT horizon.feed FROM horizon)),
              gone AS (
             DELETE FROM claims.change_sets s USING old o WHERE s.xid = o.xid AND s.id = o.id)
         SELECT count(*), coalesce(sum(o.changes), 0)::bigint FROM old o");
}

impl FeedTables for Local {
    fn tell(&self, connection: &Connection, sets: &[ChangeSet], at: Moment) {
        if !tell_directly(sets, at) {
            rows_of(sets).for_each(|(set, buckets)| tell_by_statement(connection, set, buckets, at));
        }
    }

    fn changes_of(&self, connection: &Connection, bucket_type: i32, bucket_value: &str) -> Vec<BucketChange> {
        connection
            .run(&OF_BUCKET, View::Caller, [bucket_type.into(), bucket_value.into()])
            .map(|row| bucket_change(&row))
    }

    fn purge_changes(&self, connection: &Connection, before: Moment, limit: i64) -> (i64, i64) {
        let rows = connection.run(&PURGE, View::Statement, [before.into(), limit.into()]);
        rows.first(|row| (row.must(1), row.must(2))).unwrap_or_default()
    }
}

/// Returns the rows for sets of changes: each has its set, and up to [`SET_SIZE`] of the buckets.
fn rows_of<'s>(sets: &'s [ChangeSet<'s>]) -> impl Iterator<Item = (&'s ChangeSet<'s>, &'s [&'s Bucket<'s>])> {
    sets.iter().flat_map(|set| set.buckets.chunks(SET_SIZE).map(move |buckets| (set, buckets)))
}

/// Inserts the rows for sets of changes without a statement. Returns false, and inserts nothing, if the table is not as the extension has
/// created it.
fn tell_directly(sets: &[ChangeSet], at: Moment) -> bool {
    let actor = Name(actor());
    let insert = |[table]: [&Table; 1]| {
        for (set, buckets) in rows_of(sets) {
            table.insert(&[
                xact::own_xid().into(),
                table.next_identity().into(),
                at.into(),
                set.change.op().into(),
                set.change.old_cell().into(),
                set.change.new_cell().into(),
                set.cause.map(pg_uuid).into(),
                actor.clone().into(),
                types_of(buckets),
                values_of(buckets),
                None::<i32>.into(),
                None::<&str>.into(),
            ]);
        }
    };
    direct::open([&CHANGE_SETS], insert).is_some()
}

fn types_of(buckets: &[&Bucket]) -> Value {
    buckets.iter().map(|bucket| bucket.bucket_type).collect::<Vec<i32>>().into()
}

fn values_of(buckets: &[&Bucket]) -> Value {
    buckets.iter().map(|bucket| &*bucket.value).collect::<Vec<&str>>().into()
}

fn tell_by_statement(connection: &Connection, set: &ChangeSet, buckets: &[&Bucket], at: Moment) {
    let values: [Value; 8] = [
        set.change.op().into(),
        set.change.old_cell().into(),
        set.change.new_cell().into(),
        set.cause.map(pg_uuid).into(),
        actor().into(),
        at.into(),
        types_of(buckets),
        values_of(buckets),
    ];
    connection.run(&TELL, View::Statement, values);
}

/// Returns the state of the feed around a cursor in the snapshot of the calling query. `None` if somebody has emptied
/// claims.change_horizon.
fn state(connection: &Connection, cursor: &ChangeCursor) -> Option<FeedSnapshot> {
    let values = [Xid8(cursor.xid).into(), cursor.set_id().into(), cursor.id.into()];
    connection.run(&STATE, View::Caller, values).first(|row| FeedSnapshot {
        horizon: cursor_of(&row),
        decided: row.must::<Xid8>(5).0,
        next: xact::next_xid().0,
        is_standby: row.must(6),
        found_at: row.get::<Moment>(7).map(|at| at.0),
    })
}

impl FeedPages for Local {
    fn newest_change(&self, connection: &Connection) -> Result<ChangeCursor, ClaimsError> {
        let newest =
            connection.run(&NEWEST, View::Caller, []).first(|row| cursor_of(&row)).ok_or(FeedError::NoHorizon)?;
        xact::flush_commits();
        Ok(newest)
    }

    fn each_change(
        &self,
        connection: &Connection,
        after: Option<ChangeCursor>,
        wanted: WantedChanges,
        each: &mut dyn FnMut(&ChangeCursor, StoredSet) -> ControlFlow<()>,
    ) -> Result<(), ClaimsError> {
        let state = state(connection, after.as_ref().unwrap_or(&BEGINNING)).ok_or(FeedError::NoHorizon)?;
        let Some(after) = start(after, state)? else { return Ok(()) };
        let mut has_news = false;
        each_from(connection, &after, wanted.bucket_type, |set| {
            // The row of the cursor's own change is read again. If there is nothing behind it, a polling reader needs no flush.
            let last = set.id + set.bucket_values.len() as i64 - 1;
            has_news |= (set.xid, last) > (after.xid, after.id);
            each(&after, set)
        });
        if has_news {
            xact::flush_commits();
        }
        Ok(())
    }
}

fn cursor_of(row: &Row) -> ChangeCursor {
    let (feed, at) = (from_pg_uuid(row.must::<PgUuid>(1)), row.must::<Moment>(4).0);
    ChangeCursor { feed, xid: row.must::<Xid8>(2).0, id: row.must(3), at }
}

/// Passes the rows of the feed from the row of the cursor's change on to `each`, in the snapshot of the calling query: rows with
/// changes of one type, or all. Each row is passed before the next one is read.
fn each_from(
    connection: &Connection,
    cursor: &ChangeCursor,
    bucket_type: Option<i32>,
    mut each: impl FnMut(StoredSet) -> ControlFlow<()>,
) {
    let values = [Xid8(cursor.xid).into(), cursor.set_id().into(), bucket_type.into()];
    connection.walk(&FROM_ROW, values, true, |row| each(stored_set(&row)));
}
