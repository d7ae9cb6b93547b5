//! The line of an admin action in the server's log.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};

/// Logs an admin action. A later rollback does not remove the line.
pub fn log_admin_action(
    action: &str,
    [role, session_role]: [&str; 2],
    arguments: &str,
    reason: Option<&str>,
    counts: Option<&str>,
) {
    let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let counted = counts.map_or_else(String::new, |counts| format!(". Counts: {counts}"));
    let message = format!("claims: {action} by role \"{role}\"{because}");
    ErrorReport::new(Code::ERRCODE_SUCCESSFUL_COMPLETION, message, function_name!())
        .set_detail(format!("Session role \"{session_role}\". Arguments: {arguments}{counted}"))
        .report(PgLogLevel::LOG);
}
