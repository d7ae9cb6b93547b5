//! Errors of tables that are distributed over several nodes.

use pgrx::PgLogLevel;

use crate::kernel::error::{errors, text};

errors! {
    /// The reason why tables or functions cannot be used with distributed tables.
    pub enum DistributionError {
        /// Citus manages tables of the extension, and claims.distribute() did not distribute them.
        ByOtherMeans { tables: Vec<String> } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the tables of claims cannot be distributed",
            detail (
                "Citus manages {}: the rows are in shards, where looks into an index do not find them.",
                tables.iter().map(|table| format!("claims.{table}")).collect::<Vec<_>>().join(", ")
            ),
            hint "Dump the database, and restore it where Citus does not manage tables of schema claims. No row is lost.";
        Isolation => ERRCODE_FEATURE_NOT_SUPPORTED: "distributed claims need a READ COMMITTED transaction",
            detail "The nodes have no common snapshot.",
            hint "Begin a READ COMMITTED transaction.";
        /// A parallel worker has other connections to the nodes than its transaction.
        InParallelWorker => ERRCODE_INVALID_TRANSACTION_STATE: "distributed claims cannot be read by a parallel worker",
            detail "Functions of claims are PARALLEL SAFE on this node, as CREATE EXTENSION makes them.",
            hint "Call claims.refresh_grants() on the coordinator: \
                then no query that calls the functions is parallel, on every node.";
        Unsupported => ERRCODE_FEATURE_NOT_SUPPORTED: "distributed claims do not have this function",
            detail "It reads or writes what is not spread over the nodes.",
            hint "docs/service/distributed.md says what distributed claims have, and what to use instead.";
        OnTheCoordinator => ERRCODE_FEATURE_NOT_SUPPORTED: "distributed claims are administered on the coordinator",
            detail "This server is a worker of the Citus cluster.",
            hint "Connect to the coordinator.";
        NodeFailed { node: String, message: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "another node has not done its part",
            detail "Node {node}: {message}",
            hint "Call the function again when it can be done there: it is safe to repeat. A role that is missing there must be created first.";
        NodeOfAnother { node: String, its_owner: String, owner: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "claims belongs to another role on a node",
            detail "On node {node} its objects belong to \"{its_owner}\", here to \"{owner}\".",
            hint "As a superuser call claims.refresh_grants(), or claims.distribute() where that was not called yet: \
                it gives the objects to their owner.";
        /// The row of a transfer is being written, and the coordinator does not answer where its claims are.
        // Without DETAIL, because the DETAIL of a conflict is JSON.
        CoordinatorSilent { message: String } => ERRCODE_LOCK_NOT_AVAILABLE:
            "the coordinator does not say where the claims of a transfer are: {message}",
            hint "The transfer is being switched, or this node has not recovered yet. Ask again, or ask another node.";
        /// A shard was moved after the transaction first used it, and Citus would continue on the old node.
        Moved => ERRCODE_LOCK_NOT_AVAILABLE: "shards of claims were moved while this transaction was using them",
            detail "In this transaction Citus would still read and write where they were before.",
            hint "Repeat the whole transaction: within this one the call fails again.";
        /// A statement that only reads has come to a node after the shard has left it.
        ShardGone { message: String } => ERRCODE_LOCK_NOT_AVAILABLE: "a shard of claims was moved while a statement was on its way to it",
            detail "The node that was asked answered: {message}",
            hint "Repeat the whole transaction. If it fails again, the catalogs of the node that was called are old: call another one. \
                If that fails, too, the shard is lost: compare pg_dist_placement with the nodes.";
        /// A node that `citus_remove_node` has taken away continues to write.
        NotAMember { node: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the node that was called has left the cluster of claims",
            detail "It was node {node}. Its catalogs are of the time when it was removed.",
            hint "Call another node, and stop the server that was removed: docs/service/distributed.md says in which order.";
        ShardElsewhere { shard: i64 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "a shard of claims is on another node by now",
            detail "The node that was called has sent a write of shard {shard} to a node that does not have it any more.",
            hint "Repeat the whole transaction. If it fails again, call another node: the catalogs of this one are old.";
        NotTheCoordinator => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the tables of claims are on another node",
            detail "This server is a worker of a Citus cluster; \
                Citus has installed the extension here, and its tables are not in use.",
            hint "Connect to the coordinator.";
    }
}

errors! {
    /// The reason why the tables cannot be distributed.
    pub enum DistributeError {
        NoCitus => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the tables of claims can be distributed only by Citus",
            detail "It is not installed in this database.",
            hint "Call claims.distribute() on the coordinator of a Citus cluster.";
        Already => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the tables of claims are distributed already",
            hint "Nodes that were added later get shards by citus_rebalance_start().";
        OwnerCannotLogIn { owner: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "the owner of claims cannot log in to the nodes",
            detail "Functions of claims reach the other nodes as role \"{owner}\", which has no LOGIN.",
            hint "Give the role LOGIN, and each node a way to enter the others as it, in pg_hba.conf or pg_dist_authinfo.";
        Unreachable { node: String, message: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
            "the owner of claims cannot log in to the nodes",
            detail "Node {node}: {message}",
            hint "Let the role enter every node from every other, in pg_hba.conf and, with a password, pg_dist_authinfo.";
        InUse { what: &'static str } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "claims cannot be distributed as they are used",
            detail "Distributed claims have no {what}.",
            hint "End their use in this database first; docs/service/distributed.md says what can be used instead.";
    }
}

/// Notifies the client of the progress of `distribute`, before each table.
pub fn notice_of_distributing(table: &str, number: usize, of: usize, size: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "spreading table claims.{table} ({number} of {of}, {size})")
        .send(PgLogLevel::NOTICE);
}
