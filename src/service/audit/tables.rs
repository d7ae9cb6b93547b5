//! Events of the audit log, and how the tables record them.

use uuid::Uuid;

use crate::kernel::audit_id::next_id;
use crate::kernel::tables::{Door, Local};
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::query::arguments;
use pg::session::ClientAddress;
use pg::spi::{Connection, Inet};

/// The session in which an event happened.
pub struct Actor {
    pub session_role: String,
    pub address: Option<ClientAddress>,
    pub application: String,
}

/// An event of the audit log.
#[derive(Clone)]
pub struct AuditRow<'r> {
    pub at: Moment,
    pub cell_id: i64,
    pub what: &'static str,
    pub lease: Option<Uuid>,
    pub actor: &'r Actor,
    /// The number of events that have no rows.
    pub lost: Option<usize>,
    pub ops: Vec<&'static str>,
    pub bucket_types: Vec<&'r str>,
    pub bucket_values: Vec<&'r str>,
}

arguments! {
    /// The columns of a row of the log, in their order.
    pub struct AuditColumns<'r> {
        pub at: Moment,
        pub id: i64,
        pub cell_id: i64,
        pub what: &'static str,
        pub lease_uuid: Option<Uuid>,
        pub session_role: &'r str,
        pub client_address: Option<Inet>,
        pub application_name: &'r str,
        pub ops: &'r [&'static str],
        pub bucket_types: &'r [&'r str],
        pub bucket_values: &'r [&'r str],
        pub conflict: Option<JsonText>,
    }
}

impl AuditRow<'_> {
    /// Returns the columns, with a new id.
    pub fn columns(&self) -> AuditColumns<'_> {
        AuditColumns {
            at: self.at,
            id: next_id(),
            cell_id: self.cell_id,
            what: self.what,
            lease_uuid: self.lease,
            session_role: &self.actor.session_role,
            client_address: self.actor.address.as_ref().map(|address| address.inet.clone()),
            application_name: &self.actor.application,
            ops: &self.ops,
            bucket_types: &self.bucket_types,
            bucket_values: &self.bucket_values,
            conflict: self.lost.map(|lost| JsonText(format!("{{\"lost\": {lost}}}"))),
        }
    }
}

/// The audit log.
pub trait AuditTables: Sync {
    /// Inserts rows of events in this transaction.
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]);
}

/// Where the log is.
pub static AUDIT_TABLES: Door<dyn AuditTables> = Door::local(&Local);
