//! Statements on the change feed.
//!
//! Writing is set-based: the changes of one kind by one call are one row, with up to [`SET_SIZE`] changes. A session must write
//! them after it has locked the claims, or the lease that holds them. The ids are drawn here, and of two changes of one name the
//! later one must have the greater id.

use std::ops::ControlFlow;

use claims_model::Bucket;
use claims_model::feed::{ChangeCursor, FeedSnapshot, SET_SIZE};
use uuid::Uuid;

use super::errors::FeedError;
use super::tables::{
    BEGINNING, BucketChange, ChangeSet, FeedPages, FeedTables, StoredSet, WantedChanges, actor, cursor_to_continue,
};
use crate::kernel::direct;
use crate::kernel::direct::layouts::CHANGE_SETS;
use crate::kernel::error::ClaimsError;
use crate::kernel::tables::Local;
use pg::clock::Moment;
use pg::direct::Table;
use pg::name::Name;
use pg::query::{query, record, walk};
use pg::spi::Connection;
use pg::xact;
use pg::xid8::Xid8;

/// Rows before which no further rows can appear, because every transaction that could write one has ended.
macro_rules! decided {
    () => {
        "s.xid < pg_snapshot_xmin(pg_current_snapshot())"
    };
}

record! {
    /// The state of the feed around a change.
    struct StateRow {
        feed: Uuid,
        xid: Xid8,
        id: i64,
        at: Moment,
        decided: Xid8,
        is_standby: bool,
        found_at: Option<Moment>,
    }

    /// The last change that readers can get, or that was purged.
    struct NewestRow { feed: Uuid, xid: Xid8, id: i64, at: Moment }

    /// The numbers of rows and of their changes.
    struct Purged { rows: i64, changes: i64 }
}

query! {
    fn insert(
        op: &str, old_cell_id: Option<i64>, new_cell_id: Option<i64>, lease_uuid: Option<Uuid>, actor: &str, at: Moment, bucket_types: &[i32],
        bucket_values: &[&str], context: Option<&str>, cell_role: Option<&str>,
    ) = [Statement]
        "INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, lease_uuid, actor, at, bucket_types, bucket_values, context, cell_role)
         VALUES (:op, :old_cell_id, :new_cell_id, :lease_uuid, :actor, :at, :bucket_types, :bucket_values, :context, :cell_role)";
    /// Returns the state of the feed around a change, which is in row `row_id` of a transaction.
    fn state_around(xid: Xid8, row_id: i64, id: i64) -> Option<StateRow> = [Caller]
        "SELECT h.feed, h.xid, h.id, h.at, pg_snapshot_xmin(pg_current_snapshot()) AS decided, pg_is_in_recovery() AS is_standby,
                (SELECT s.at FROM claims.change_sets s
                  WHERE s.xid = :xid AND s.id = :row_id AND :id - :row_id < cardinality(s.bucket_values)) AS found_at
           FROM claims.change_horizon h";
    fn newest() -> Option<NewestRow> = [Caller] concat!(
        "SELECT h.feed, coalesce(l.xid, h.xid) AS xid, coalesce(l.id, h.id) AS id, coalesce(l.at, h.at) AS at
           FROM claims.change_horizon h
           LEFT JOIN LATERAL (SELECT s.xid, s.id + cardinality(s.bucket_values) - 1 AS id, s.at FROM claims.change_sets s
                               WHERE (s.xid, s.id) > (h.xid, h.id) AND ", decided!(), "
                               ORDER BY s.xid DESC, s.id DESC LIMIT 1) l ON true");
    /// Returns the changes of one bucket, in their order.
    fn changes_of_bucket(bucket_type: i32, bucket_value: &str) -> Vec<BucketChange> = [Caller]
        "SELECT c.at, c.op, c.old_cell_id, c.new_cell_id, c.lease_uuid, c.actor::text, c.context, c.cell_role
           FROM claims.changes_of(:bucket_type, :bucket_value) c";
    /// Deletes rows from the beginning of the feed up to the first one made after `before`, at most `most` of them. No row can appear before
    /// a row that readers can get, so purging leaves no gaps. The session that locks the horizon purges.
    fn purge(before: Moment, most: i64) -> Option<Purged> = [Statement] concat!(
        "WITH horizon AS MATERIALIZED (SELECT h.feed, h.xid, h.id FROM claims.change_horizon h FOR UPDATE SKIP LOCKED),
              first AS MATERIALIZED (
             SELECT s.xid, s.id, s.at, s.changes
               FROM horizon h
              CROSS JOIN LATERAL (SELECT s.xid, s.id, s.at, cardinality(s.bucket_values) AS changes FROM claims.change_sets s
                                   WHERE (s.xid, s.id) > (h.xid, h.id) AND ", decided!(), "
                                   ORDER BY s.xid, s.id LIMIT :most) s),
              old AS MATERIALIZED (
             SELECT a.xid, a.id, a.at, a.changes
               FROM (SELECT f.*, bool_and(f.at <= :before) OVER (ORDER BY f.xid, f.id) AS is_old FROM first f) a
              WHERE a.is_old),
              moved AS (
             UPDATE claims.change_horizon h SET xid = l.xid, id = l.id + l.changes - 1, at = l.at
               FROM (SELECT o.* FROM old o ORDER BY o.xid DESC, o.id DESC LIMIT 1) l
              WHERE h.feed = (SELECT horizon.feed FROM horizon)),
              gone AS (
             DELETE FROM claims.change_sets s USING old o WHERE s.xid = o.xid AND s.id = o.id)
         SELECT count(*) AS rows, coalesce(sum(o.changes), 0)::bigint AS changes FROM old o");
}

walk! {
    /// Passes the rows from row `row_id` of a transaction on; only those with a change of a type, unless that is NULL.
    fn rows_from(xid: Xid8, row_id: i64, bucket_type: Option<i32>) -> StoredSet = [Caller] concat!(
        "SELECT s.xid, s.id, s.at, s.op, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor::text, s.bucket_types, s.bucket_values,
                s.context, s.cell_role
           FROM claims.change_sets s
          WHERE (s.xid, s.id) >= (:xid, :row_id) AND ", decided!(), " AND (:bucket_type IS NULL OR :bucket_type = ANY (s.bucket_types))
          ORDER BY s.xid, s.id");
}

impl FeedTables for Local {
    fn tell(&self, connection: &Connection, sets: &[ChangeSet], at: Moment) {
        if !tell_directly(sets, at) {
            rows_of(sets).for_each(|(set, buckets)| tell_by_statement(connection, set, buckets, at));
        }
    }

    fn changes_of(&self, connection: &Connection, bucket_type: i32, bucket_value: &str) -> Vec<BucketChange> {
        changes_of_bucket(connection, bucket_type, bucket_value)
    }

    fn purge_changes(&self, connection: &Connection, before: Moment, limit: i64) -> (i64, i64) {
        purge(connection, before, limit).map_or((0, 0), |Purged { rows, changes }| (rows, changes))
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
                set.cause.into(),
                actor.clone().into(),
                types_of(buckets).into(),
                values_of(buckets).into(),
                None::<i32>.into(),
                None::<&str>.into(),
                set.attribution.context.as_deref().into(),
                set.attribution.cell_role.as_deref().into(),
            ]);
        }
    };
    direct::open([&CHANGE_SETS], insert).is_some()
}

fn types_of(buckets: &[&Bucket]) -> Vec<i32> {
    buckets.iter().map(|bucket| bucket.bucket_type).collect()
}

fn values_of<'b>(buckets: &[&'b Bucket]) -> Vec<&'b str> {
    buckets.iter().map(|bucket| &*bucket.value).collect()
}

fn tell_by_statement(connection: &Connection, set: &ChangeSet, buckets: &[&Bucket], at: Moment) {
    let (types, values, change) = (types_of(buckets), values_of(buckets), set.change);
    let (old, new) = (change.old_cell(), change.new_cell());
    let (context, cell_role) = (set.attribution.context.as_deref(), set.attribution.cell_role.as_deref());
    insert(connection, change.op(), old, new, set.cause, &actor(), at, &types, &values, context, cell_role);
}

/// Returns the state of the feed around a cursor in the snapshot of the calling query. `None` if somebody has emptied
/// claims.change_horizon.
fn state(connection: &Connection, cursor: &ChangeCursor) -> Option<FeedSnapshot> {
    let row = state_around(connection, Xid8(cursor.xid), cursor.set_id(), cursor.id)?;
    Some(FeedSnapshot {
        horizon: ChangeCursor { feed: row.feed, xid: row.xid.0, id: row.id, at: row.at.0 },
        decided: row.decided.0,
        next: xact::next_xid().0,
        is_standby: row.is_standby,
        found_at: row.found_at.map(|at| at.0),
    })
}

impl FeedPages for Local {
    fn newest_change(&self, connection: &Connection) -> Result<ChangeCursor, ClaimsError> {
        let NewestRow { feed, xid, id, at } = newest(connection).ok_or(FeedError::NoHorizon)?;
        xact::flush_commits();
        Ok(ChangeCursor { feed, xid: xid.0, id, at: at.0 })
    }

    fn each_change(
        &self,
        connection: &Connection,
        after: Option<ChangeCursor>,
        wanted: WantedChanges,
        each: &mut dyn FnMut(&ChangeCursor, StoredSet) -> ControlFlow<()>,
    ) -> Result<(), ClaimsError> {
        let state = state(connection, after.as_ref().unwrap_or(&BEGINNING)).ok_or(FeedError::NoHorizon)?;
        let Some(after) = cursor_to_continue(after, state)? else { return Ok(()) };
        let mut has_news = false;
        rows_from(connection, Xid8(after.xid), after.set_id(), wanted.bucket_type, |set| {
            // The row of the cursor's own change is read again. If there is nothing behind it, a polling reader needs no flush.
            let last = set.id + set.bucket_values.len() as i64 - 1;
            has_news |= (set.xid.0, last) > (after.xid, after.id);
            each(&after, set)
        });
        if has_news {
            xact::flush_commits();
        }
        Ok(())
    }
}
