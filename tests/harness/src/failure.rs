//! Failures of calls: the server refused the call, or the connection was lost.

use postgres::error::DbError;
use serde_json::Value;
use std::fmt;

/// A conflict of a batch, as the server reports it in DETAIL or in `conflicts`.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    pub op: String,
    pub bucket: String,
    pub reason: String,
    pub retryable: bool,
    pub holder: Option<i64>,
}

/// An error of the server.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

/// The failure of a call.
#[derive(Clone, Debug)]
pub enum Failure {
    Refused(Refusal),
    /// The connection is lost. It is unknown whether the call took effect.
    Lost(String),
}

impl Failure {
    /// Returns the SQLSTATE, or `lost`.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(r) => &r.code,
            Self::Lost(_) => "lost",
        }
    }

    pub fn refusal(self) -> Option<Refusal> {
        match self {
            Self::Refused(r) => Some(r),
            Self::Lost(_) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(r) => write!(f, "{} {}", r.code, r.message),
            Self::Lost(why) => write!(f, "connection lost: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Returns whether the session has ended. Class 57P means that the server ended it, and class 08 is a failure of the
/// connection.
fn ends_the_session(code: &str) -> bool {
    code.starts_with("57P") || code.starts_with("08")
}

impl From<postgres::Error> for Failure {
    fn from(error: postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) if !ends_the_session(db.code().code()) => Self::Refused(db.into()),
            Some(db) => Self::Lost(format!("{} {}", db.code().code(), db.message())),
            None => Self::Lost(error.to_string()),
        }
    }
}

impl From<&DbError> for Refusal {
    fn from(db: &DbError) -> Self {
        Self {
            code: db.code().code().to_string(),
            message: db.message().to_string(),
            detail: db.detail().map(str::to_string),
            hint: db.hint().map(str::to_string),
        }
    }
}

impl Refusal {
    /// Parses the conflicts in the last line of DETAIL. Returns `None` if that is not a list of conflicts.
    pub fn conflicts(&self) -> Option<Vec<Conflict>> {
        parse_conflicts(&serde_json::from_str(self.detail.as_deref()?.lines().last()?).ok()?)
    }
}

/// Parses a list of conflicts. Returns `None` if a field is missing or has the wrong type.
pub fn parse_conflicts(list: &Value) -> Option<Vec<Conflict>> {
    list.as_array()?.iter().map(parse_conflict).collect()
}

fn parse_conflict(item: &Value) -> Option<Conflict> {
    Some(Conflict {
        op: item["op"].as_str()?.to_string(),
        bucket: item["bucket"]["value"].as_str()?.to_string(),
        reason: item["reason"].as_str()?.to_string(),
        retryable: item["retryable"].as_bool()?,
        holder: item.get("holder_cell_id")?.as_i64(),
    })
}

/// The reasons and their SQLSTATEs, in order of precedence.
const REASONS: [(&str, &str, bool); 6] = [
    ("not_owner", "42501", false),
    ("missing", "P0002", false),
    ("taken", "23505", false),
    ("leased", "55P03", true),
    ("in_flight", "55P03", true),
    ("queued", "55P03", true),
];

/// Returns the SQLSTATE that a list of conflicts requires. Returns `None` if the list is empty or a conflict is
/// invalid.
pub fn sqlstate_of(conflicts: &[Conflict]) -> Option<&'static str> {
    let lawful =
        |c: &Conflict| REASONS.iter().any(|(reason, _, retryable)| *reason == c.reason && *retryable == c.retryable);
    if !conflicts.iter().all(lawful) {
        return None;
    }
    REASONS.iter().find(|(reason, _, _)| conflicts.iter().any(|c| c.reason == *reason)).map(|(_, code, _)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn conflict(reason: &str, retryable: bool) -> Value {
        json!({"op": "create", "bucket": {"type": "ROUTES", "value": "x"}, "reason": reason,
               "retryable": retryable, "holder_cell_id": 2, "lease_age_seconds": null})
    }

    #[test]
    fn the_first_reason_of_the_table_decides() {
        let list = json!([conflict("leased", true), conflict("taken", false)]);
        assert_eq!(sqlstate_of(&parse_conflicts(&list).unwrap()), Some("23505"));
    }

    #[test]
    fn a_wrong_retryable_or_reason_is_noticed() {
        for list in [json!([conflict("taken", true)]), json!([conflict("odd", false)]), json!([])] {
            assert_eq!(sqlstate_of(&parse_conflicts(&list).unwrap()), None);
        }
    }

    #[test]
    fn a_conflict_without_a_holder_field_is_not_a_conflict() {
        assert_eq!(parse_conflicts(&json!([{"op": "create", "reason": "taken"}])), None);
    }
}
