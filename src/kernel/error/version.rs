//! Errors of a library and tables that are of different versions.

use super::claims_error::raise;
use super::declare::errors;

errors! {
    /// The reason why a call finds another version.
    pub enum VersionError {
        OtherVersion { installed: String, library: &'static str, is_older: bool } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "extension \"claims\" is version {installed}, but its library is version {library}",
            hint ("{}", match is_older {
                true => "Run ALTER EXTENSION claims UPDATE in this database.",
                false => "Reconnect, to load the library of the extension's version; where it is preloaded, restart the server.",
            });
        /// The transaction's snapshot is older than the update of the extension that its call has waited for.
        StaleExtension => ERRCODE_T_R_SERIALIZATION_FAILURE:
            "could not serialize access to extension \"claims\" due to its update",
            detail "The extension was updated after this transaction took its snapshot.",
            hint "Repeat the transaction.";
        /// The call has waited for an update that has dropped its function.
        Updated => ERRCODE_T_R_SERIALIZATION_FAILURE: "extension \"claims\" was updated during this call",
            detail "The called function has other arguments in the new version.",
            hint "Repeat the transaction.";
    }
}

/// Raises the error for a call whose function the update that it has waited for has dropped.
pub fn raise_updated() {
    raise::<()>(Err(VersionError::Updated.into()));
}
