//! The parts of an error or a message for PostgreSQL.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};

use pg::error_context::{self, ErrorFields};
use pg::libpq::RemoteError;

/// The SQLSTATE, message, DETAIL and HINT of an error, a warning or a notice. [text!](super::declare) builds it.
pub struct Text {
    pub code: Code,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub completion: Option<Box<Completion>>,
}

/// The parts of an error that pgrx cannot set.
pub struct Completion {
    /// The SQLSTATE, for which pgrx may have no name.
    pub sqlstate: [u8; 5],
    /// The service that has raised the error, unless this database is the service's. CONTEXT names it.
    pub service: Option<String>,
    pub fields: Option<ErrorFields>,
}

impl Text {
    /// Adds the names of a table, a column and a constraint.
    pub fn with_fields(self, fields: Option<ErrorFields>) -> Text {
        let Completion { sqlstate, service, .. } = match self.completion {
            Some(completion) => *completion,
            None => Completion { sqlstate: error_context::sqlstate(self.code), service: None, fields: None },
        };
        Text { completion: Some(Box::new(Completion { sqlstate, service, fields })), ..self }
    }

    /// Returns the SQLSTATE.
    pub fn sqlstate(&self) -> [u8; 5] {
        self.completion.as_ref().map_or_else(|| error_context::sqlstate(self.code), |completion| completion.sqlstate)
    }

    /// Returns the report that the caller raises at once.
    #[track_caller]
    pub(super) fn report(self) -> ErrorReport {
        if let Some(completion) = self.completion {
            let Completion { sqlstate, service, fields } = *completion;
            let context = service.map(|service| format!("error of claims service \"{service}\""));
            error_context::complete_next(self.code, sqlstate, context, fields);
        }
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
    pub fn send(self, level: PgLogLevel) {
        self.report().report(level);
    }
}

/// An error that a service has raised keeps its SQLSTATE, for which pgrx may have a placeholder only.
impl From<RemoteError> for Text {
    fn from(RemoteError { sqlstate, message, detail, hint, server }: RemoteError) -> Text {
        let code = error_context::known_code(sqlstate).unwrap_or(Code::ERRCODE_FDW_ERROR);
        let service = Some(server).filter(|server| !server.is_empty());
        let completion = Some(Box::new(Completion { sqlstate, service, fields: None }));
        Text { code, message, detail, hint, completion }
    }
}
