//! Errors of calls that the service currently refuses.

use claims_model::mode::Mode;
use pgrx::PgSqlErrorCode as Code;

use super::text::Text;
use crate::pg::clock::Moment;

/// The reason why a call is not admitted.
#[derive(Debug)]
pub enum AdmissionError {
    /// An administrator has set a mode: for the cell `of_cell`, or for all cells if it is `None`.
    Mode {
        mode: Mode,
        of_cell: Option<i64>,
        reason: String,
        since: Moment,
        role: String,
    },
    /// Another database has presented itself as the cell.
    AnotherDatabase {
        cell_id: i64,
        since: Option<Moment>,
    },
    /// `claims.require_synchronous` is on, and there is no synchronous standby.
    NotReplicated,
    /// PREPARE TRANSACTION while `claims.require_synchronous` is on.
    PreparedNotReplicated,
    TooFast {
        cell_id: i64,
        per_second: i32,
        again: Moment,
    },
    TooManyLeases {
        cell_id: i64,
        limit: i32,
    },
    /// The cell's role has adopted databases too often.
    TooManyAdoptions {
        cell_id: i64,
        limit: i64,
    },
    BatchTooLarge {
        cell_id: i64,
        records: usize,
        limit: i32,
    },
}

impl AdmissionError {
    /// Returns a HINT that contains values.
    pub(super) fn hint(&self) -> Option<String> {
        let AdmissionError::TooFast { again, .. } = self else { return None };
        Some(format!(
            "Repeat the call in {:.3} s, at {}.",
            Moment::now().seconds_until(*again).max(0.001),
            again.text()
        ))
    }

    pub(super) fn text(self) -> Text {
        match self {
            AdmissionError::AnotherDatabase { cell_id, since } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("another database acts as cell {cell_id}"),
                since.map(|since| {
                    format!(
                        "It did so last at {}. This one is a copy of it, or was restored from a backup.",
                        since.text()
                    )
                }),
                Some(
                    "If this database is the cell, run claims.adopt_cell() in it; if not, stop its passes. Nothing was decided.",
                ),
            ),
            AdmissionError::NotReplicated => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "leases cannot be begun or settled without a synchronous standby".to_owned(),
                Some("claims.require_synchronous is on, and synchronous_standby_names is empty.".to_owned()),
                Some(
                    "Repeat the call when an administrator has named a standby there, or has turned the requirement off.",
                ),
            ),
            AdmissionError::PreparedNotReplicated => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot PREPARE a transaction that has begun or settled leases".to_owned(),
                Some(
                    "claims.require_synchronous is on, and COMMIT PREPARED would not wait for a standby by itself."
                        .to_owned(),
                ),
                Some("Use COMMIT."),
            ),
            AdmissionError::TooFast { cell_id, per_second, .. } => Text(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("cell {cell_id} begins leases too fast"),
                Some(format!("It may begin {per_second} a second, fences included.")),
                None,
            ),
            AdmissionError::TooManyLeases { cell_id, limit } => Text(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("cell {cell_id} has too many outstanding leases"),
                Some(format!("It may have {limit}.")),
                Some(
                    "Repeat the call when some of them are settled: the cell's recovery settles what nobody else does.",
                ),
            ),
            AdmissionError::TooManyAdoptions { cell_id, limit } => Text(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("cell {cell_id} is adopted too often"),
                Some(format!("A database was adopted for it {limit} times within an hour.")),
                Some(
                    "Find out which databases act as the cell. Repeat the call later, or have an administrator of the service call claims.present_epoch() with adopt_because.",
                ),
            ),
            AdmissionError::BatchTooLarge { cell_id, records, limit } => Text(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("batch of cell {cell_id} has too many records"),
                Some(format!("It has {records} records, {limit} are allowed for this cell.")),
                Some("Send it in several calls, which need not wait."),
            ),
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
