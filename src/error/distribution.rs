//! Errors of tables that are distributed over several nodes.

use pgrx::PgSqlErrorCode as Code;

use super::text::Text;

/// The reason why tables or functions cannot be used with distributed tables.
#[derive(Debug)]
pub enum DistributionError {
    /// Citus manages tables of the extension, and claims.distribute() did not distribute them.
    ByOtherMeans { tables: Vec<String> },
    /// Citus is not installed in this database.
    NoCitus,
    /// `claims.distribute()` was called before.
    Already,
    /// The owner of the extension, as whom the other nodes are connected to, cannot log in.
    OwnerCannotLogIn { owner: String },
    /// A node cannot be reached as the owner.
    Unreachable { node: String, message: String },
    /// The call needs one snapshot of all nodes.
    Isolation,
    /// A parallel worker has other connections to the nodes than its transaction.
    InParallelWorker,
    /// The function does not support distributed tables.
    Unsupported,
    /// Administrators must call the function on the coordinator.
    OnTheCoordinator,
    /// A feature is in use that distributed tables do not support.
    InUse { what: &'static str },
    /// A statement has failed on another node.
    NodeFailed { node: String, message: String },
    /// On a node, another role owns the extension.
    NodeOfAnother { node: String, its_owner: String, owner: String },
    /// The row of a transfer is being written, and the coordinator does not answer where its claims are.
    CoordinatorSilent { message: String },
    /// A shard was moved after the transaction first used it, and Citus would continue on the old node.
    Moved,
    /// This node is a worker of a Citus cluster, and the tables are on its coordinator.
    NotTheCoordinator,
}

impl DistributionError {
    pub(super) fn text(self) -> Text {
        match self {
            DistributionError::ByOtherMeans { tables } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the tables of claims cannot be distributed".into(),
                Some(format!(
                    "Citus manages {}: the rows are in shards, where looks into an index do not find them.",
                    tables.iter().map(|table| format!("claims.{table}")).collect::<Vec<_>>().join(", ")
                )),
                Some("Dump the database, and restore it where Citus does not manage tables of schema claims. No row is lost."),
            ),
            DistributionError::NoCitus => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the tables of claims can be distributed only by Citus".into(),
                Some("It is not installed in this database.".into()),
                Some("Call claims.distribute() on the coordinator of a Citus cluster."),
            ),
            DistributionError::Already => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the tables of claims are distributed already".into(),
                None,
                Some("Nodes that were added later get shards by citus_rebalance_start()."),
            ),
            DistributionError::OwnerCannotLogIn { owner } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the owner of claims cannot log in to the nodes".into(),
                Some(format!("Functions of claims reach the other nodes as role \"{owner}\", which has no LOGIN.")),
                Some("Give the role LOGIN, and each node a way to enter the others as it, in pg_hba.conf or pg_dist_authinfo."),
            ),
            DistributionError::Unreachable { node, message } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the owner of claims cannot log in to the nodes".into(),
                Some(format!("Node {node}: {message}")),
                Some("Let the role enter every node from every other, in pg_hba.conf and, with a password, pg_dist_authinfo."),
            ),
            DistributionError::Isolation => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "distributed claims need a READ COMMITTED transaction".into(),
                Some("The nodes have no common snapshot.".into()),
                Some("Begin a READ COMMITTED transaction."),
            ),
            DistributionError::InParallelWorker => Text(
                Code::ERRCODE_INVALID_TRANSACTION_STATE,
                "distributed claims cannot be read by a parallel worker".into(),
                Some("Functions of claims are PARALLEL SAFE on this node, as CREATE EXTENSION makes them.".into()),
                Some(
                    "Call claims.refresh_grants() on the coordinator: then the leader of a parallel query calls the functions on every node.",
                ),
            ),
            DistributionError::Unsupported => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "distributed claims do not have this function".into(),
                Some("It reads or writes what is not spread over the nodes.".into()),
                Some("docs/service/distributed.md says what distributed claims have, and what to use instead."),
            ),
            DistributionError::OnTheCoordinator => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "distributed claims are administered on the coordinator".into(),
                Some("This server is a worker of the Citus cluster.".into()),
                Some("Connect to the coordinator."),
            ),
            DistributionError::InUse { what } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "claims cannot be distributed as they are used".into(),
                Some(format!("Distributed claims have no {what}.")),
                Some("End their use in this database first; docs/service/distributed.md says what can be used instead."),
            ),
            DistributionError::NodeFailed { node, message } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "another node has not done its part".into(),
                Some(format!("Node {node}: {message}")),
                Some("Roles must exist on every node. Call the function again when it can be done there: it is safe to repeat."),
            ),
            DistributionError::NodeOfAnother { node, its_owner, owner } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "claims belongs to another role on a node".into(),
                Some(format!("On node {node} its objects belong to \"{its_owner}\", here to \"{owner}\".")),
                Some(
                    "As a superuser call claims.refresh_grants(), or claims.distribute() where that was not called yet: it gives the objects to their owner.",
                ),
            ),
            // Without DETAIL, because the DETAIL of a conflict is JSON.
            DistributionError::CoordinatorSilent { message } => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("the coordinator does not say where the claims of a transfer are: {message}"),
                None,
                Some("The transfer is being switched, or this node has not recovered yet. Ask again, or ask another node."),
            ),
            DistributionError::Moved => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "shards of claims were moved while this transaction was using them".into(),
                Some("In this transaction Citus would still read and write where they were before.".into()),
                Some("Repeat the whole transaction: within this one the call fails again."),
            ),
            DistributionError::NotTheCoordinator => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the tables of claims are on another node".into(),
                Some("This server is a worker of a Citus cluster; Citus has installed the extension here, and its tables are not in use.".into()),
                Some("Connect to the coordinator."),
            ),
        }
    }
}
