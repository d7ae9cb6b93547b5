//! Two-phase commits on several nodes. Each node commits its part by itself, a moment after the others, or much later if one of
//! them has crashed.

use std::collections::HashSet;

use super::distribute::NodeAnswer;
use pg::query::query;
use pg::settings::under;
use pg::spi::Connection;

query! {
    /// Returns this transaction's name on all nodes, or `None` if it has used only this node so far: the node that has begun it, and its
    /// number there.
    pub fn own_name() -> Option<String> = [Latest Anywhere]
        "SELECT t.initiator_node_identifier || '_' || t.transaction_number
           FROM pg_catalog.get_current_transaction_id() t WHERE t.transaction_number > 0";
    /// Returns the prepared parts on all nodes. Citus names the part of a connection citus_NODE_PROCESS_NUMBER_CONNECTION.
    fn prepared_parts() -> Vec<NodeAnswer> = [Statement Anywhere]
        "SELECT r.success, format('%s:%s', n.nodename, n.nodeport) AS node, r.result
           FROM pg_catalog.run_command_on_all_nodes($$
                SELECT pg_catalog.string_agg(pg_catalog.split_part(p.gid, '_', 2) || '_' || pg_catalog.split_part(p.gid, '_', 4), ',')
                  FROM pg_catalog.pg_prepared_xacts p
                 WHERE p.gid LIKE 'citus\\_%' AND p.database = pg_catalog.current_database() $$) r
           JOIN pg_catalog.pg_dist_node n USING (nodeid)";
}

/// The names of transactions that have a prepared part on some node, neither committed nor rolled back.
pub struct PreparedOnNodes {
    names: HashSet<String>,
    /// A node that has not answered, and its message. Its prepared transactions are unknown.
    pub silent: Option<(String, String)>,
}

impl PreparedOnNodes {
    /// Returns whether a transaction may not have ended everywhere. The caller must have seen it committed on one node before.
    pub fn may_have(&self, name: &str) -> bool {
        self.silent.is_some() || self.names.contains(name)
    }

    /// Returns the transactions of `before` that have not ended.
    pub fn left_of(&self, before: &PreparedOnNodes) -> Vec<String> {
        self.names.intersection(&before.names).cloned().collect()
    }
}

/// Asks all nodes, over separate connections.
pub fn prepared(connection: &Connection) -> PreparedOnNodes {
    let answers = under(&[(c"citus.node_connection_timeout", c"5s")], || prepared_parts(connection));
    let mut all = PreparedOnNodes { names: HashSet::new(), silent: None };
    for NodeAnswer { success, node, result } in answers {
        let result = result.unwrap_or_default();
        match success {
            true => all.names.extend(result.split(',').map(str::to_owned)),
            false => all.silent = Some((node, result)),
        }
    }
    all.names.remove("");
    all
}
