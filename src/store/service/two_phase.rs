//! Transactions that are committed on several nodes, in two phases: each node commits its part by itself, a moment after the others or,
//! where one of them has crashed, long after.

use std::collections::HashSet;

use crate::pg::settings::under;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::shared_statement;

shared_statement! {
    /// The node that has begun it, and its number there.
    OWN() =
        "SELECT t.initiator_node_identifier || '_' || t.transaction_number
           FROM pg_catalog.get_current_transaction_id() t WHERE t.transaction_number > 0";
}

/// The name that this transaction has on all nodes. `None`: so far it is of this node only.
pub fn own_name(connection: &Connection) -> Option<String> {
    connection.run(&OWN, View::Latest, []).first(|row| row.must(1))
}

/// Transactions of which a node has a part that is prepared, and neither committed nor rolled back, by their names.
pub struct Prepared {
    names: HashSet<String>,
    /// A node that has not answered, and why: nobody knows what is prepared there.
    pub silent: Option<(String, String)>,
}

impl Prepared {
    /// Whether a transaction may not have ended everywhere. Who asks has seen it committed on one node before.
    pub fn may_have(&self, name: &str) -> bool {
        self.silent.is_some() || self.names.contains(name)
    }

    /// Those of `before` that have not ended.
    pub fn left_of(&self, before: &Prepared) -> Vec<String> {
        self.names.intersection(&before.names).cloned().collect()
    }
}

/// Asks all nodes, by connections of their own.
pub fn prepared(connection: &Connection) -> Prepared {
    // Citus names the part of a connection citus_NODE_PROCESS_NUMBER_CONNECTION.
    let text = "SELECT r.success, format('%s:%s', n.nodename, n.nodeport), r.result
                  FROM pg_catalog.run_command_on_all_nodes($$
                       SELECT pg_catalog.string_agg(pg_catalog.split_part(p.gid, '_', 2) || '_' || pg_catalog.split_part(p.gid, '_', 4), ',')
                         FROM pg_catalog.pg_prepared_xacts p
                        WHERE p.gid LIKE 'citus\\_%' AND p.database = pg_catalog.current_database() $$) r
                  JOIN pg_catalog.pg_dist_node n USING (nodeid)";
    let answers = under(&[(c"citus.node_connection_timeout", c"5s")], || {
        connection.run_text(text, []).map(|row| {
            let (is_answer, node, result): (bool, String, Option<String>) = (row.must(1), row.must(2), row.get(3));
            if is_answer { Ok(result) } else { Err((node, result.unwrap_or_default())) }
        })
    });
    let mut all = Prepared { names: HashSet::new(), silent: None };
    for answer in answers {
        match answer {
            Ok(names) => all.names.extend(names.unwrap_or_default().split(',').map(str::to_owned)),
            Err(silent) => all.silent = Some(silent),
        }
    }
    all.names.remove("");
    all
}
