//! Statements on tracked leases and fences.

use pgrx::datum::Interval;
use uuid::Uuid;

use crate::direct;
use crate::direct::layouts::TRACKED_LEASES;
use pg::clock::Moment;
use pg::direct::Table;
use pg::index::{self, KeyPart, KeyValue};
use pg::jsonb::Jsonb;
use pg::spi::{Connection, View};
use pg::statement::{shared_statement, statement};
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};
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

statement! {
    /// Tracks lease $1 for cell $2, or NULL. Waits up to `lock_timeout` for transactions that track or fence the same lease.
    TRACK(UUIDOID, INT8OID) =
        "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    /// Like [TRACK], for a lease whose uuid this transaction has just made, where the table was altered. An existing key is an error, and is
    /// not looked for first.
    TRACK_NEW(UUIDOID, INT8OID, TEXTOID) = "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id, service) VALUES ($1, $2, $3)";
    /// Returns the fences among $1, each with the transaction that wrote it.
    FENCES(UUIDARRAYOID) =
        "SELECT lease_uuid, xmin::text::bigint FROM claims.lease_fences WHERE lease_uuid = ANY ($1)";
    /// Returns which of the leases $1 are tracked, with the transaction that tracked each, and whether this snapshot is newer than the
    /// end of its transaction in $2.
    STATES(UUIDARRAYOID, XID8ARRAYOID) =
        "SELECT c.uuid, t.xmin::text::bigint, coalesce(pg_visible_in_snapshot(c.xid, pg_current_snapshot()), false)
           FROM unnest($1, $2) AS c (uuid, xid) LEFT JOIN claims.cells_outstanding_leases t ON t.uuid = c.uuid";
    /// Inserts the keys of those leases in $1 that are not tracked, in uuid order, as track_lease does.
    TAKE_KEYS(UUIDARRAYOID) =
        "INSERT INTO claims.cells_outstanding_leases (uuid) SELECT u FROM unnest($1) AS u ORDER BY u
         ON CONFLICT DO NOTHING RETURNING uuid";
    /// Turns the keys that TAKE_KEYS has inserted into fences.
    FENCE(UUIDARRAYOID) =
        "WITH freed AS (DELETE FROM claims.cells_outstanding_leases WHERE uuid = ANY ($1))
         INSERT INTO claims.lease_fences (lease_uuid) SELECT u FROM unnest($1) AS u ORDER BY u ON CONFLICT DO NOTHING";
    /// Deletes tracked leases of the cells $2 (NULL: of all cells), and those without a cell. Skips leases that another session is
    /// deleting.
    FORGET(UUIDARRAYOID, INT8ARRAYOID) =
        "WITH free AS MATERIALIZED (SELECT uuid FROM claims.cells_outstanding_leases
                                     WHERE uuid = ANY ($1) AND ($2 IS NULL OR cell_id IS NULL OR cell_id = ANY ($2))
                                     ORDER BY uuid FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.cells_outstanding_leases t USING free WHERE t.uuid = free.uuid";
    /// Reads the newest leases that were tracked at service $3 for cell $2 or without a cell, at most $1.
    NEWEST_TRACKED(INT8OID, INT8OID, TEXTOID) = concat!(
        "SELECT t.uuid FROM claims.cells_outstanding_leases t
          WHERE (t.cell_id IS NULL OR t.cell_id = $2) AND ", at_service!("$3"), " ORDER BY t.uuid DESC LIMIT $1");
    /// Returns a page of the leases above $1 that are tracked at service $4 and belong to cell $3 or have no cell. The second column says
    /// whether only this service can know the lease: of a lease without a service, that of the types that are not named is asked.
    TRACKED(UUIDOID, INT8OID, INT8OID, TEXTOID) = concat!(
        "SELECT t.uuid, coalesce(t.service = $4, false)
                OR NOT EXISTS (SELECT FROM claims.attended_cells a WHERE a.cell_id = $3 AND a.service = $4 AND a.by_type)
           FROM claims.cells_outstanding_leases t
          WHERE t.uuid > $1 AND (t.cell_id IS NULL OR t.cell_id = $3) AND ", at_service!("$4"), " ORDER BY t.uuid LIMIT $2");
    /// Returns the tracked leases from $1 to $2 that belong to cell $3 or have no cell, each with the transaction that tracked it, and the
    /// service if that still exists.
    BETWEEN(UUIDOID, UUIDOID, INT8OID) =
        "SELECT t.uuid, t.xmin::text::bigint, (SELECT s.srvname::text FROM pg_foreign_server s WHERE s.srvname = t.service::name)
           FROM claims.cells_outstanding_leases t
          WHERE t.uuid BETWEEN $1 AND $2 AND (t.cell_id IS NULL OR t.cell_id = $3) ORDER BY t.uuid";
    /// Unfolds the argument of judge_leases, in its order: the lease, whether it has a created_at, whether it is stale, and its
    /// cell_xid. A lease is stale if it is older than $2. A created_at as far in the future tells no age, so that lease is stale, too.
    LEASE_ARGUMENTS(JSONBOID, INTERVALOID) =
        "SELECT l.lease_uuid, l.created_at IS NOT NULL,
                l.created_at <= clock_timestamp() - $2 OR l.created_at > clock_timestamp() + $2 + interval '1 minute', l.cell_xid
           FROM jsonb_array_elements($1) WITH ORDINALITY AS e (lease, place),
                jsonb_to_record(e.lease) AS l (lease_uuid uuid, created_at timestamptz, cell_xid xid8)
          ORDER BY e.place";
}

// Shared: purging also runs where the service's tables are distributed. There it finds no fences.
shared_statement! {
    /// Deletes up to $2 fences written more than $1 seconds ago, the oldest first. Keeps a fence if a transaction of this database
    /// is open that began before it: that may be the transaction which the fence must stop. A session that does not report its
    /// transactions counts from its start.
    PURGE_FENCES(INT8OID, INT8OID) =
        "WITH old AS MATERIALIZED
             (SELECT lease_uuid FROM claims.lease_fences
               WHERE fenced_at <= clock_timestamp() - make_interval(secs => $1)
               ORDER BY fenced_at LIMIT $2 FOR UPDATE SKIP LOCKED),
              alive AS MATERIALIZED
             (SELECT coalesce(a.xact_start, a.backend_start, '-infinity') AS since FROM pg_stat_activity a
               WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
                 AND (a.xact_start IS NOT NULL OR a.state = 'disabled' OR a.query = '<insufficient privilege>')
                 AND EXISTS (SELECT FROM old))
         DELETE FROM claims.lease_fences f USING old
          WHERE f.lease_uuid = old.lease_uuid AND NOT EXISTS (SELECT FROM alive WHERE alive.since <= f.fenced_at)";
}

/// Converts an xmin that was read as a number.
fn xmin(printed: i64) -> u32 {
    u32::try_from(printed).unwrap_or(0)
}

/// Tracks a lease. Does nothing if the lease is tracked.
pub fn track(connection: &Connection, lease: Uuid, cell_id: Option<i64>) {
    connection.run(&TRACK, View::Statement, [pg_uuid(lease).into(), cell_id.into()]);
}

/// Tracks a lease that no other transaction can have tracked. If one has, that is a unique violation. It writes the row without a
/// statement, because every automatic save does this.
pub fn track_new(connection: &Connection, lease: Uuid, cell_id: i64, service: &str) {
    let now = Moment::now();
    let insert = |[table]: [&Table; 1]| {
        table.insert(&[pg_uuid(lease).into(), now.into(), now.into(), cell_id.into(), service.into()]);
    };
    if direct::open([&TRACKED_LEASES], insert).is_none() {
        connection.run(&TRACK_NEW, View::Statement, [pg_uuid(lease).into(), cell_id.into(), service.into()]);
    }
}

/// Returns whether a lease is fenced: by a fence that is committed now, under every isolation level, or by this transaction. It reads
/// the index without a statement, because every save asks this.
pub fn is_fenced(connection: &Connection, lease: Uuid) -> bool {
    let key = [KeyPart { column: c"lease_uuid", value: KeyValue::Uuid(pg_uuid(lease)) }];
    index::is_there_now(c"lease_fences", &key).unwrap_or_else(|_| !fences(connection, &[lease]).is_empty())
}

pub struct Fence {
    pub lease: Uuid,
    /// Whether this transaction has written it, so that it is not committed.
    pub is_own: bool,
}

/// Returns the fences of leases: those that are committed now, under every isolation level, and this transaction's own.
pub fn fences(connection: &Connection, leases: &[Uuid]) -> Vec<Fence> {
    let rows = connection.run(&FENCES, View::Latest, [pg_uuids(leases.iter().copied())]);
    rows.map(|row| Fence { lease: from_pg_uuid(row.must(1)), is_own: xact::is_own(xmin(row.must(2))) })
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
    let (uuids, xids): (Vec<_>, Vec<_>) = leases.unzip();
    connection.run(&STATES, View::Latest, [pg_uuids(uuids), xids.into()]).map(|row| {
        let written_by = row.get(2).map(xmin);
        let tracked_here = written_by.is_some_and(xact::is_own);
        TrackedState {
            lease: from_pg_uuid(row.must(1)),
            tracked: written_by.is_some() && !tracked_here,
            tracked_here,
            end_is_visible: row.must(3),
        }
    })
}

/// Fences those of the leases that are not tracked, and returns them. It first inserts the key that track_lease inserts. So it
/// meets every track_lease of the same lease, whether that is still open, committed, or yet to begin.
pub fn fence(connection: &Connection, leases: &[Uuid]) -> Vec<Uuid> {
    let rows = connection.run(&TAKE_KEYS, View::Statement, [pg_uuids(leases.iter().copied())]);
    let taken = rows.map(|row| from_pg_uuid(row.must(1)));
    if !taken.is_empty() {
        connection.run(&FENCE, View::Statement, [pg_uuids(taken.iter().copied())]);
    }
    taken
}

/// Deletes tracked leases of some cells (`None`: of all) and returns how many. A lease that another session has deleted is no
/// error under any isolation level.
pub fn forget(connection: &Connection, leases: &[Uuid], cells: Option<&[i64]>) -> usize {
    let values = [pg_uuids(leases.iter().copied()), cells.map(<[i64]>::to_vec).into()];
    connection.run(&FORGET, View::LatestToWrite, values).count()
}

/// Returns the leases that a cell has tracked last at a service, as committed now.
pub fn newest_tracked(connection: &Connection, cell_id: i64, service: &str, limit: i64) -> Vec<Uuid> {
    let values = [limit.into(), cell_id.into(), service.into()];
    connection.run(&NEWEST_TRACKED, View::Latest, values).map(|row| from_pg_uuid(row.must(1)))
}

/// Returns a page of the leases that a cell has tracked at a service, as committed now, in uuid order, each with whether no other service
/// is asked for it.
pub fn tracked_after(
    connection: &Connection,
    cell_id: i64,
    service: &str,
    after: Uuid,
    limit: i64,
) -> Vec<(Uuid, bool)> {
    let values = [pg_uuid(after).into(), limit.into(), cell_id.into(), service.into()];
    connection.run(&TRACKED, View::Latest, values).map(|row| (from_pg_uuid(row.must(1)), row.must(2)))
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
    let values = [pg_uuid(from).into(), pg_uuid(to).into(), cell_id.into()];
    let rows = connection.run(&BETWEEN, View::Latest, values).map(|row| TrackedLease {
        lease: from_pg_uuid(row.must(1)),
        by: xmin(row.must(2)),
        service: row.get(3),
    });
    rows.into_iter().filter(|tracked| !xact::is_own(tracked.by)).collect()
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
    connection.run(&LEASE_ARGUMENTS, View::Caller, [leases.into(), stale_after.into()]).map(|row| LeaseArgument {
        lease: row.get(1).map(from_pg_uuid),
        stale: row.must::<bool>(2).then(|| row.get(3)).flatten(),
        cell_xid: row.get(4),
    })
}

/// Deletes up to `limit` fences older than `retention` seconds that no open transaction can need. Returns how many.
pub fn purge_fences(connection: &Connection, retention: i64, limit: i64) -> usize {
    connection.run(&PURGE_FENCES, View::Statement, [retention.into(), limit.into()]).count()
}
