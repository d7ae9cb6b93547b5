//! Errors of unique columns across tables.

use claims_model::Kind;
use claims_model::problem::shortened;

use crate::cell::capture::errors::Excess;
use crate::kernel::error::errors;

errors! {
    /// The reason why a call on unique columns, or the capture of a row, fails.
    pub enum UniqueError {
        /// Values of the tables are doubled already.
        Duplicates { name: String, column: String, value: String } => ERRCODE_UNIQUE_VIOLATION:
            "could not make unique \"{name}\"",
            detail "Key ({column})=({value}) is duplicated.",
            hint "claims.unique_duplicates() lists all values that stand more than once.";
        /// Values are doubled that import_unique() could therefore not claim.
        NotValid { name: String, column: String, value: String } => ERRCODE_UNIQUE_VIOLATION:
            "could not claim all values of unique \"{name}\"",
            detail "Key ({column})=({value}) is duplicated.",
            hint "claims.unique_duplicates() lists all values that stand more than once. Change them, and call claims.import_unique() again.";
        NotClaimed { name: String, rounds: usize } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "could not claim all values of unique \"{name}\"",
            detail "The tables were read {rounds} times. No value stands twice, and there are still rows without a claim, or claims without a row.",
            hint "Call claims.import_unique() again when fewer rows change. If claims without a row stay, claims.drop_unique() and claims.add_unique() replace them.";
        Importing { name: String, pid: i32 } => ERRCODE_LOCK_NOT_AVAILABLE: "unique \"{name}\" is being imported by another session",
            detail "It is process {pid}.",
            hint "Wait for its end, which claims.imports shows, or cancel it: an import continues where it stopped.";
        NotBegun { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "import of unique \"{name}\" has not begun in this session",
            hint "Use CALL claims.import_unique().";
        RowsLocked { name: String, table: String } => ERRCODE_LOCK_NOT_AVAILABLE: "could not claim all values of unique \"{name}\"",
            detail "Other transactions have locked rows of table \"{table}\", or are changing such values, for too long.",
            hint "pg_stat_activity and pg_prepared_xacts show them. Then call claims.import_unique() again: it continues where it stopped.";
        Exists { name: String } => ERRCODE_DUPLICATE_OBJECT: "unique \"{name}\" already exists",
            hint "Choose another name, or drop it with claims.drop_unique() first.";
        IsType { kind: Kind, name: String } => ERRCODE_DUPLICATE_OBJECT: ("there is a {} type \"{name}\"", kind.name()),
            detail "The values of a unique are claimed under types of its name.",
            hint "Choose another name.";
        Unknown { name: String } => ERRCODE_UNDEFINED_OBJECT: "unique \"{name}\" does not exist",
            hint "claims.uniques lists those that do.";
        UnfitColumn { column: String, type_name: String } => ERRCODE_DATATYPE_MISMATCH:
            "values of column \"{column}\" cannot be compared by their text",
            detail "Of type {type_name} values can be equal whose texts differ, or texts can change, or the column has such a collation.",
            hint "Use a generated column, of text, with one form for all values that are equal.";
        ClaimsElsewhere => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "names of this database are claimed at a service",
            detail "claims.automatic() has turned that on. Values of a unique are claimed in the database itself.",
            hint "Declare the columns with claims.claim_attribute(): the service keeps them unique for all cells.";
        /// A transaction of REPEATABLE READ or SERIALIZABLE does not see all rows of a table that it has locked.
        OldSnapshot => ERRCODE_ACTIVE_SQL_TRANSACTION: "values cannot be claimed with the snapshot of an older query",
            detail "Under REPEATABLE READ and SERIALIZABLE the transaction may not see all rows of the table.",
            hint "Use a transaction of READ COMMITTED.";
        NoColumn { name: String, table: String, column: String } => ERRCODE_UNDEFINED_COLUMN:
            "column \"{column}\" of table \"{table}\" does not exist",
            detail "It belongs to unique \"{name}\".",
            hint "Drop the unique with claims.drop_unique(), and add it again.";
        Refused { column: String, value: String, profile: &'static str } => ERRCODE_INVALID_PARAMETER_VALUE:
            "profile {profile} refuses a value of column \"{column}\"",
            detail ("The value is \"{}\".", shortened(&value)),
            hint "Change the value, or leave such rows out by a condition.";
        EmptyText { table: String, column: String } => ERRCODE_INVALID_PARAMETER_VALUE:
            "value of column \"{column}\" of table \"{table}\" is empty, and cannot be unique",
            detail "No claim can have an empty value.",
            hint "Use NULL, or have a condition that leaves such rows out.";
        /// A table or partition cannot belong to a unique.
        UnfitTable { table: String, kind: String } => ERRCODE_WRONG_OBJECT_TYPE: "values of table {table} cannot be unique",
            detail "It is {kind}.",
            hint "Use an ordinary table.";
        ExplicitMode => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "names of this database are sent by claims.begin_pending()",
            detail "It has claimed columns, and automatic mode is off. A unique would turn it on, for these columns, too.",
            hint "Turn it on with claims.automatic_here() first, or end the claimed columns with claims.unclaim_attribute().";
        TooLong { table: String, column: String, excess: Excess } => ERRCODE_STRING_DATA_RIGHT_TRUNCATION:
            "value of column \"{column}\" of table \"{table}\" is too long to be unique",
            detail { excess.sentence() },
            hint "Shorten it, or have a condition that leaves such rows out.";
    }
}
