//! Statements that show one outstanding lease.

use uuid::Uuid;

use pg::clock::Moment;
use pg::query::{query, record};
use pg::xid8::Xid8;

record! {
    pub struct LeaseDetails {
        pub creator_id: i64,
        pub created_at: Moment,
        pub cell_xid: Option<Xid8>,
        /// A JSON list of records.
        pub creates: String,
        pub destroys: String,
    }
}

query! {
    /// Returns a lease, or `None` if it is not outstanding.
    pub fn details(lease: Uuid; view) -> Option<LeaseDetails> = [view Anywhere]
        "SELECT l.creator_id, l.created_at, l.cell_xid, coalesce(l.payload -> 'create_records', '[]')::text AS creates,
                coalesce(l.payload -> 'destroy_records', '[]')::text AS destroys
           FROM claims.claim_leases l WHERE l.uuid = :lease";
}
