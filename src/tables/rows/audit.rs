//! Rows of the audit log.

use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use crate::pg::clock::Moment;
use crate::pg::jsonb::JsonText;
use crate::pg::name::Name;
use crate::pg::session::ClientAddress;
use crate::pg::spi::Value;
use crate::pg::uuid::pg_uuid;

/// The session in which an event happened.
pub struct Actor {
    pub session_role: String,
    pub address: Option<ClientAddress>,
    pub application: String,
}

/// An event of the audit log.
pub struct AuditRow<'r> {
    pub at: Moment,
    pub cell_id: i64,
    pub what: &'static str,
    pub lease: Uuid,
    pub actor: &'r Actor,
    pub ops: Vec<&'static str>,
    pub bucket_types: Vec<&'r str>,
    pub bucket_values: Vec<&'r str>,
}

impl AuditRow<'_> {
    /// Returns the values of the columns, in their order.
    pub fn values(&self) -> [Value; 12] {
        let id: PgUuid = pg_uuid(Uuid::now_v7());
        [
            self.at.into(),
            id.into(),
            self.cell_id.into(),
            self.what.into(),
            pg_uuid(self.lease).into(),
            Name(self.actor.session_role.clone()).into(),
            self.actor.address.as_ref().map(|address| address.inet.clone()).into(),
            self.actor.application.as_str().into(),
            self.ops.clone().into(),
            self.bucket_types.clone().into(),
            self.bucket_values.clone().into(),
            None::<JsonText>.into(),
        ]
    }
}
