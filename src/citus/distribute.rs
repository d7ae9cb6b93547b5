//! Statements that distribute tables.

use super::errors::DistributionError;
use super::layout::{DISTRIBUTED_BY, EVERYWHERE, ON_ONE_NODE};
use crate::kernel::error::ClaimsError;
use pg::query::{Answer, query, record};
use pg::settings::{self, restoring, under};
use pg::spi::Connection;
use pg::xact;

record! {
    /// The answer of a node to a command.
    pub struct NodeAnswer { pub success: bool, pub node: String, pub result: Option<String> }
}

query! {
    /// Returns the owner of the extension if that role may not log in.
    pub fn owner_without_login() -> Option<String> = [Latest Anywhere]
        "SELECT r.rolname::text FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
          WHERE n.nspname = 'claims' AND NOT r.rolcanlogin";
    /// Returns a node that this role cannot connect to, and the node's message.
    pub fn unreachable_node() -> Option<NodeAnswer> = [Statement Anywhere]
        "SELECT r.success, format('%s:%s', n.nodename, n.nodeport) AS node, r.result
           FROM pg_catalog.run_command_on_all_nodes('SELECT 1') r JOIN pg_catalog.pg_dist_node n USING (nodeid)
          WHERE NOT r.success ORDER BY 2 LIMIT 1";
    /// Returns the number of nodes that have shards.
    pub fn nodes() -> Option<i32> = [Latest Anywhere]
        "SELECT count(*)::int FROM pg_catalog.pg_dist_node WHERE shouldhaveshards AND isactive AND noderole = 'primary'";
    fn failed_worker(block: &str) -> Option<NodeAnswer> = [Statement Anywhere]
        "SELECT r.success, format('%s:%s', r.nodename, r.nodeport) AS node, r.result
           FROM pg_catalog.run_command_on_workers('DO ' || pg_catalog.quote_literal(:block)) r
          WHERE NOT r.success ORDER BY 2 LIMIT 1";
}

/// Returns a feature that is in use in this database and cannot be distributed, because its tables have rows.
pub fn in_use(connection: &Connection) -> Option<&'static str> {
    let parts = [
        ("expiring claims", "claims.expiring_claims"),
        ("requests", "claims.requests"),
        ("cells of their own", "claims.cells_outstanding_leases"),
        ("captured tables", "claims.claimed_attributes"),
        ("captured tables", "claims.captured_tables"),
        ("cells of their own", "claims.attended_cells"),
    ];
    let has_rows = |from: &str| bool::of(&connection.run_text_now(&format!("SELECT EXISTS (SELECT FROM {from})"), []));
    parts.into_iter().find(|(_, from)| has_rows(from)).map(|(what, _)| what)
}

/// The table that is distributed next.
pub struct DistributionStep {
    pub table: &'static str,
    pub number: usize,
    pub of: usize,
    /// Its size on this node, for display.
    pub size: String,
}

/// Moves the rows of all tables: to every node, to `shards` shards by a column, or to one node.
pub fn distribute_tables(connection: &Connection, shards: i32, report: impl Fn(&DistributionStep)) {
    let (mut number, of) = (0, EVERYWHERE.len() + DISTRIBUTED_BY.len() + ON_ONE_NODE.len());
    let mut begin = |table| {
        number += 1;
        let text = format!("SELECT pg_catalog.pg_size_pretty(pg_catalog.pg_table_size('claims.{table}'))");
        let size = Option::of(&connection.run_text_now(&text, [])).unwrap_or_default();
        report(&DistributionStep { table, number, of, size });
    };
    // Citus refuses triggers on reference tables otherwise. Those of the extension only send invalidations to sessions.
    under(&[(c"citus.enable_unsafe_triggers", c"on")], || {
        connection.run_text(
            "UPDATE claims.cells c SET role_name = r.rolname FROM pg_catalog.pg_roles r WHERE r.oid = c.role::pg_catalog.oid",
            [],
        );
        for table in EVERYWHERE {
            begin(table);
            connection.run_text(&format!("SELECT pg_catalog.create_reference_table('claims.{table}')"), []);
        }
        for (table, column, beside) in DISTRIBUTED_BY {
            begin(table);
            let count = if beside == "none" { format!(", shard_count => {shards}") } else { String::new() };
            let call =
                format!("create_distributed_table('claims.{table}', '{column}', colocate_with => '{beside}'{count})");
            connection.run_text(&format!("SELECT pg_catalog.{call}"), []);
        }
        for (table, beside) in ON_ONE_NODE {
            begin(table);
            let call = format!("create_distributed_table('claims.{table}', NULL, colocate_with => '{beside}')");
            connection.run_text(&format!("SELECT pg_catalog.{call}"), []);
        }
    });
}

/// Runs `body` without propagating its DDL: each node gets its grants by a statement of its own.
pub fn here_only<T>(body: impl FnOnce() -> T) -> T {
    under(&[(c"citus.enable_ddl_propagation", c"off")], body)
}

/// Runs a PL/pgSQL statement on every other node, each in its own transaction, which commits at once. The statement may commit
/// parts of its work before. The settings are those of its connection, which is used for nothing else.
pub fn on_other_nodes(connection: &Connection, statement: &str) -> Result<(), ClaimsError> {
    let block = format!(
        "BEGIN
             SET citus.enable_ddl_propagation = off;
             SET search_path = pg_catalog, pg_temp;
             SET lock_timeout = '10s';
             {statement};
         END"
    );
    failed_worker(connection, &block).map_or(Ok(()), |NodeAnswer { node, result, .. }| {
        Err(DistributionError::NodeFailed { node, message: result.unwrap_or_default() }.into())
    })
}

/// Applies this transaction's lock timeout on the other nodes, and makes them flush their commits. Citus sends a setting only
/// from within a subtransaction. It sends it with the first statement for a node, which costs no extra round trip.
pub fn bound_waits(connection: &Connection) {
    let wait = settings::lock_wait();
    everywhere(connection, wait, || {
        // A transaction that has written on only one other node is committed there by a plain COMMIT, and that node's default may
        // be not to flush it. Citus flushes both phases of a commit on several nodes.
        connection.run_text(&format!("SET LOCAL synchronous_commit = {}", xact::durable_commit()), []);
    });
}

/// Applies the caller's own lock timeout on the other nodes.
pub fn free_waits(connection: &Connection) {
    everywhere(connection, settings::callers_lock_wait(), || ());
}

/// Sets the lock timeout on the other nodes, in milliseconds, and the settings of `more`. The values on this node do not change,
/// and later SETs of the caller are not propagated.
fn everywhere(connection: &Connection, wait: i32, more: impl FnOnce()) {
    restoring(&[c"lock_timeout", c"synchronous_commit"], || {
        under(&[(c"citus.propagate_set_commands", c"local")], || {
            more();
            connection.run_text(&format!("SET LOCAL lock_timeout = {wait}"), []);
        });
    });
}
