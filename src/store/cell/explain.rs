//! Reads what this database stores about one lease and about the transaction that began it.

use uuid::Uuid;

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::statement;
use pg::uuid::pg_uuid;
use pg::xid8::Xid8;

statement! {
    /// Reads the traces of lease $1, and the session or the prepared transaction of transaction $2 if that is open. An open
    /// transaction holds a lock on its transaction id; a prepared one has no process.
    LOCAL(UUIDOID, XID8OID) =
        "SELECT t.created_at, f.fenced_at, l.pid, a.usename::text, a.application_name, coalesce(a.xact_start, p.prepared), p.gid
           FROM (SELECT ($2::text::numeric % 4294967296)::text::xid AS xid) x
           LEFT JOIN claims.cells_outstanding_leases t ON t.uuid = $1
           LEFT JOIN claims.lease_fences f ON f.lease_uuid = $1
           LEFT JOIN LATERAL (SELECT l.pid FROM pg_locks l
                               WHERE l.locktype = 'transactionid' AND l.transactionid = x.xid AND l.mode = 'ExclusiveLock'
                                 AND l.granted AND l.pid IS NOT NULL LIMIT 1) l ON true
           LEFT JOIN pg_stat_activity a ON a.pid = l.pid
           LEFT JOIN pg_prepared_xacts p ON p.transaction = x.xid";
}

#[derive(Default)]
pub struct LocalTraces {
    pub tracked_at: Option<Moment>,
    pub fenced_at: Option<Moment>,
    pub pid: Option<i32>,
    pub usename: Option<String>,
    pub application_name: Option<String>,
    /// Start of the open transaction, or the time at which it was prepared.
    pub open_since: Option<Moment>,
    pub prepared_gid: Option<String>,
}

/// Returns what is committed now, and which session or prepared transaction is open under `cell_xid`.
pub fn local(connection: &Connection, lease: Uuid, cell_xid: Option<Xid8>) -> LocalTraces {
    let rows = connection.run(&LOCAL, View::Latest, [pg_uuid(lease).into(), cell_xid.into()]);
    rows.first(|row| LocalTraces {
        tracked_at: row.get(1),
        fenced_at: row.get(2),
        pid: row.get(3),
        usename: row.get(4),
        application_name: row.get(5),
        open_since: row.get(6),
        prepared_gid: row.get(7),
    })
    .unwrap_or_default()
}
