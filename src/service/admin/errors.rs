//! Errors and notices of administration.

use claims_model::limits::{ATTRIBUTES_BYTES, ATTRIBUTES_DEPTH, TYPE_NAME_CHARS};
use claims_model::{Kind, Naming};

use crate::kernel::error::errors;

errors! {
    /// The reason why a call about types, cells and grants fails.
    pub enum AdminError {
        TypeIncomplete { kind: Kind } => ERRCODE_INVALID_PARAMETER_VALUE: ("{} type needs an id and a name", kind.name()),
            detail "One of them is null.",
            hint "Give both.";
        InvalidType { kind: Kind, id: i32, name: String } => ERRCODE_INVALID_PARAMETER_VALUE: ("invalid {} type", kind.name()),
            detail ("Id {id}, name \"{}\".", start(&name)),
            hint "An id is not negative, and a name has 1 to 63 characters, not all of them digits.";
        TypeNameTooLong { kind: Kind } => ERRCODE_STRING_DATA_RIGHT_TRUNCATION: ("name of {} type is too long", kind.name()),
            detail "At most {TYPE_NAME_CHARS} characters are allowed.",
            hint "Shorten it.";
        /// `other`, whose shown name is `existing`, has the id or the name.
        TypeTaken { kind: Kind, id: i32, name: String, other: i32, existing: String } => ERRCODE_UNIQUE_VIOLATION:
            ("{} type {id} \"{}\" is taken", kind.name(), start(&name)),
            detail {
                let too = if existing == name || id == other { "" } else { ", which has this name, too" };
                format!("There is {} type {other} \"{existing}\"{too}.", kind.name())
            },
            hint "Choose an id and a name that are both free.";
        /// The bucket type exists with another profile or another treatment of confusables.
        OtherNaming { id: i32, existing: Naming } => ERRCODE_UNIQUE_VIOLATION: "bucket type {id} is there with another profile",
            detail ("Its profile is {}, its confusables are {}.", existing.profile, existing.confusables.name()),
            hint "Change it with claims.set_profile().";
        CellIncomplete => ERRCODE_INVALID_PARAMETER_VALUE: "cell_id and role_name must not be null",
            hint "Give both.";
        AttributesTooLarge => ERRCODE_PROGRAM_LIMIT_EXCEEDED: "attributes are too large",
            detail "They have more than {ATTRIBUTES_BYTES} bytes as text, or are nested more than {ATTRIBUTES_DEPTH} deep.",
            hint "Every router reads the attributes of all cells: keep in them only what routers need.";
        NoRoleNamed => ERRCODE_INVALID_PARAMETER_VALUE: "role_name must not be null",
            hint "Name a role.";
        NotPreloaded => ERRCODE_INVALID_PARAMETER_VALUE: "begins_per_second cannot be limited on this server",
            detail "The rate is kept in shared memory, and the library is not preloaded.",
            hint "Add claims to shared_preload_libraries and restart the server, or limit max_outstanding.";
        CellInUse { cell_id: i64, claims: bool, leases: bool, transfers: bool } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "cell {cell_id} is in use",
            detail ("{}", match (transfers, claims, leases) {
                (true, ..) => "A transfer from or to it has not ended.",
                (false, true, true) => "It has claims, and outstanding leases.",
                (false, true, false) => "It has claims.",
                (false, false, _) => "It has outstanding leases.",
            }),
            hint ("{}", match transfers {
                true => "End it with claims.finish_transfer() or claims.cancel_transfer(); the view claims.transfers shows it.",
                false => "Settle its leases, or end them with claims.force_rollback(); \
                    then repeat claims.release_records() until it returns 0.",
            });
        UnknownRole { name: String } => ERRCODE_UNDEFINED_OBJECT: "role \"{name}\" does not exist",
            hint "Create the role with CREATE ROLE first.";
    }
}

/// Returns as much of a name as a message needs.
fn start(name: &str) -> String {
    name.chars().take(64).collect()
}
