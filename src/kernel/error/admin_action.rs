//! The line of an admin action in the server's log.

use pgrx::PgLogLevel;

use super::declare::text;

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
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "claims: {action} by role \"{role}\"{because}",
        detail "Session role \"{session_role}\". Arguments: {arguments}{counted}")
    .send(PgLogLevel::LOG);
}
