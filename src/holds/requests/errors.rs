//! Errors of tables whose changes become requests.

use pgrx::pg_sys::Oid;

use crate::kernel::error::errors;

errors! {
    /// The reason why changes of a table cannot become requests.
    pub enum CapturedTableError {
        /// The entity column of a captured table was dropped or renamed.
        NoEntity { table: String, column: String, queue: String } => ERRCODE_UNDEFINED_COLUMN:
            "table \"{table}\" has no column \"{column}\" any more",
            detail "Its changes are recorded for queue \"{queue}\" by that column.",
            hint "Call claims.uncapture_requests() and claims.capture_requests() with the new name.";
        NoTable { table: Oid } => ERRCODE_UNDEFINED_TABLE: ("table {} does not exist", table.to_u32()),
            hint "Name a table of this database.";
        /// The relation is not a table whose changes can become requests.
        NotCapturable { table: String } => ERRCODE_WRONG_OBJECT_TYPE: "\"{table}\" cannot be captured",
            detail "It is no table, or a temporary one, or belongs to the system or to claims itself.",
            hint "Name a table or a partitioned table.";
        NoColumn { table: String, column: String } => ERRCODE_UNDEFINED_COLUMN: "column \"{column}\" of table \"{table}\" does not exist",
            hint "Name the column that says which entity a row belongs to.";
        VirtualColumn { table: String, column: String } => ERRCODE_WRONG_OBJECT_TYPE:
            "column \"{column}\" of table \"{table}\" is a virtual generated column",
            detail "Triggers are not given the values of such columns.",
            hint "Make it STORED.";
    }
}
