//! Errors of administration: types, cells, grants.

use claims_model::limits::{ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH, TYPE_NAME_CHARS};
use claims_model::{Kind, Naming};
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::text::Text;

/// The reason why an administrator's call fails.
#[derive(Debug)]
pub enum AdminError {
    /// The id or the name of a type is NULL.
    TypeIncomplete {
        kind: Kind,
    },
    /// A reserved id, or an invalid name.
    InvalidType {
        kind: Kind,
        id: i32,
        name: String,
    },
    TypeNameTooLong {
        kind: Kind,
    },
    /// `other`, whose shown name is `existing`, has the id or the name.
    TypeTaken {
        kind: Kind,
        id: i32,
        name: String,
        other: i32,
        existing: String,
    },
    /// The bucket type exists with another profile or another treatment of confusables.
    OtherNaming {
        id: i32,
        existing: Naming,
    },
    /// The id or the role of a cell is NULL.
    CellIncomplete,
    AttributesTooLarge,
    NoRoleNamed,
    /// A rate limit needs shared memory, and the library is not preloaded.
    NotPreloaded,
    /// The lease is not outstanding. `outcome` is how it ended, or `None` if it is unknown.
    NotOutstanding {
        lease: Uuid,
        outcome: Option<&'static str>,
    },
    /// The cell still has claims, leases or transfers.
    CellInUse {
        cell_id: i64,
        claims: bool,
        leases: bool,
        transfers: bool,
    },
    UnknownRole {
        name: String,
    },
}

impl AdminError {
    pub(super) fn text(self) -> Text {
        match self {
            AdminError::TypeIncomplete { kind } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{} type needs an id and a name", kind.name()),
                Some("One of them is null.".into()),
                Some("Give both."),
            ),
            AdminError::InvalidType { kind, id, name } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid {} type", kind.name()),
                Some(format!("Id {id}, name \"{}\".", start(&name))),
                Some("Ids below 100 are reserved, and a name has 1 to 63 characters, not all of them digits."),
            ),
            AdminError::TypeNameTooLong { kind } => Text(
                Code::ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("name of {} type is too long", kind.name()),
                Some(format!("At most {TYPE_NAME_CHARS} characters are allowed.")),
                Some("Shorten it."),
            ),
            AdminError::TypeTaken { kind, id, name, other, existing } => Text(
                Code::ERRCODE_UNIQUE_VIOLATION,
                format!("{} type {id} \"{}\" is taken", kind.name(), start(&name)),
                Some(match existing == name || id == other {
                    true => format!("There is {} type {other} \"{existing}\".", kind.name()),
                    false => format!("There is {} type {other} \"{existing}\", which has this name, too.", kind.name()),
                }),
                Some("Choose an id and a name that are both free."),
            ),
            AdminError::OtherNaming { id, existing } => Text(
                Code::ERRCODE_UNIQUE_VIOLATION,
                format!("bucket type {id} is there with another profile"),
                Some(format!(
                    "Its profile is {}, its confusables are {}.",
                    existing.profile,
                    existing.confusables.name()
                )),
                Some("Change it with claims.set_profile()."),
            ),
            AdminError::CellIncomplete => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "cell_id and role_name must not be null".into(),
                None,
                Some("Give both."),
            ),
            AdminError::AttributesTooLarge => Text(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "attributes are too large".into(),
                Some(format!(
                    "They have more than {ATTRIBUTES_BYTES} bytes as text, or are nested more than {ATTRIBUTES_DEPTH} deep."
                )),
                Some("Every router reads the attributes of all cells: keep in them only what routers need."),
            ),
            AdminError::NotOutstanding { lease, outcome } => Text(
                Code::ERRCODE_NO_DATA_FOUND,
                format!("lease {lease} of this cell is not outstanding"),
                Some(outcome.map_or("It is not known.".into(), |outcome| format!("It is {outcome}."))),
                Some("The view claims.leases has those that are."),
            ),
            AdminError::CellInUse { cell_id, transfers: true, .. } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cell {cell_id} is in use"),
                Some("A transfer from or to it has not ended.".into()),
                Some(
                    "End it with claims.finish_transfer() or claims.cancel_transfer(); the view claims.transfers shows it.",
                ),
            ),
            AdminError::CellInUse { cell_id, claims, leases, .. } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cell {cell_id} is in use"),
                Some(match (claims, leases) {
                    (true, true) => "It has claims, and outstanding leases.".into(),
                    (true, false) => "It has claims.".into(),
                    _ => "It has outstanding leases.".into(),
                }),
                Some(
                    "Settle its leases, or end them with claims.force_rollback(); then repeat claims.release_records() until it returns 0.",
                ),
            ),
            AdminError::NotPreloaded => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "begins_per_second cannot be limited on this server".into(),
                Some("The rate is kept in shared memory, and the library is not preloaded.".into()),
                Some("Add claims to shared_preload_libraries and restart the server, or limit max_outstanding."),
            ),
            AdminError::NoRoleNamed => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "role_name must not be null".into(),
                None,
                Some("Name a role."),
            ),
            AdminError::UnknownRole { name } => Text(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("role \"{name}\" does not exist"),
                None,
                Some("Create the role with CREATE ROLE first."),
            ),
        }
    }
}

/// Returns as much of a name as a message needs.
fn start(name: &str) -> String {
    name.chars().take(64).collect()
}
