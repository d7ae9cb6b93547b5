//! The parts of an error or a message for PostgreSQL.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};

/// The SQLSTATE, message, DETAIL and HINT of an error, a warning or a notice. [text!](super::declare) builds it.
pub(super) struct Text {
    pub code: Code,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl Text {
    /// Returns the report that PostgreSQL raises.
    #[track_caller]
    pub(super) fn report(self) -> ErrorReport {
        let mut report = ErrorReport::new(self.code, self.message, function_name!());
        if let Some(detail) = self.detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = self.hint {
            report = report.set_hint(hint);
        }
        report
    }

    #[track_caller]
    pub(super) fn send(self, level: PgLogLevel) {
        self.report().report(level);
    }
}
