//! Rows of the audit log.

use std::cell::Cell;

use uuid::Uuid;

use pg::background;
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::session::ClientAddress;
use pg::spi::Value;
use pg::uuid::pg_uuid;

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

impl AuditRow<'_> {
    /// Returns the values of the columns, in their order.
    pub fn values(&self) -> [Value; 12] {
        [
            self.at.into(),
            next_id().into(),
            self.cell_id.into(),
            self.what.into(),
            self.lease.map(pg_uuid).into(),
            self.actor.session_role.as_str().into(),
            self.actor.address.as_ref().map(|address| address.inet.clone()).into(),
            self.actor.application.as_str().into(),
            self.ops.clone().into(),
            self.bucket_types.clone().into(),
            self.bucket_values.clone().into(),
            self.lost.map(|lost| JsonText(format!("{{\"lost\": {lost}}}"))).into(),
        ]
    }
}

thread_local! {
    /// The number of ids that this process has made.
    static MADE: Cell<u32> = const { Cell::new(0) };
}

/// Returns an id that no other row of the same microsecond has: the pid of this process, and a count. Random ids would take longer to
/// make, and UUIDs more space.
pub fn next_id() -> i64 {
    let count = MADE.get().wrapping_add(1);
    MADE.set(count);
    i64::from(background::own_process()) << 32 | i64::from(count)
}
