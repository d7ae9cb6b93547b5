//! Errors of claimed columns: their declaration, their capture, and the sending of captured changes.

use claims_model::capture::{Capacity, TooMany};
use claims_model::problem::shortened;
use claims_model::{Kind, Problem, limits};
use pgrx::pg_sys::Oid;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code};
use uuid::Uuid;

use super::refused_save::{ClaimedTwice, RefusedSave};
use crate::kernel::error::{errors, sentence, text};

errors! {
    /// The reason why a call on claimed columns, or capture itself, fails.
    pub enum CaptureError {
        /// The condition is not one expression, or the relation has no rows.
        NotACondition => ERRCODE_SYNTAX_ERROR: "condition is not one expression over the rows of a table",
            hint "Give what could stand in CHECK ( ) of that table.";
        VirtualInCondition => ERRCODE_WRONG_OBJECT_TYPE: "condition reads a virtual generated column",
            detail "Triggers are not given the values of such columns.",
            hint "Make the column STORED, or use its generation expression in the condition.";
        NotTheOwner { table: String, caller: String } => ERRCODE_INSUFFICIENT_PRIVILEGE: "must be owner of table {table}",
            detail "Role \"{caller}\" does not have the privileges of its owner.",
            hint "Call as the table's owner.";
        /// Automatic mode claims names in this database, and the table belongs to a role that may not act for its cell.
        TableOfAnother { table: String, cell_id: i64, owner: String } => ERRCODE_INSUFFICIENT_PRIVILEGE:
            "rows of table {table} cannot claim names for cell {cell_id}",
            detail "Its owner \"{owner}\" may not act for the cell, and nobody who may has declared its columns for this owner.",
            hint "Have a role that may act for the cell, or an administrator, call claims.claim_attribute() again, \
                or end the declarations with claims.unclaim_attribute().";
        NoAttribute { table: String, attribute: String } => ERRCODE_UNDEFINED_COLUMN:
            "claimed column \"{attribute}\" of table \"{table}\", or one of its keys, does not exist",
            detail "It was renamed or dropped after it was claimed.",
            hint "End its capture with claims.unclaim_attribute(), and claim it again under its new name.";
        /// A claimed column was changed to a type whose text depends on the session's settings.
        NoFixedText { table: String, attribute: String, type_name: String } => ERRCODE_DATATYPE_MISMATCH:
            "type {type_name} of column \"{attribute}\" of table \"{table}\" cannot be claimed",
            detail "It was changed after the column was claimed. \
                How its values look as text depends on settings of the session.",
            hint "Change it back, or end its capture with claims.unclaim_attribute().";
        ConditionLost { table: String, code: Code, message: String } => { code }:
            "condition of a claimed column of table \"{table}\" cannot be evaluated any more",
            detail "It names what was renamed or dropped after the column was claimed: {message}.",
            hint "Call claims.claim_attribute() again with a condition that fits the table.";
        NoTable { table: Oid } => ERRCODE_UNDEFINED_TABLE: ("table {} does not exist", table.to_u32()),
            hint "Name a table of this database.";
        /// The relation is not a table whose columns can be claimed.
        NotClaimable { table: String } => ERRCODE_WRONG_OBJECT_TYPE: "columns of \"{table}\" cannot be claimed",
            detail "It is no permanent table, or a partition, or part of an inheritance tree, or belongs to the system.",
            hint "Claim columns of ordinary tables and of partitioned ones.";
        InheritsFromClaimed { child: String, table: String } => ERRCODE_WRONG_OBJECT_TYPE:
            "table \"{child}\" cannot inherit from table \"{table}\", whose columns are claimed",
            detail "Its rows would be rows of that table, too, and would have no claims.",
            hint "Use a partitioned table, or end the capture with claims.unclaim_attribute() first.";
        /// A table of the extension.
        Unlogged { table: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "\"claims.{table}\" cannot be unlogged",
            detail "A crash would empty it: other cells could get names that have an owner.",
            hint "Leave it as the extension has created it.";
        NoKeyColumn { table: String } => ERRCODE_INVALID_PARAMETER_VALUE: "table \"{table}\" has no primary key of one column",
            detail "source_key is the primary key where it is left out.",
            hint "Name the column as source_key.";
        NoArgumentColumn { table: String, column: String, argument: &'static str } => ERRCODE_UNDEFINED_COLUMN:
            "column \"{column}\" of table \"{table}\" does not exist",
            detail "It was given as {argument}.",
            hint "Name a column of the table.";
        VirtualArgument { table: String, column: String, argument: &'static str } => ERRCODE_WRONG_OBJECT_TYPE:
            "column \"{column}\" of table \"{table}\" is a virtual generated column",
            detail "It was given as {argument}. Triggers are not given the values of such columns.",
            hint "Make it STORED.";
        UnfitKey { column: String, type_name: String, argument: &'static str } => ERRCODE_DATATYPE_MISMATCH:
            "type {type_name} of column \"{column}\" cannot be a key",
            detail "It was given as {argument}. How its values look as text depends on settings of the session.",
            hint "Subjects and sources have integers, uuids, texts or other keys whose text is always the same.";
        UnfitColumn { column: String, type_name: String } => ERRCODE_DATATYPE_MISMATCH:
            "type {type_name} of column \"{column}\" cannot be claimed",
            detail "How its values look as text depends on settings of the session.",
            hint "Claim a generated column of type text.";
        NoSuchType { kind: Kind, name: String } => ERRCODE_INVALID_PARAMETER_VALUE: ("{0}_type names an unknown {0} type", kind.name()),
            detail ("There is no {} type \"{}\" that a claim can have.", kind.name(), shortened(&name)),
            hint ("Types are added with claims.add_{}_type(), here and at the service.", kind.name());
        CellOrService => ERRCODE_INVALID_PARAMETER_VALUE: "cell_id and service must be given both, or be both null",
            hint "automatic(NULL, NULL) turns automatic mode off, automatic(NULL, NULL, bucket_types) the services of these types.";
        NoTypesNamed => ERRCODE_INVALID_PARAMETER_VALUE: "bucket_types must not be empty",
            hint "Leave it out for all types that have no service of their own.";
        OtherCell { cell_id: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "automatic mode is on for cell {cell_id}",
            detail "All types of a database are claimed for one cell.",
            hint "Turn it off first: automatic(NULL, NULL).";
        NotClaimed { table: String, attribute: String } => ERRCODE_UNDEFINED_OBJECT:
            "column \"{attribute}\" of table \"{table}\" is not claimed",
            hint "claims.claimed_columns lists the columns that are.";
        NoDeclaration { table: String, attribute: String, declaration: String } => ERRCODE_UNDEFINED_OBJECT:
            "column \"{attribute}\" of table \"{table}\" has no declaration \"{declaration}\"",
            hint "claims.claimed_columns lists the declarations.";
        TooManyChanges { excess: TooMany } => ERRCODE_PROGRAM_LIMIT_EXCEEDED: "transaction changed too many claimed values",
            detail ("{} are not kept.", match excess {
                TooMany::Buckets => format!("More than {}", Capacity::OF_TRANSACTION.buckets),
                TooMany::Bytes => format!("Values of more than {} MiB in all", Capacity::OF_TRANSACTION.bytes >> 20),
            }),
            hint "Change fewer rows in one transaction.";
        TooLong { table: String, column: String, excess: Excess } => ERRCODE_STRING_DATA_RIGHT_TRUNCATION:
            "value of column \"{column}\" of table \"{table}\" is too long to be claimed",
            detail { excess.sentence() },
            hint "Shorten it, or have a condition that leaves such rows out.";
        /// Code that ran while changes were sent has changed rows.
        ChangedMeanwhile => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "claimed columns were changed while their changes were sent",
            detail "The condition of a claimed column has written rows when it was evaluated.",
            hint "Have conditions that write nothing.";
        /// Code has changed rows in each of the rounds in which automatic mode sent changes.
        ChangesWithoutEnd { rounds: usize } => ERRCODE_PROGRAM_LIMIT_EXCEEDED:
            "claimed columns are changed again whenever their changes are sent",
            detail "Changes were sent {rounds} times. The condition of a claimed column writes rows when it is evaluated.",
            hint "Have conditions that write nothing.";
        /// Several rows have one value, and one of them is new.
        ClaimedTwice(ClaimedTwice);
        /// The conditions of two declarations of a column are true for one row.
        SeveralHold { table: String, column: String, declarations: [String; 2] } => ERRCODE_INVALID_PARAMETER_VALUE:
            "two declarations of column \"{column}\" of table \"{table}\" hold for one row",
            detail ("They are \"{}\" and \"{}\".", declarations[0], declarations[1]),
            hint "Have conditions of which at most one is true for a row: claims.claimed_columns shows them.";
        /// A row to be claimed has no subject or no source.
        NoKey { key: &'static str, type_name: String, bucket_type: String, value: String } => ERRCODE_NOT_NULL_VIOLATION:
            "claimed row has no {key}",
            detail ("The key of {key} {type_name} is null, for {bucket_type} \"{}\".", shortened(&value)),
            hint "Fill the key, or have a condition that leaves such rows out.";
        /// In automatic mode a row was changed after the last deferred trigger.
        NotSent => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "claimed columns were changed too late to be claimed",
            detail "The trigger function that has captured them is not there any more.",
            hint "Call claims.begin_pending() before the extension is dropped, or drop it in another transaction.";
        NotCommittedHere { lease: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "local transaction of lease {lease} has not committed yet",
            detail "It is the one that is running.",
            hint "Call claims.finish() after the COMMIT.";
        NotTracked { lease: Uuid } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "lease {lease} is not tracked here",
            detail "It is outstanding, but no local transaction that has committed stands behind it.",
            hint "Leave it to claims.reconcile().";
        /// The service refused a save with conflicts.
        RefusedSave(RefusedSave);
    }
}

/// A text that is too long for a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Excess {
    /// A name that was read, and the limit that it exceeds.
    Name(Problem),
    /// A name that was not read.
    UnreadName { bytes: usize },
    /// An id of a subject or a source.
    Id,
}

impl Excess {
    pub fn sentence(&self) -> String {
        const CHARS: usize = limits::BUCKET_VALUE_CHARS;
        match self {
            Excess::Name(Problem::TooManyBytes { got, limit }) => {
                format!("It has {got} bytes in UTF-8, at most {limit} are allowed.")
            }
            Excess::Name(Problem::NameTooLong { problem }) => sentence(problem),
            Excess::Name(_) => format!("At most {CHARS} characters are allowed."),
            Excess::UnreadName { bytes } => {
                format!("It has {bytes} bytes, and so more than the {CHARS} characters that are allowed.")
            }
            Excess::Id => format!("It is an id, which has at most {} characters.", limits::ID_CHARS),
        }
    }
}

/// Warns that capture may miss changes because a condition is not immutable.
pub fn warn_of_mutable_condition() {
    text!(ERRCODE_WARNING: "condition is not immutable",
        detail "When its value changes without a change of the row, nothing is captured.",
        hint "Use only columns of the row and immutable functions.")
    .send(PgLogLevel::WARNING);
}

/// Warns that several rows can have one name in a claimed column. `expression` is the one that a unique index needs.
pub fn warn_of_no_unique_index(table: &str, attribute: &str, expression: &str, is_partitioned: bool) {
    text!(ERRCODE_WARNING: "column \"{attribute}\" of table \"{table}\" has no unique index",
    detail "Where two rows of this database have one name, the claim goes with the first of them that goes.",
    hint ("Have Postgres keep the names unique {}", match is_partitioned {
        false => format!("here, too: CREATE UNIQUE INDEX ON {table} ({expression});"),
        true => format!("in each partition, by a unique index on ({expression})."),
    }))
    .send(PgLogLevel::WARNING);
}

/// Warns that a search for a name has read every row of a table. `statement` makes the missing index.
pub fn warn_of_slow_search(table: &str, column: &str, statement: &str) {
    text!(ERRCODE_WARNING: "searching table \"{table}\" for a name took more than a second",
        detail "Every row was read, because no index leads to the names in column \"{column}\".",
        hint "Have them found by an index: {statement};")
    .send(PgLogLevel::WARNING);
}

/// Notifies that a column was claimed with other arguments before. `changes` has each argument's old and new value.
pub fn notice_of_changed_declaration(
    table: &str,
    attribute: &str,
    declaration: &str,
    changes: &[(&str, [Option<&str>; 2])],
) {
    let of = if declaration == attribute { String::new() } else { format!("Declaration \"{declaration}\": ") };
    let value = |value: Option<&str>| value.map_or("none".to_owned(), |value| format!("\"{value}\""));
    let change = |(argument, [before, now]): &(&str, [Option<&str>; 2])| {
        format!("{argument} was {} and is {}", value(*before), value(*now))
    };
    let changes: Vec<_> = changes.iter().map(change).collect();
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "column \"{attribute}\" of table \"{table}\" was claimed with other arguments before",
        detail ("{of}{}.", changes.join("; ")),
        hint "Claims that were made before stay as they are: have claims.verify() compare them with the rows.")
    .send(PgLogLevel::NOTICE);
}

/// Tells the client that rows which were saved before a column is enforced may have no claims.
pub fn notice_of_enforcing(source_type: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "rows of source type \"{source_type}\" that were saved before may have no claims",
        detail "Another cell can save a name of this one that has no claim.",
        hint "After COMMIT correct them with claims.verify(), until claims.unclaimed_rows() counts none.")
    .send(PgLogLevel::NOTICE);
}
