//! Statements that show one outstanding lease.

use uuid::Uuid;

use pg::clock::Moment;
use pg::spi::{Connection, View};
use pg::statement::shared_statement;
use pg::uuid::pg_uuid;
use pg::xid8::Xid8;

shared_statement! {
    DETAILS(UUIDOID) =
        "SELECT l.creator_id, l.created_at, l.cell_xid, coalesce(l.payload -> 'create_records', '[]')::text,
                coalesce(l.payload -> 'destroy_records', '[]')::text
           FROM claims.claim_leases l WHERE l.uuid = $1";
}

pub struct LeaseDetails {
    pub cell_id: i64,
    pub created_at: Moment,
    pub cell_xid: Option<Xid8>,
    /// A JSON list of records.
    pub creates: String,
    pub destroys: String,
}

/// Returns a lease, or `None` if it is not outstanding.
pub fn details(connection: &Connection, lease: Uuid, view: View) -> Option<LeaseDetails> {
    connection.run(&DETAILS, view, [pg_uuid(lease).into()]).first(|row| LeaseDetails {
        cell_id: row.must(1),
        created_at: row.must(2),
        cell_xid: row.get(3),
        creates: row.must(4),
        destroys: row.must(5),
    })
}
