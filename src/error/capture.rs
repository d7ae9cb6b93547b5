//! The errors of claimed attributes: their declaration, their capture, the sending of what was captured.

use claims_model::Kind;
use claims_model::problem::shortened;
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

use super::text::Text;

/// What goes wrong with claimed attributes.
#[derive(Debug)]
pub enum CaptureError {
    /// A condition that is more than an expression, or over what has no rows.
    NotACondition,
    /// A condition over a column that has no value in the rows that triggers see.
    VirtualInCondition,
    /// The caller is not the owner of the table.
    NotTheOwner { table: String, caller: String },
    /// A claimed column, or one of its keys, has gone since.
    NoAttribute { table: String, attribute: String },
    /// A claimed column has got a type whose values look as the session's settings say.
    NoFixedText { table: String, attribute: String, type_name: String },
    /// A condition names what has gone since.
    ConditionLost { table: String, code: Code, message: String },
    /// The column by which a table's changes are recorded as requests has gone since.
    NoEntity { table: String, column: String, queue: String },
    /// Nobody has made that table, or it is gone.
    NoTable { table: Oid },
    /// What is no table, or not one whose changes can become requests.
    NotCapturable { table: String },
    /// There is no such column by which a table could be captured.
    NoColumn { table: String, column: String },
    /// Triggers do not see the column by which a table was to be captured.
    VirtualColumn { table: String, column: String },
    /// What is no table, or not one whose columns can be claimed.
    NotClaimable { table: String },
    /// The table has no primary key of one column to take for the sources.
    NoKeyColumn { table: String },
    /// There is no such column, which was given for an argument.
    NoArgumentColumn { table: String, column: String, argument: &'static str },
    /// Triggers do not see such a column.
    VirtualArgument { table: String, column: String, argument: &'static str },
    /// How the values of a key look depends on settings.
    UnfitKey { column: String, type_name: String, argument: &'static str },
    /// How the values of the column that is to be claimed look depends on settings.
    UnfitColumn { column: String, type_name: String },
    /// A claim can have no such type.
    NoSuchType { kind: Kind, name: String },
    /// The column is not claimed.
    NotClaimed { table: String, attribute: String },
    /// A partition of a table that is captured for the same was to be captured by itself.
    CapturedAsPartition { table: String, root: String },
    /// A partition of the table is captured for the same by itself.
    PartitionCaptured { table: String, partition: String, is_claimed: bool },
    /// The capture of a partition was to end that is captured with its table.
    CapturedWithItsTable { table: String, root: String },
    /// The transaction has changed more than is kept.
    TooManyChanges,
    /// Several rows have the same value, and a new one among them.
    ClaimedTwice { bucket_type: String, value: String },
    /// A row that is to be claimed has no subject or no source.
    NoKey { key: &'static str, type_name: String, bucket_type: String, value: String },
    /// A function that event triggers are to call is not the extension's.
    ForeignEventTrigger,
    /// In automatic mode something was changed after the last deferred trigger.
    NotSent,
    /// The lease was tracked by this very transaction.
    NotCommittedHere { lease: Uuid },
    /// The lease is outstanding, but no local transaction that committed has tracked it.
    NotTracked { lease: Uuid },
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
                Some("Have a superuser look at what was done to schema claims."),
            ),
            CaptureError::VirtualInCondition => Text(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                "condition reads a virtual generated column".into(),
                Some("Triggers are not given the values of such columns.".into()),
                Some("Have the column STORED, or write out in the condition what it is generated from."),
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
                Some("Have it STORED."),
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
                Some("Have it STORED."),
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
            CaptureError::TooManyChanges => Text(
                Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "transaction changed too many claimed values".into(),
                Some(format!("More than {} are not kept.", claims_model::capture::MAX_BUCKETS)),
                Some("Change fewer rows in one transaction."),
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

/// Tells the declarer that capture may be wrong for a condition.
pub fn warn_of_mutable_condition() {
    ErrorReport::new(Code::ERRCODE_WARNING, "condition is not immutable".to_owned(), function_name!())
        .set_detail("When its value changes without a change of the row, nothing is captured.")
        .set_hint("Let it depend on the row alone.")
        .report(PgLogLevel::WARNING);
}

/// Tells the declarer that Postgres lets several rows have one value of a claimed column.
pub fn warn_of_no_unique_index(table: &str, attribute: &str) {
    let message = format!("column \"{attribute}\" of table \"{table}\" has no unique index");
    ErrorReport::new(Code::ERRCODE_WARNING, message, function_name!())
        .set_detail("Where two rows of this database have one value, the claim goes with the first of them that goes.")
        .set_hint("Have Postgres keep the values unique in this database; claims keeps them unique between databases.")
        .report(PgLogLevel::WARNING);
}
