//! The traces of one lease, and of the transaction that began it, in this database.

use uuid::Uuid;

use pg::clock::Moment;
use pg::query::{query, record};
use pg::xid8::Xid8;

record! {
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
}

query! {
    /// Returns the traces of a lease that are committed now, and the session or the prepared transaction of its transaction if that is
    /// open. An open transaction holds a lock on its transaction id; a prepared one has no process.
    pub fn local(lease: Uuid, cell_xid: Option<Xid8>) -> Option<LocalTraces> = [Latest]
        "SELECT t.created_at AS tracked_at, f.fenced_at, l.pid, a.usename::text, a.application_name,
                coalesce(a.xact_start, p.prepared) AS open_since, p.gid AS prepared_gid
           FROM (SELECT (:cell_xid::text::numeric % 4294967296)::text::xid AS xid) x
           LEFT JOIN claims.cells_outstanding_leases t ON t.uuid = :lease
           LEFT JOIN claims.lease_fences f ON f.lease_uuid = :lease
           LEFT JOIN LATERAL (SELECT l.pid FROM pg_locks l
                               WHERE l.locktype = 'transactionid' AND l.transactionid = x.xid AND l.mode = 'ExclusiveLock'
                                 AND l.granted AND l.pid IS NOT NULL LIMIT 1) l ON true
           LEFT JOIN pg_stat_activity a ON a.pid = l.pid
           LEFT JOIN pg_prepared_xacts p ON p.transaction = x.xid";
}
