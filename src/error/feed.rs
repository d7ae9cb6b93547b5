//! Errors of the change feed.

use pgrx::PgSqlErrorCode as Code;

use super::text::Text;

/// The reason why a reader cannot continue.
#[derive(Debug)]
pub enum FeedError {
    /// The changes after the cursor were purged.
    Purged,
    /// The cursor names a change that this feed does not have.
    Foreign,
    /// Somebody has emptied claims.change_horizon.
    NoHorizon,
    /// A transaction with changes is committed on one node, and not yet on another.
    BetweenPhases { transaction: String },
    /// A node does not answer which transactions are committed.
    SilentNode { node: String, message: String },
}

const START_AGAIN: &str = "Take claims.change_cursor(), forget all that was read before, and go on from that cursor.";

impl FeedError {
    pub(super) fn text(self) -> Text {
        match self {
            FeedError::Purged => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "changes after this cursor have been purged".into(),
                Some("The reader is further behind than the change feed reaches back.".into()),
                Some(START_AGAIN),
            ),
            FeedError::Foreign => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the change feed does not have the change of this cursor".into(),
                Some(
                    "The cursor is of another database, or the change was lost: in a failover, or when this database was restored."
                        .into(),
                ),
                Some(START_AGAIN),
            ),
            FeedError::NoHorizon => Text(
                Code::ERRCODE_DATA_CORRUPTED,
                "the change feed has lost its identity".into(),
                Some("The table claims.change_horizon has no row.".into()),
                Some("Run INSERT INTO claims.change_horizon DEFAULT VALUES: readers then start again."),
            ),
            FeedError::BetweenPhases { transaction } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "a change is not committed on all nodes yet".into(),
                Some(format!("A node has a part of transaction {transaction} (node and number) prepared, and has not ended it.")),
                Some("Try again. What a crash has left, Citus ends when all nodes are up: recover_prepared_transactions() does so at once."),
            ),
            FeedError::SilentNode { node, message } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "a node does not say which changes it has committed".into(),
                Some(format!("Node {node}: {message}")),
                Some("Take the cursor when all nodes answer. Readers that have one go on: what is not committed everywhere waits."),
            ),
        }
    }
}
