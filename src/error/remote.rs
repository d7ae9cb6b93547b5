//! Errors that the service has raised.

use pgrx::PgSqlErrorCode as Code;

use super::text::Text;
use pg::error_context;
use pg::libpq::RemoteError;

impl From<RemoteError> for Text {
    fn from(error: RemoteError) -> Text {
        let code = known_code(&error);
        Text { code, message: error.message, detail: error.detail, hint: error.hint }
    }
}

/// Returns a code for pgrx. It is a placeholder if pgrx has no name for the service's SQLSTATE.
pub(super) fn known_code(error: &RemoteError) -> Code {
    error_context::known_code(error.sqlstate).unwrap_or(Code::ERRCODE_FDW_ERROR)
}
