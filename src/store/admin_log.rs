//! Statements on the log of administrative acts.

use uuid::Uuid;

use crate::pg::jsonb::JsonText;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::shared_statement;
use crate::pg::uuid::pg_uuid;

shared_statement! {
    RECORD(UUIDOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, JSONBOID) =
        "INSERT INTO claims.admin_log (id, session_role, role, action, arguments, reason, counts)
         VALUES ($1, $2::name, $3::name, $4, $5, $6, $7)";
}

/// An act that was done.
pub struct ActEntry {
    pub session_role: String,
    pub role: String,
    pub action: &'static str,
    /// A JSON object.
    pub arguments: String,
    pub reason: Option<String>,
    /// A JSON object; `None`: nothing that is counted.
    pub counts: Option<String>,
}

/// Adds an entry. Waits for nobody.
pub fn record(connection: &Connection, entry: &ActEntry) {
    let ActEntry { session_role, role, action, arguments, reason, counts } = entry;
    connection.run(
        &RECORD,
        View::Statement,
        [
            pg_uuid(Uuid::now_v7()).into(),
            session_role.as_str().into(),
            role.as_str().into(),
            (*action).into(),
            JsonText(arguments.clone()).into(),
            reason.clone().into(),
            counts.clone().map(JsonText).into(),
        ],
    );
}
