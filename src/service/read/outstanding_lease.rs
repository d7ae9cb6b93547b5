//! Statements that show one outstanding lease, or an unfinished transfer in its place.

use uuid::Uuid;

use pg::clock::Moment;
use pg::query::{query, record};
use pg::spi::Connection;
use pg::xid8::Xid8;

record! {
    pub struct LeaseDetails {
        pub creator_id: i64,
        pub created_at: Moment,
        pub cell_xid: Option<Xid8>,
        /// A JSON list of records.
        pub creates: String,
        pub destroys: String,
        pub context: Option<String>,
        pub cell_role: Option<String>,
    }

    struct DetailsRow { from_cell: i64, to_cell: i64, created_at: Moment }
}

query! {
    /// Returns a lease, or `None` if it is not outstanding.
    pub fn details(lease: Uuid; view) -> Option<LeaseDetails> = [view Anywhere]
        "SELECT l.creator_id, l.created_at, l.cell_xid, coalesce(l.payload -> 'create_records', '[]')::text AS creates,
                coalesce(l.payload -> 'destroy_records', '[]')::text AS destroys, l.context, l.cell_role
           FROM claims.claim_leases l WHERE l.uuid = :lease";
    fn unfinished(uuid: Uuid) -> Option<DetailsRow> = [Caller Anywhere]
        "SELECT t.from_cell, t.to_cell, t.created_at FROM claims.cell_transfers t WHERE t.transfer_uuid = :uuid AND t.ended_at IS NULL";
}

/// Returns an unfinished transfer in the form of a lease without names, and the cell that it goes to.
pub fn as_lease(connection: &Connection, uuid: Uuid) -> Option<(LeaseDetails, i64)> {
    let DetailsRow { from_cell, to_cell, created_at } = unfinished(connection, uuid)?;
    let (creates, destroys) = ("[]".into(), "[]".into());
    let (cell_xid, context, cell_role) = Default::default();
    Some((LeaseDetails { creator_id: from_cell, created_at, cell_xid, creates, destroys, context, cell_role }, to_cell))
}
