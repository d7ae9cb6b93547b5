//! Errors of questions about names.

use super::declare::{errors, text};

errors! {
    /// The reason why is_available() fails.
    pub enum AvailabilityError {
        MayNotWrite { column: String, caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "permission denied for column \"{column}\"",
            detail "Role \"{caller}\" may neither insert nor update it, or it does not exist.",
            hint "Only roles that may write a name may ask whether it is free.";
        NoService => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "there is no service to ask",
            detail "Automatic mode is off, and the worker attends to no cell, or to several.",
            hint "Turn automatic mode on with claims.automatic(), or name the service with claims.attend().";
    }
}
