//! Errors of the change feed.

use crate::kernel::error::errors;

const START_AGAIN: &str = "Take claims.change_cursor(), forget all that was read before, and go on from that cursor.";

errors! {
    /// The reason why a reader of the change feed cannot continue.
    pub enum FeedError {
        Purged => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "changes after this cursor have been purged",
            detail "The reader is further behind than the change feed reaches back.",
            hint "{START_AGAIN}";
        Foreign => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the change feed does not have the change of this cursor",
            detail "The cursor is of another database, or the change was lost: \
                in a failover, or when this database was restored.",
            hint "{START_AGAIN}";
        /// Somebody has emptied claims.change_horizon.
        NoHorizon => ERRCODE_DATA_CORRUPTED: "the change feed has lost its identity",
            detail "The table claims.change_horizon has no row.",
            hint "Run INSERT INTO claims.change_horizon DEFAULT VALUES: readers then start again.";
        /// A transaction with changes is committed on one node, and not yet on another.
        BetweenPhases { transaction: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "a change is not committed on all nodes yet",
            detail "A node has a part of transaction {transaction} (node and number) prepared, and has not ended it.",
            hint "Try again. What a crash has left, Citus ends when all nodes are up: \
                recover_prepared_transactions() does so at once.";
        SilentNode { node: String, message: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "a node does not say which changes it has committed",
            detail "Node {node}: {message}",
            hint "Take the cursor when all nodes answer. \
                Readers that have one go on: what is not committed everywhere waits.";
    }
}
