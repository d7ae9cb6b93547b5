//! The errors of what the service does not do for a cell at the moment.

use claims_model::mode::Mode;
use pgrx::PgSqlErrorCode as Code;

use super::{ClaimsError, Text};
use crate::pg::clock::Moment;

/// Why a call is not admitted.
#[derive(Debug)]
pub enum AdmissionError {
    /// An administrator has set a mode. `of_cell`: of this cell; `None`: of everybody.
    Mode { mode: Mode, of_cell: Option<i64>, reason: String, since: Moment, role: String },
}

impl From<AdmissionError> for ClaimsError {
    fn from(error: AdmissionError) -> Self {
        ClaimsError::Admission(error)
    }
}

impl AdmissionError {
    pub(super) fn text(self) -> Text {
        match self {
            AdmissionError::Mode { mode, of_cell, reason, since, role } => {
                let subject = of_cell.map_or_else(|| "claims are".to_owned(), |cell_id| format!("cell {cell_id} is"));
                let (what, hint) = match mode {
                    Mode::ReadOnly => (
                        "only reading works",
                        "Repeat the call later: an administrator opens it again with claims.set_mode().",
                    ),
                    _ => (
                        "no leases can be begun",
                        "Repeat the call later: an administrator opens it again with claims.set_mode(). Leases that are outstanding can be settled.",
                    ),
                };
                Text(
                    Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("{subject} in mode {}: {what}", mode.name()),
                    Some(format!("Set by role \"{role}\" at {}: {reason}", since.text())),
                    Some(hint),
                )
            }
        }
    }
}
