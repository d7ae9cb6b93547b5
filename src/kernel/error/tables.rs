//! Errors of the tables themselves.

use pgrx::PgLogLevel;

use super::bad_input::sentence;
use super::claims_error::{or_raise, raise};
use super::declare::{errors, text};
use super::text::Text;
use pg::altered::Altered;
use pg::index::Unusable;
use pg::statement::{self, Reach};

errors! {
    /// The reason why a table of the extension cannot be used.
    pub enum TablesError {
        Locked => ERRCODE_LOCK_NOT_AVAILABLE: "another transaction has locked a table of claims",
            hint "Repeat the call when that transaction has ended.";
        NoUniqueIndex { index: &'static str } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "there is no valid unique index on {index}",
            detail "It was dropped, is being built, or is of another kind: \
                it must be a btree for all rows, with the columns' own collations, and not deferrable.",
            hint "Create it again; where there is an invalid one, drop or reindex that.";
        /// A payload or type table cannot be read any more.
        Unreadable { what: String } => ERRCODE_DATA_CORRUPTED: "a stored payload cannot be read",
            detail "{what}.",
            hint "Somebody wrote into the tables of claims. Run claims.check() to see the damage.";
    }
}

impl From<Altered> for Text {
    fn from(altered: Altered) -> Text {
        const UNDO: &str = "Somebody altered the tables of claims or wrote into them. Undo it, and run claims.check().";
        match altered {
            Altered::Column { name } => {
                text!(ERRCODE_DATATYPE_MISMATCH: "a table of claims is not as the extension has made it",
                detail "Column \"{name}\" is not there, or has another type.",
                hint "{UNDO}")
            }
            Altered::Null { name } => {
                text!(ERRCODE_DATA_CORRUPTED: "a table of claims holds what the extension never writes",
                detail "Column \"{name}\" is null.",
                hint "{UNDO}")
            }
        }
    }
}

impl From<serde_json::Error> for Text {
    fn from(error: serde_json::Error) -> Text {
        TablesError::Unreadable { what: error.to_string() }.into()
    }
}

/// Raises a difference that `pg` found while it read the tables.
pub fn raise_altered(altered: Altered) {
    raise::<()>(Err(altered.into()));
}

/// Notifies the client that calls use statements for a table because it was altered.
pub fn notice_of_altered_table(table: &str, difference: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "table claims.{table} is not as the extension has created it",
        detail ("{} Calls read and write it with statements, which take longer.", sentence(&difference)),
        hint "claims.check() lists such tables.")
    .send(PgLogLevel::NOTICE);
}

/// Returns the answer of an index probe. Without a usable index there is no answer: that is an error. So are distributed tables, for
/// features that do not support them.
pub fn known_or_raised<T>(answer: Result<T, Unusable>, index: &'static str) -> T {
    if matches!(answer, Err(Unusable::Distributed)) {
        statement::require(Reach::Here);
    }
    or_raise(answer.map_err(|_| TablesError::NoUniqueIndex { index }.into()))
}
