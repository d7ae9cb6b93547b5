//! Errors of claimed columns: their declaration, their capture, and the sending of captured changes.

use claims_model::capture::{Capacity, TooMany};
use claims_model::problem::shortened;
use claims_model::{Kind, Problem, limits};
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

use super::bad_input::sentence;
use super::text::Text;

/// The reason why a call on claimed columns, or capture itself, fails.
#[derive(Debug)]
pub enum CaptureError {
    /// The condition is not one expression, or the relation has no rows.
    NotACondition,
    /// The condition reads a virtual generated column, which has no value in the rows of triggers.
    VirtualInCondition,
    /// The caller is not the owner of the table.
    NotTheOwner { table: String, caller: String },
    /// A claimed column, or one of its keys, was dropped or renamed.
    NoAttribute { table: String, attribute: String },
    /// A claimed column was changed to a type whose text depends on the session's settings.
    NoFixedText { table: String, attribute: String, type_name: String },
    /// A condition uses something that was dropped or renamed.
    ConditionLost { table: String, code: Code, message: String },
    /// The entity column of a captured table was dropped or renamed.
    NoEntity { table: String, column: String, queue: String },
    /// The table does not exist.
    NoTable { table: Oid },
    /// The relation is not a table whose changes can become requests.
    NotCapturable { table: String },
    /// The entity column does not exist.
    NoColumn { table: String, column: String },
    /// The entity column is a virtual generated column, whose values triggers do not see.
    VirtualColumn { table: String, column: String },
    /// The relation is not a table whose columns can be claimed.
    NotClaimable { table: String },
    /// The table has no single-column primary key to use as source_key.
    NoKeyColumn { table: String },
    /// A column that an argument names does not exist.
    NoArgumentColumn { table: String, column: String, argument: &'static str },
    /// A column that an argument names is virtual, so triggers do not see its values.
    VirtualArgument { table: String, column: String, argument: &'static str },
    /// The text of a key's type depends on settings.
    UnfitKey { column: String, type_name: String, argument: &'static str },
    /// The text of the claimed column's type depends on settings.
    UnfitColumn { column: String, type_name: String },
    /// No claim can have this type.
    NoSuchType { kind: Kind, name: String },
    /// The column is not claimed.
    NotClaimed { table: String, attribute: String },
    /// The table is a partition of a table that is captured for the same purpose.
    CapturedAsPartition { table: String, root: String },
    /// A partition of the table is captured for the same purpose on its own.
    PartitionCaptured { table: String, partition: String, is_claimed: bool },
    /// uncapture_requests() named a partition that is captured through its parent.
    CapturedWithItsTable { table: String, root: String },
    /// The transaction has changed more rows than capture stores.
    TooManyChanges { excess: TooMany },
    /// A row calls for a claim, and the text of a column is too long for it.
    TooLong { table: String, column: String, excess: Excess },
    /// Code that ran while changes were sent has changed rows.
    ChangedMeanwhile,
    /// Code has changed rows in each of the rounds in which automatic mode sent changes.
    ChangesWithoutEnd { rounds: usize },
    /// Several rows have one value, and one of them is new.
    ClaimedTwice { bucket_type: String, value: String },
    /// A row to be claimed has no subject or no source.
    NoKey { key: &'static str, type_name: String, bucket_type: String, value: String },
    /// A function of the event triggers is not the extension's.
    ForeignEventTrigger,
    /// In automatic mode a row was changed after the last deferred trigger.
    NotSent,
    /// The current transaction has tracked the lease, and has not committed.
    NotCommittedHere { lease: Uuid },
    /// The lease is outstanding, but no committed local transaction has tracked it.
    NotTracked { lease: Uuid },
}

/// A text that is too long for a claim.
#[derive(Debug, Clone)]
pub enum Excess {
    /// A name that was read, and the limit that it exceeds.
    Name(Problem),
    /// A name that was not read.
    UnreadName { bytes: usize },
    /// An id of a subject or a source.
    Id,
}

impl Excess {
    fn sentence(&self) -> String {
        match self {
            Excess::Name(Problem::TooManyBytes { got, limit }) => {
                format!("It has {got} bytes in UTF-8, at most {limit} are allowed.")
            }
            Excess::Name(Problem::NameTooLong { problem }) => sentence(problem),
            Excess::Name(_) => format!("At most {} characters are allowed.", limits::BUCKET_VALUE_CHARS),
            Excess::UnreadName { bytes } => {
                format!(
                    "It has {bytes} bytes, and so more than the {} characters that are allowed.",
                    limits::BUCKET_VALUE_CHARS
                )
            }
            Excess::Id => format!("It is an id, which has at most {} characters.", limits::ID_CHARS),
        }
    }
}

impl CaptureError {
    pub(super) fn text(self) -> Text {
        match self {
            CaptureError::NotACondition => Text(
                Code::ERRCODE_SYNTAX_ERROR,
                "condition is not one expression over the rows of a table".into(),
                None,
                Some("Give what could stand in CHECK ( ) of that table."),
            ),
            CaptureError::ForeignEventTrigger => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the event triggers of claims cannot be made".into(),
                Some("The functions claims.complete_triggers() and claims.forget_dropped_tables() are not those of the extension.".into()),
                Some("Let a superuser inspect schema claims."),
            ),
            CaptureError::VirtualInCondition => Text(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                "condition reads a virtual generated column".into(),
                Some("Triggers are not given the values of such columns.".into()),
                Some("Make the column STORED, or use its generation expression in the condition."),
            ),
            CaptureError::NotTheOwner { table, caller } => Text(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of table {table}"),
                Some(format!("Role \"{caller}\" does not have the privileges of its owner.")),
                Some("Call as the table's owner."),
            ),
            CaptureError::NoAttribute { table, attribute } => Text(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("claimed column \"{attribute}\" of table \"{table}\", or one of its keys, does not exist"),
                Some("It was renamed or dropped after it was claimed.".into()),
                Some("End its capture with claims.unclaim_attribute(), and claim it again under its new name."),
            ),
            CaptureError::NoFixedText { table, attribute, type_name } => Text(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("type {type_name} of column \"{attribute}\" of table \"{table}\" cannot be claimed"),
                Some("It was changed after the column was claimed. How its values look as text depends on settings of the session.".into()),
                Some("Change it back, or end its capture with claims.unclaim_attribute()."),
            ),
            CaptureError::ConditionLost { table, code, message } => Text(
                code,
                format!("condition of a claimed column of table \"{table}\" cannot be evaluated any more"),
                Some(format!("It names what was renamed or dropped after the column was claimed: {message}.")),
                Some("Call claims.claim_attribute() again with a condition that fits the table."),
            ),
            CaptureError::NoEntity { table, column, queue } => Text(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("table \"{table}\" has no column \"{column}\" any more"),
                Some(format!("Its changes are recorded for queue \"{queue}\" by that column.")),
                Some("Call claims.uncapture_requests() and claims.capture_requests() with the new name."),
            ),
            CaptureError::NoTable { table } => Text(
                Code::ERRCODE_UNDEFINED_TABLE,
                format!("table {} does not exist", table.to_u32()),
                None,
                Some("Name a table of this database."),
            ),
            CaptureError::NotCapturable { table } => Text(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{table}\" cannot be captured"),
                Some("It is no table, or a temporary one, or belongs to the system or to claims itself.".into()),
                Some("Name a table or a partitioned table."),
            ),
            CaptureError::NoColumn { table, column } => Text(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("column \"{column}\" of table \"{table}\" does not exist"),
                None,
                Some("Name the column that says which entity a row belongs to."),
            ),
            CaptureError::VirtualColumn { table, column } => Text(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column \"{column}\" of table \"{table}\" is a virtual generated column"),
                Some("Triggers are not given the values of such columns.".into()),
                Some("Make it STORED."),
            ),
            CaptureError::NotClaimable { table } => Text(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("columns of \"{table}\" cannot be claimed"),
                Some("It is no permanent table, or a partition, or part of an inheritance tree, or belongs to the system.".into()),
                Some("Claim columns of ordinary tables and of partitioned ones."),
            ),
            CaptureError::NoKeyColumn { table } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("table \"{table}\" has no primary key of one column"),
                Some("source_key is the primary key where it is left out.".into()),
                Some("Name the column as source_key."),
            ),
            CaptureError::NoArgumentColumn { table, column, argument } => Text(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("column \"{column}\" of table \"{table}\" does not exist"),
                Some(format!("It was given as {argument}.")),
                Some("Name a column of the table."),
            ),
            CaptureError::VirtualArgument { table, column, argument } => Text(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column \"{column}\" of table \"{table}\" is a virtual generated column"),
                Some(format!("It was given as {argument}. Triggers are not given the values of such columns.")),
                Some("Make it STORED."),
            ),
            CaptureError::UnfitKey { column, type_name, argument } => Text(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("type {type_name} of column \"{column}\" cannot be a key"),
                Some(format!("It was given as {argument}. How its values look as text depends on settings of the session.")),
                Some("Subjects and sources have integers, uuids, texts or other keys whose text is always the same."),
            ),
            CaptureError::UnfitColumn { column, type_name } => Text(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("type {type_name} of column \"{column}\" cannot be claimed"),
                Some("How its values look as text depends on settings of the session.".into()),
                Some("Claim a generated column of type text."),
            ),
            CaptureError::NoSuchType { kind, name } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{0}_type names an unknown {0} type", kind.name()),
                Some(format!("There is no {} type \"{}\" that a claim can have.", kind.name(), shortened(&name))),
                Some(match kind {
                    Kind::Bucket => "Types are added with claims.add_bucket_type(), here and at the service.",
                    Kind::Subject => "Types are added with claims.add_subject_type(), here and at the service.",
                    Kind::Source => "Types are added with claims.add_source_type(), here and at the service.",
                }),
            ),
            CaptureError::NotClaimed { table, attribute } => Text(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("column \"{attribute}\" of table \"{table}\" is not claimed"),
                None,
                Some("claims.claimed_columns lists the columns that are."),
            ),
            CaptureError::CapturedAsPartition { table, root } => Text(
                Code::ERRCODE_DUPLICATE_OBJECT,
                format!("changes of table {table} are captured already"),
                Some(format!("It is a partition of table {root}, which is captured for the same queue.")),
                Some("There is nothing to do. To capture partitions one by one, end the capture of that table first."),
            ),
            CaptureError::PartitionCaptured { table, partition, is_claimed } => Text(
                Code::ERRCODE_DUPLICATE_OBJECT,
                format!("changes of a partition of table {table} are captured already"),
                Some(format!("Partition {partition} is captured for the same by itself.")),
                Some(if is_claimed {
                    "End that with claims.unclaim_attribute() first."
                } else {
                    "End that with claims.uncapture_requests() first."
                }),
            ),
            CaptureError::CapturedWithItsTable { table, root } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("capture of table {table} cannot be ended by itself"),
                Some(format!("It is a partition of table {root}, which is captured.")),
                Some("End the capture of that table, or detach the partition first."),
            ),
            CaptureError::TooManyChanges { excess } => Text(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "transaction changed too many claimed values".into(),
                Some(match excess {
                    TooMany::Buckets => format!("More than {} are not kept.", Capacity::OF_TRANSACTION.buckets),
                    TooMany::Bytes => {
                        format!("Values of more than {} MiB in all are not kept.", Capacity::OF_TRANSACTION.bytes >> 20)
                    }
                }),
                Some("Change fewer rows in one transaction."),
            ),
            CaptureError::TooLong { table, column, excess } => Text(
                Code::ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
                format!("value of column \"{column}\" of table \"{table}\" is too long to be claimed"),
                Some(excess.sentence()),
                Some("Shorten it, or have a condition that leaves such rows out."),
            ),
            CaptureError::ChangedMeanwhile => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "claimed columns were changed while their changes were sent".into(),
                Some("The condition of a claimed column has written rows when it was evaluated.".into()),
                Some("Have conditions that write nothing."),
            ),
            CaptureError::ChangesWithoutEnd { rounds } => Text(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "claimed columns are changed again whenever their changes are sent".into(),
                Some(format!("Changes were sent {rounds} times. The condition of a claimed column writes rows when it is evaluated.")),
                Some("Have conditions that write nothing."),
            ),
            CaptureError::ClaimedTwice { bucket_type, value } => Text(
                Code::ERRCODE_UNIQUE_VIOLATION,
                "several rows claim the same bucket".into(),
                Some(format!("It is {bucket_type} \"{}\".", claims_model::problem::shortened(&value))),
                Some("A value can be claimed by one row only: have a unique index on the column."),
            ),
            CaptureError::NoKey { key, type_name, bucket_type, value } => Text(
                Code::ERRCODE_NOT_NULL_VIOLATION,
                format!("claimed row has no {key}"),
                Some(format!(
                    "The key of {key} {type_name} is null, for {bucket_type} \"{}\".",
                    claims_model::problem::shortened(&value)
                )),
                Some("Fill the key, or have a condition that leaves such rows out."),
            ),
            CaptureError::NotSent => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "claimed columns were changed too late to be claimed".into(),
                Some("The trigger function that has captured them is not there any more.".into()),
                Some("Call claims.begin_pending() before the extension is dropped, or drop it in another transaction."),
            ),
            CaptureError::NotCommittedHere { lease } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("local transaction of lease {lease} has not committed yet"),
                Some("It is the one that is running.".into()),
                Some("Call claims.finish() after the COMMIT."),
            ),
            CaptureError::NotTracked { lease } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("lease {lease} is not tracked here"),
                Some("It is outstanding, but no local transaction that has committed stands behind it.".into()),
                Some("Leave it to claims.reconcile()."),
            ),
        }
    }
}

/// Warns that capture may miss changes because a condition is not immutable.
pub fn warn_of_mutable_condition() {
    ErrorReport::new(Code::ERRCODE_WARNING, "condition is not immutable".to_owned(), function_name!())
        .set_detail("When its value changes without a change of the row, nothing is captured.")
        .set_hint("Use only columns of the row and immutable functions.")
        .report(PgLogLevel::WARNING);
}

/// Warns that several rows can have one name in a claimed column. `expression` is the one that a unique index needs.
pub fn warn_of_no_unique_index(table: &str, attribute: &str, expression: &str, is_partitioned: bool) {
    let message = format!("column \"{attribute}\" of table \"{table}\" has no unique index");
    let hint = match is_partitioned {
        false => {
            format!("Have Postgres keep the names unique here, too: CREATE UNIQUE INDEX ON {table} ({expression});")
        }
        true => format!("Have Postgres keep the names unique in each partition, by a unique index on ({expression})."),
    };
    ErrorReport::new(Code::ERRCODE_WARNING, message, function_name!())
        .set_detail("Where two rows of this database have one name, the claim goes with the first of them that goes.")
        .set_hint(hint)
        .report(PgLogLevel::WARNING);
}

/// Warns that a search for a name has read every row of a table. `statement` makes the missing index.
pub fn warn_of_slow_search(table: &str, column: &str, statement: &str) {
    let message = format!("searching table \"{table}\" for a name took more than a second");
    ErrorReport::new(Code::ERRCODE_WARNING, message, function_name!())
        .set_detail(format!("Every row was read, because no index leads to the names in column \"{column}\"."))
        .set_hint(format!("Have them found by an index: {statement};"))
        .report(PgLogLevel::WARNING);
}

/// Notifies that a column was claimed with other arguments before. `changes` has each argument's old and new value.
pub fn notice_of_changed_declaration(table: &str, attribute: &str, changes: &[(&str, [Option<&str>; 2])]) {
    let message = format!("column \"{attribute}\" of table \"{table}\" was claimed with other arguments before");
    let value = |value: Option<&str>| value.map_or("none".to_owned(), |value| format!("\"{value}\""));
    let change = |(argument, [before, now]): &(&str, [Option<&str>; 2])| {
        format!("{argument} was {} and is {}", value(*before), value(*now))
    };
    let changes: Vec<_> = changes.iter().map(change).collect();
    ErrorReport::new(Code::ERRCODE_SUCCESSFUL_COMPLETION, message, function_name!())
        .set_detail(format!("{}.", changes.join("; ")))
        .set_hint("Claims that were made before stay as they are: have claims.verify() compare them with the rows.")
        .report(PgLogLevel::NOTICE);
}
