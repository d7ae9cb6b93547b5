//! Errors of capture triggers.

use crate::kernel::error::errors;

errors! {
    /// The reason why capture triggers cannot be made or dropped.
    pub enum TriggerError {
        /// The table is a partition of a table that is captured for the same purpose.
        CapturedAsPartition { table: String, root: String } => ERRCODE_DUPLICATE_OBJECT: "changes of table {table} are captured already",
            detail "It is a partition of table {root}, which is captured for the same queue.",
            hint "There is nothing to do. To capture partitions one by one, end the capture of that table first.";
        /// A partition of the table is captured for the same purpose on its own.
        PartitionCaptured { table: String, partition: String, ending: &'static str } => ERRCODE_DUPLICATE_OBJECT:
            "changes of a partition of table {table} are captured already",
            detail "Partition {partition} is captured for the same by itself.",
            hint "End that with claims.{ending}() first.";
        /// uncapture_requests() named a partition that is captured through its parent.
        CapturedWithItsTable { table: String, root: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "capture of table {table} cannot be ended by itself",
            detail "It is a partition of table {root}, which is captured.",
            hint "End the capture of that table, or detach the partition first.";
        ForeignEventTrigger => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the event triggers of claims cannot be made",
            detail "The functions claims.complete_triggers() and claims.forget_dropped_tables() \
                are not those of the extension.",
            hint "Let a superuser inspect schema claims.";
    }
}
