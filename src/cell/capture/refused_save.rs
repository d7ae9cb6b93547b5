//! Errors of a save that cannot have its names, in the form of PostgreSQL's own unique violations. Drivers and frameworks read the
//! SQLSTATE, the constraint's name in the message, `Key (column)=(value)` in DETAIL, and the fields.

use std::rc::Rc;

use claims_model::origin::Declared;
use claims_model::refused::{RefusedName, weightiest};

use crate::kernel::error::{Text, text};
use pg::error_context::ErrorFields;
use pg::libpq::RemoteError;

const UNIQUE_VIOLATION: &[u8; 5] = b"23505";

/// A save that the service has refused with conflicts.
#[derive(Debug)]
pub struct RefusedSave {
    pub error: RemoteError,
    pub names: Vec<RefusedName>,
}

impl From<RefusedSave> for Text {
    fn from(RefusedSave { error, names }: RefusedSave) -> Text {
        let weightiest = weightiest(&names);
        let fields = weightiest.and_then(|name| name.origin.0.as_deref().map(fields));
        let name = weightiest.filter(|_| &error.sqlstate == UNIQUE_VIOLATION);
        let named = name.and_then(|name| Some((name.origin.0.as_deref()?, name)));
        let violation = named.map(|(declared, name)| {
            violation(declared, &name.given, error.detail.as_deref().unwrap_or_default(), error.hint.clone())
        });
        let answered = Text::from(error);
        match violation {
            None => answered.with_fields(fields),
            Some(violation) => Text { completion: answered.completion, ..violation }.with_fields(fields),
        }
    }
}

/// A name that several rows of this database have, one of which is new.
#[derive(Debug)]
pub struct ClaimedTwice {
    pub name: RefusedName,
    /// The JSON of the conflict.
    pub conflicts: String,
}

impl From<ClaimedTwice> for Text {
    fn from(ClaimedTwice { name, conflicts }: ClaimedTwice) -> Text {
        const HINT: &str = "Several rows of this database have it: have a unique index on the column.";
        let unknown = Declared::default();
        let violation =
            violation(name.origin.0.as_deref().unwrap_or(&unknown), &name.given, &conflicts, Some(HINT.to_owned()));
        violation.with_fields(name.origin.0.as_deref().map(fields))
    }
}

/// A value of a unique column that stands in one of its tables already.
#[derive(Debug)]
pub struct DoubleValue {
    pub declared: Rc<Declared>,
    /// The value in the row that was saved.
    pub given: String,
    /// The table in which it stands. `None`: the transaction itself has saved it more than once.
    pub table: Option<String>,
}

impl From<DoubleValue> for Text {
    fn from(DoubleValue { declared, given, table }: DoubleValue) -> Text {
        let Declared { quoted_column, constraint_name, .. } = &*declared;
        let place = table.map_or_else(
            || "The transaction has saved it more than once.".to_owned(),
            |table| format!("It stands in table {table}."),
        );
        text!(ERRCODE_UNIQUE_VIOLATION: "duplicate key value violates unique constraint \"{constraint_name}\"",
            detail "Key ({quoted_column})=({given}) already exists.\n{place}")
        .with_fields(Some(fields(&declared)))
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
