//! Statements on tracked leases and fences.

use pgrx::datum::Interval;
use uuid::Uuid;

use crate::kernel::direct;
use crate::kernel::direct::layouts::{FENCES, TRACKED_LEASES, tracked};
use pg::clock::Moment;
use pg::direct::{Changed, Reading, Row, RowLock, Table};
use pg::index::KeyValue;
use pg::jsonb::Jsonb;
use pg::query::{query, record};
use pg::spi::Connection;
use pg::xact;
use pg::xid8::Xid8;

/// The condition for tracked leases of a service. Those of a server that was renamed or dropped, and those without one, can be of any.
macro_rules! at_service {
    ($service:literal) => {
        concat!(
            "(t.service = ",
            $service,
            " OR t.service IS NULL OR NOT EXISTS (SELECT FROM pg_catalog.pg_foreign_server s
                WHERE s.srvname OPERATOR(pg_catalog.=) t.service::pg_catalog.name))"
        )
    };
}
pub(crate) use at_service;

record! {
    struct FenceRow {
        lease_uuid: Uuid,
        written_by: i64,
    }

    struct StateRow {
        uuid: Uuid,
        tracked_by: Option<i64>,
        end_is_visible: bool,
    }

    struct TrackedRow {
        uuid: Uuid,
        tracked_by: i64,
        service: Option<String>,
    }

    /// A tracked lease of a page.
    pub struct ListedLease {
        pub uuid: Uuid,
        /// Whether no other service is asked for it.
        pub is_alone: bool,
    }

    struct ArgumentRow {
        lease_uuid: Option<Uuid>,
        has_age: bool,
        is_stale: Option<bool>,
        cell_xid: Option<Xid8>,
    }
}

query! {
    /// Tracks a lease. Does nothing if the lease is tracked. Waits up to `lock_timeout` for transactions that track or fence the same lease.
    pub fn track(lease: Uuid, cell_id: Option<i64>) = [Statement]
        "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) VALUES (:lease, :cell_id) ON CONFLICT DO NOTHING";
    /// Tracks a lease whose uuid this transaction has just made, where the table was altered. An existing key is an error, and is not looked
    /// for first.
    fn insert_new(lease: Uuid, cell_id: i64, service: &str) = [Statement]
        "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id, service) VALUES (:lease, :cell_id, :service)";
    fn fence_rows(leases: &[Uuid]) -> Vec<FenceRow> = [Latest]
        "SELECT lease_uuid, xmin::text::bigint AS written_by FROM claims.lease_fences WHERE lease_uuid = ANY (:leases)";
    /// Returns which of the leases are tracked, with the transaction that tracked each, and whether this snapshot is newer than the end of its
    /// transaction in `xids`.
    fn state_rows(leases: Vec<Uuid>, xids: Vec<Option<Xid8>>) -> Vec<StateRow> = [Latest]
        "SELECT c.uuid, t.xmin::text::bigint AS tracked_by, coalesce(pg_visible_in_snapshot(c.xid, pg_current_snapshot()), false) AS end_is_visible
           FROM unnest(:leases, :xids) AS c (uuid, xid) LEFT JOIN claims.cells_outstanding_leases t ON t.uuid = c.uuid";
    /// Inserts the keys of those leases that are not tracked, in uuid order, as track_lease does.
    fn take_keys(leases: &[Uuid]) -> Vec<Uuid> = [Statement]
        "INSERT INTO claims.cells_outstanding_leases (uuid) SELECT u FROM unnest(:leases) AS u ORDER BY u
         ON CONFLICT DO NOTHING RETURNING uuid";
    /// Turns the keys that [`take_keys`] has inserted into fences.
    fn fence_taken(leases: &[Uuid]) = [Statement]
        "WITH freed AS (DELETE FROM claims.cells_outstanding_leases WHERE uuid = ANY (:leases))
         INSERT INTO claims.lease_fences (lease_uuid) SELECT u FROM unnest(:leases) AS u ORDER BY u ON CONFLICT DO NOTHING";
    /// Deletes tracked leases of some cells (`None`: of all), and those without a cell, and returns how many. A lease that another session is
    /// deleting is skipped; one that it has deleted is no error under any isolation level.
    pub fn forget(leases: &[Uuid], cells: Option<&[i64]>) -> usize = [LatestToWrite]
        "WITH free AS MATERIALIZED (SELECT uuid FROM claims.cells_outstanding_leases
                                     WHERE uuid = ANY (:leases) AND (:cells IS NULL OR cell_id IS NULL OR cell_id = ANY (:cells))
                                     ORDER BY uuid FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.cells_outstanding_leases t USING free WHERE t.uuid = free.uuid";
    /// Returns the leases that a cell, or none, has tracked last at a service, as committed now.
    pub fn newest_tracked(cell_id: i64, service: &str, most: i64) -> Vec<Uuid> = [Latest] concat!(
        "SELECT t.uuid FROM claims.cells_outstanding_leases t
          WHERE (t.cell_id IS NULL OR t.cell_id = :cell_id) AND ", at_service!(":service"), " ORDER BY t.uuid DESC LIMIT :most");
    /// Returns a page of the leases that a cell, or none, has tracked at a service, as committed now, in uuid order. Of a lease without a
    /// service, that of the types that are not named is asked.
    pub fn tracked_after(cell_id: i64, service: &str, after: Uuid, most: i64) -> Vec<ListedLease> = [Latest] concat!(
        "SELECT t.uuid, coalesce(t.service = :service, false)
                OR NOT EXISTS (SELECT FROM claims.attended_cells a WHERE a.cell_id = :cell_id AND a.service = :service AND a.by_type) AS is_alone
           FROM claims.cells_outstanding_leases t
          WHERE t.uuid > :after AND (t.cell_id IS NULL OR t.cell_id = :cell_id) AND ", at_service!(":service"), " ORDER BY t.uuid LIMIT :most");
    /// Returns the leases between two uuids that a cell, or none, has tracked, each with the transaction that tracked it, and the service if
    /// that still exists.
    fn tracked_between(from: Uuid, to: Uuid, cell_id: i64) -> Vec<TrackedRow> = [Latest]
        "SELECT t.uuid, t.xmin::text::bigint AS tracked_by,
                (SELECT s.srvname::text FROM pg_foreign_server s WHERE s.srvname = t.service::name) AS service
           FROM claims.cells_outstanding_leases t
          WHERE t.uuid BETWEEN :from AND :to AND (t.cell_id IS NULL OR t.cell_id = :cell_id) ORDER BY t.uuid";
    /// Unfolds the argument of judge_leases, in its order. A lease is stale if it is older than `stale_after`. A created_at as far in the
    /// future tells no age, so that lease is stale, too.
    fn argument_rows(leases: Jsonb, stale_after: Interval) -> Vec<ArgumentRow> = [Caller]
        "SELECT l.lease_uuid, l.created_at IS NOT NULL AS has_age,
                l.created_at <= clock_timestamp() - :stale_after OR l.created_at > clock_timestamp() + :stale_after + interval '1 minute' AS is_stale,
                l.cell_xid
           FROM jsonb_array_elements(:leases) WITH ORDINALITY AS e (lease, place),
                jsonb_to_record(e.lease) AS l (lease_uuid uuid, created_at timestamptz, cell_xid xid8)
          ORDER BY e.place";
    /// Deletes up to `most` fences written more than `retention` seconds ago, the oldest first, and returns how many. Keeps a fence if a
    /// transaction of this database is open that began before it: that may be the transaction which the fence must stop. A session that does
    /// not report its transactions counts from its start. Purging also runs where the service's tables are distributed; there are no fences.
    pub fn purge_fences(retention: i64, most: i64) -> usize = [Statement Anywhere]
        "WITH old AS MATERIALIZED
             (SELECT lease_uuid FROM claims.lease_fences
               WHERE fenced_at <= clock_timestamp() - make_interval(secs => :retention)
               ORDER BY fenced_at LIMIT :most FOR UPDATE SKIP LOCKED),
              alive AS MATERIALIZED
             (SELECT coalesce(a.xact_start, a.backend_start, '-infinity') AS since FROM pg_stat_activity a
               WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
                 AND (a.xact_start IS NOT NULL OR a.state = 'disabled' OR a.query = '<insufficient privilege>')
                 AND EXISTS (SELECT FROM old))
         DELETE FROM claims.lease_fences f USING old
          WHERE f.lease_uuid = old.lease_uuid AND NOT EXISTS (SELECT FROM alive WHERE alive.since <= f.fenced_at)";
}

/// Like [`forget`], for leases of one cell that this session has tracked and committed. It deletes their rows without a statement, because a
/// session does this for each of its saves, in uuid order. Another session may have done so.
pub fn forget_own(connection: &Connection, mut leases: Vec<Uuid>, cell_id: i64) {
    leases.sort_unstable();
    let delete = |[table]: [&Table; 1]| {
        table.look_up(Reading::Latest, |rows| {
            for lease in &leases {
                let is_of_cell = |row: &Row| row.get::<i64>(tracked::CELL_ID) == Some(cell_id);
                if let Some(row) = rows.find([KeyValue::Uuid(*lease)], is_of_cell)
                    && table.lock(&row, RowLock::Update) == Changed::Done
                {
                    table.delete(&row);
                }
            }
        });
    };
    if direct::open([&TRACKED_LEASES], delete).is_none() {
        forget(connection, &leases, Some(&[cell_id]));
    }
}

/// Converts an xmin that was read as a number.
fn xmin(printed: i64) -> u32 {
    u32::try_from(printed).unwrap_or(0)
}

/// Tracks a lease that no other transaction can have tracked. If one has, that is a unique violation. It writes the row without a
/// statement, because every automatic save does this.
pub fn track_new(connection: &Connection, lease: Uuid, cell_id: i64, service: &str) {
    let now = Moment::now();
    let insert = |[table]: [&Table; 1]| {
        table.insert(&[lease.into(), now.into(), now.into(), cell_id.into(), service.into()]);
    };
    if direct::open([&TRACKED_LEASES], insert).is_none() {
        insert_new(connection, lease, cell_id, service);
    }
}

/// Returns whether a lease is fenced: by a fence that is committed now, under every isolation level, or by this transaction. It reads
/// the index without a statement, because every save asks this.
pub fn is_fenced(connection: &Connection, lease: Uuid) -> bool {
    let is_there = |[table]: [&Table; 1]| {
        table.look_up(Reading::Latest, |rows| rows.find([KeyValue::Uuid(lease)], |_| true).is_some())
    };
    pg::direct::read([&FENCES], is_there).unwrap_or_else(|| !fences(connection, &[lease]).is_empty())
}

pub struct Fence {
    pub lease: Uuid,
    /// Whether this transaction has written it, so that it is not committed.
    pub is_own: bool,
}

/// Returns the fences of leases: those that are committed now, under every isolation level, and this transaction's own.
pub fn fences(connection: &Connection, leases: &[Uuid]) -> Vec<Fence> {
    let rows = fence_rows(connection, leases).into_iter();
    rows.map(|row| Fence { lease: row.lease_uuid, is_own: xact::is_own(xmin(row.written_by)) }).collect()
}

/// The state of a lease in the latest snapshot.
pub struct TrackedState {
    pub lease: Uuid,
    pub tracked: bool,
    /// Whether this transaction has tracked it, so that it is not committed.
    pub tracked_here: bool,
    pub end_is_visible: bool,
}

/// Returns the states of leases, all in one snapshot.
pub fn states(connection: &Connection, leases: impl Iterator<Item = (Uuid, Option<Xid8>)>) -> Vec<TrackedState> {
    let (uuids, xids) = leases.unzip();
    let state = |row: StateRow| {
        let written_by = row.tracked_by.map(xmin);
        let tracked_here = written_by.is_some_and(xact::is_own);
        TrackedState {
            lease: row.uuid,
            tracked: written_by.is_some() && !tracked_here,
            tracked_here,
            end_is_visible: row.end_is_visible,
        }
    };
    state_rows(connection, uuids, xids).into_iter().map(state).collect()
}

/// Fences those of the leases that are not tracked, and returns them. It first inserts the key that track_lease inserts. So it
/// meets every track_lease of the same lease, whether that is still open, committed, or yet to begin.
pub fn fence(connection: &Connection, leases: &[Uuid]) -> Vec<Uuid> {
    let taken = take_keys(connection, leases);
    if !taken.is_empty() {
        fence_taken(connection, &taken);
    }
    taken
}

/// A lease that a committed transaction has tracked.
pub struct TrackedLease {
    pub lease: Uuid,
    /// The transaction, or the subtransaction.
    pub by: u32,
    /// The foreign server of its service, if that is known and still exists.
    pub service: Option<String>,
}

/// Returns the leases between two uuids that a cell has tracked, as committed now, in uuid order.
pub fn between(connection: &Connection, from: Uuid, to: Uuid, cell_id: i64) -> Vec<TrackedLease> {
    let lease = |row: TrackedRow| TrackedLease { lease: row.uuid, by: xmin(row.tracked_by), service: row.service };
    let rows = tracked_between(connection, from, to, cell_id).into_iter().map(lease);
    rows.filter(|tracked| !xact::is_own(tracked.by)).collect()
}

/// An element of the argument of judge_leases.
pub struct LeaseArgument {
    pub lease: Option<Uuid>,
    /// `None` without a created_at.
    pub stale: Option<bool>,
    pub cell_xid: Option<Xid8>,
}

/// Returns the elements of the argument of judge_leases.
pub fn lease_arguments(connection: &Connection, leases: Jsonb, stale_after: Interval) -> Vec<LeaseArgument> {
    let argument = |row: ArgumentRow| LeaseArgument {
        lease: row.lease_uuid,
        stale: row.is_stale.filter(|_| row.has_age),
        cell_xid: row.cell_xid,
    };
    argument_rows(connection, leases, stale_after).into_iter().map(argument).collect()
}
