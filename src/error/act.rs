//! What the server's log is told of administrative acts.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};

/// Tells the log of an act. Whoever rolls it back afterwards does not take that away.
pub fn log_act(action: &str, role: &str, session_role: &str, arguments: &str, reason: Option<&str>) {
    let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!("claims: {action} by role \"{role}\"{because}");
    ErrorReport::new(Code::ERRCODE_SUCCESSFUL_COMPLETION, message, function_name!())
        .set_detail(format!("Session role \"{session_role}\". Arguments: {arguments}"))
        .report(PgLogLevel::LOG);
}
