//! Statements on the cell's half: tracked leases and fences.

use pgrx::datum::Interval;
use uuid::Uuid;

use crate::pg::index::{self, KeyPart, KeyValue};
use crate::pg::jsonb::Jsonb;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};
use crate::pg::xact;
use crate::pg::xid8::Xid8;

statement! {
    /// Tracks lease $1 for cell $2, if it is known. Waits for transactions that track or fence the same lease, up to `lock_timeout`.
    TRACK(UUIDOID, INT8OID) =
        "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    /// The same for a lease whose uuid this transaction has just made. A key that is there is an error, and not looked for.
    TRACK_NEW(UUIDOID, INT8OID) = "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) VALUES ($1, $2)";
    /// Fences among $1, and who wrote them.
    FENCES(UUIDARRAYOID) =
        "SELECT lease_uuid, xmin::text::bigint FROM claims.lease_fences WHERE lease_uuid = ANY ($1)";
    /// Which of the leases $1 are tracked, and by which transaction; and whether this snapshot is newer than the end of their
    /// transactions $2.
    SIGHT(UUIDARRAYOID, XID8ARRAYOID) =
        "SELECT c.uuid, t.xmin::text::bigint, coalesce(pg_visible_in_snapshot(c.xid, pg_current_snapshot()), false)
           FROM unnest($1, $2) AS c (uuid, xid) LEFT JOIN claims.cells_outstanding_leases t ON t.uuid = c.uuid";
    /// Inserts the keys of the leases $1 that are not tracked, in uuid order, as track_lease does.
    TAKE_KEYS(UUIDARRAYOID) =
        "INSERT INTO claims.cells_outstanding_leases (uuid) SELECT u FROM unnest($1) AS u ORDER BY u
         ON CONFLICT DO NOTHING RETURNING uuid";
    /// Turns keys that were just inserted into fences.
    FENCE(UUIDARRAYOID) =
        "WITH freed AS (DELETE FROM claims.cells_outstanding_leases WHERE uuid = ANY ($1))
         INSERT INTO claims.lease_fences (lease_uuid) SELECT u FROM unnest($1) AS u ORDER BY u ON CONFLICT DO NOTHING";
    /// Forgets tracked leases, unless they are known to be of cells other than $2 (NULL: of any), skipping those that
    /// another session is forgetting.
    FORGET(UUIDARRAYOID, INT8ARRAYOID) =
        "WITH free AS MATERIALIZED (SELECT uuid FROM claims.cells_outstanding_leases
                                     WHERE uuid = ANY ($1) AND ($2 IS NULL OR cell_id IS NULL OR cell_id = ANY ($2))
                                     ORDER BY uuid FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.cells_outstanding_leases t USING free WHERE t.uuid = free.uuid";
    /// A page of the tracked leases of cell $3 behind $1, and of those whose cell is not known.
    TRACKED(UUIDOID, INT8OID, INT8OID) =
        "SELECT uuid FROM claims.cells_outstanding_leases
          WHERE uuid > $1 AND (cell_id IS NULL OR cell_id = $3) ORDER BY uuid LIMIT $2";
    /// What judge_leases was given, in its order: lease, whether its age is known, whether it is older than $2 (or dated as far
    /// ahead: then nobody knows how old it is), its transaction.
    GIVEN(JSONBOID, INTERVALOID) =
        "SELECT l.lease_uuid, l.created_at IS NOT NULL,
                l.created_at <= clock_timestamp() - $2 OR l.created_at > clock_timestamp() + $2 + interval '1 minute', l.cell_xid
           FROM jsonb_array_elements($1) WITH ORDINALITY AS e (lease, place),
                jsonb_to_record(e.lease) AS l (lease_uuid uuid, created_at timestamptz, cell_xid xid8)
          ORDER BY e.place";
    /// Deletes fences written more than $1 seconds ago, at most $2 of them, the oldest first; but none that is newer than an
    /// open transaction of this database, which may be the one that the fence is for. (A session that
    /// does not report its transactions counts from its start.)
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

/// The xmin of a row, read as a number.
fn xmin(printed: i64) -> u32 {
    u32::try_from(printed).unwrap_or(0)
}

/// Tracks a lease. Does nothing if it is tracked already.
pub fn track(connection: &Connection, lease: Uuid, cell_id: Option<i64>) {
    connection.run(&TRACK, View::Statement, [pg_uuid(lease).into(), cell_id.into()]);
}

/// Tracks a lease that nobody else can have tracked. Where somebody has, that is a unique violation.
pub fn track_new(connection: &Connection, lease: Uuid, cell_id: i64) {
    connection.run(&TRACK_NEW, View::Statement, [pg_uuid(lease).into(), cell_id.into()]);
}

/// Whether a lease is fenced now, whatever the isolation level, or by this transaction. Without a statement: every save asks.
pub fn is_fenced(connection: &Connection, lease: Uuid) -> bool {
    let key = [KeyPart { column: c"lease_uuid", value: KeyValue::Uuid(pg_uuid(lease)) }];
    index::is_there_now(c"lease_fences", &key).unwrap_or_else(|_| !fences(connection, &[lease]).is_empty())
}

/// A fence.
pub struct Fence {
    pub lease: Uuid,
    /// Written by this transaction, so not committed.
    pub is_own: bool,
}

/// The fences of leases: those that are committed now, whatever the isolation level, and this transaction's own.
pub fn fences(connection: &Connection, leases: &[Uuid]) -> Vec<Fence> {
    let rows = connection.run(&FENCES, View::Latest, [pg_uuids(leases.iter().copied())]);
    rows.map(|row| Fence { lease: from_pg_uuid(row.must(1)), is_own: xact::is_own(xmin(row.must(2))) })
}

/// What the latest snapshot shows of a lease.
pub struct Sight {
    pub lease: Uuid,
    pub tracked: bool,
    /// Tracked by this transaction, so not committed.
    pub tracked_here: bool,
    pub end_is_visible: bool,
}

/// Looks for tracked leases, all in one snapshot.
pub fn sight(connection: &Connection, leases: impl Iterator<Item = (Uuid, Option<Xid8>)>) -> Vec<Sight> {
    let (uuids, xids): (Vec<_>, Vec<_>) = leases.unzip();
    connection.run(&SIGHT, View::Latest, [pg_uuids(uuids), xids.into()]).map(|row| {
        let written_by = row.get(2).map(xmin);
        let tracked_here = written_by.is_some_and(xact::is_own);
        Sight {
            lease: from_pg_uuid(row.must(1)),
            tracked: written_by.is_some() && !tracked_here,
            tracked_here,
            end_is_visible: row.must(3),
        }
    })
}

/// Fences those of the leases that are not tracked, and returns them. It inserts the key of the tracked lease, and so
/// meets every track_lease of the same lease, whether that is open, committed, or still to come.
pub fn fence(connection: &Connection, leases: &[Uuid]) -> Vec<Uuid> {
    let rows = connection.run(&TAKE_KEYS, View::Statement, [pg_uuids(leases.iter().copied())]);
    let taken = rows.map(|row| from_pg_uuid(row.must(1)));
    if !taken.is_empty() {
        connection.run(&FENCE, View::Statement, [pg_uuids(taken.iter().copied())]);
    }
    taken
}

/// Forgets tracked leases of some cells (`None`: of any); returns how many. One that somebody else has forgotten is no conflict,
/// whatever the isolation level.
pub fn forget(connection: &Connection, leases: &[Uuid], cells: Option<&[i64]>) -> usize {
    let values = [pg_uuids(leases.iter().copied()), cells.map(<[i64]>::to_vec).into()];
    connection.run(&FORGET, View::LatestToWrite, values).count()
}

/// A page of what a cell has tracked, as of right now, in uuid order.
pub fn tracked_after(connection: &Connection, cell_id: i64, after: Uuid, limit: i64) -> Vec<Uuid> {
    let values = [pg_uuid(after).into(), limit.into(), cell_id.into()];
    connection.run(&TRACKED, View::Latest, values).map(|row| from_pg_uuid(row.must(1)))
}

/// An element of judge_leases' argument.
pub struct Given {
    pub lease: Option<Uuid>,
    /// `None`: no created_at.
    pub stale: Option<bool>,
    pub cell_xid: Option<Xid8>,
}

/// Reads judge_leases' argument.
pub fn given(connection: &Connection, leases: Jsonb, stale_after: Interval) -> Vec<Given> {
    connection.run(&GIVEN, View::Caller, [leases.into(), stale_after.into()]).map(|row| Given {
        lease: row.get(1).map(from_pg_uuid),
        stale: row.must::<bool>(2).then(|| row.get(3)).flatten(),
        cell_xid: row.get(4),
    })
}

/// Drops up to `limit` fences older than `retention` seconds that no open transaction can need.
pub fn purge_fences(connection: &Connection, retention: i64, limit: i64) -> usize {
    connection.run(&PURGE_FENCES, View::Statement, [retention.into(), limit.into()]).count()
}
