//! The errors of a cell's half: tracked leases, and calls to the service.

use std::time::Duration;

use claims_model::problem::shortened;
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::{ClaimsError, Text};

/// What goes wrong in a cell's own database, or on the way to the service.
#[derive(Debug)]
pub enum CellError {
    /// Recovery has fenced the lease: its local transaction must not commit any more.
    GivenUp { lease: Uuid },
    /// Another open transaction is tracking or fencing the lease.
    LeaseInRecovery,
    /// No foreign server of a wrapper that dblink can use has this name.
    NotAService { server: String },
    /// The foreign server belongs to somebody who is no administrator.
    ServerOfOther { server: String, owner: String },
    /// The extension dblink is not there.
    NoDblink,
    /// The service cannot be reached, or went away.
    ServiceUnreachable { server: String, detail: String },
    /// The service did not answer in time.
    ServiceSilent { server: String, timeout: Duration },
    /// The service says something that this version does not know.
    StrangeAnswer { what: String },
}

impl From<CellError> for ClaimsError {
    fn from(error: CellError) -> Self {
        ClaimsError::Cell(error)
    }
}

impl CellError {
    pub(super) fn text(self) -> Text {
        match self {
            CellError::GivenUp { lease } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("lease {lease} was given up by recovery"),
                Some("It was not tracked in time, and is or will be rolled back at the service.".into()),
                Some("Roll this transaction back, and repeat it with a new lease."),
            ),
            CellError::LeaseInRecovery => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "lease is being tracked or fenced by another open transaction".into(),
                None,
                Some("Roll this transaction back, and repeat it with a new lease."),
            ),
            CellError::NotAService { server } => Text(
                Code::ERRCODE_UNDEFINED_OBJECT,
                "service is not a foreign server of dblink_fdw or postgres_fdw".into(),
                Some(format!("There is no such server \"{}\".", shortened(&server))),
                Some(
                    "Create it with CREATE SERVER ... FOREIGN DATA WRAPPER dblink_fdw, and a user mapping for the owner of claims; connection strings are not taken.",
                ),
            ),
            CellError::ServerOfOther { server, owner } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied: service is not an administrator's foreign server".into(),
                Some(format!("Server \"{server}\" belongs to role \"{owner}\".")),
                Some("Have an administrator own the server that leads to the shared database."),
            ),
            CellError::NoDblink => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "extension \"dblink\" is not installed in this database".into(),
                Some("The service is called through it.".into()),
                Some("Have an administrator run CREATE EXTENSION dblink."),
            ),
            CellError::ServiceUnreachable { server, detail } => Text(
                Code::ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
                format!("claims service \"{server}\" cannot be reached"),
                Some(detail),
                Some("Nothing was changed here. Repeat the call when the service is back."),
            ),
            CellError::StrangeAnswer { what } => Text(
                Code::ERRCODE_DATA_EXCEPTION,
                "answer of the claims service cannot be read".into(),
                Some(format!("It says {what}.")),
                Some("Install the same version of the extension in the cell and at the service."),
            ),
            CellError::ServiceSilent { server, timeout } => Text(
                Code::ERRCODE_QUERY_CANCELED,
                format!("claims service \"{server}\" did not answer in time"),
                Some(format!("It was given {} ms.", timeout.as_millis())),
                Some("Repeat the transaction."),
            ),
        }
    }
}
