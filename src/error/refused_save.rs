//! Errors of a save that cannot have its names, in the form of PostgreSQL's own unique violations. Drivers and frameworks read the
//! SQLSTATE, the constraint's name in the message, `Key (column)=(value)` in DETAIL, and the fields.

use claims_model::origin::Declared;
use claims_model::refused::{RefusedName, weightiest};
use pgrx::PgSqlErrorCode as Code;

use super::declare::text;
use super::text::Text;
use pg::error_context::{self, ErrorFields};
use pg::libpq::RemoteError;

const UNIQUE_VIOLATION: &[u8; 5] = b"23505";

/// A save that the service has refused with conflicts.
#[derive(Debug)]
pub struct RefusedSave {
    pub error: RemoteError,
    pub names: Vec<RefusedName>,
}

impl RefusedSave {
    /// Returns the names of the table, the column and the constraint of the weightiest conflict.
    pub(super) fn fields(&self) -> Option<ErrorFields> {
        weightiest(&self.names)?.origin.0.as_deref().map(fields)
    }
}

impl From<RefusedSave> for Text {
    fn from(RefusedSave { error, names }: RefusedSave) -> Text {
        let name = weightiest(&names).filter(|_| &error.sqlstate == UNIQUE_VIOLATION);
        let Some((declared, name)) = name.and_then(|name| Some((name.origin.0.as_deref()?, name))) else {
            return Text::from(error);
        };
        violation(declared, &name.given, error.detail.as_deref().unwrap_or_default(), error.hint)
    }
}

/// A name that several rows of this database have, one of which is new.
#[derive(Debug)]
pub struct ClaimedTwice {
    pub name: RefusedName,
    /// The JSON of the conflict.
    pub conflicts: String,
}

impl ClaimedTwice {
    /// Prepares the raising of the error: it gets its fields.
    pub(super) fn complete(&self) {
        let fields = self.name.origin.0.as_deref().map(fields);
        error_context::complete_next(Code::ERRCODE_UNIQUE_VIOLATION, *UNIQUE_VIOLATION, None, fields);
    }
}

impl From<ClaimedTwice> for Text {
    fn from(ClaimedTwice { name, conflicts }: ClaimedTwice) -> Text {
        const HINT: &str = "Several rows of this database have it: have a unique index on the column.";
        let unknown = Declared::default();
        violation(name.origin.0.as_deref().unwrap_or(&unknown), &name.given, &conflicts, Some(HINT.to_owned()))
    }
}

/// Returns a unique violation as PostgreSQL words it. The last line of DETAIL has the conflicts as JSON.
fn violation(declared: &Declared, given: &str, conflicts: &str, hint: Option<String>) -> Text {
    let Declared { quoted_column, constraint_name, .. } = declared;
    text!(ERRCODE_UNIQUE_VIOLATION: "duplicate key value violates unique constraint \"{constraint_name}\"",
        detail "Key ({quoted_column})=({given}) already exists.\n{conflicts}",
        hint { hint })
}

fn fields(declared: &Declared) -> ErrorFields {
    ErrorFields {
        schema: declared.schema_name.clone(),
        table: declared.table_name.clone(),
        column: declared.column_name.clone(),
        constraint: declared.constraint_name.clone(),
    }
}
