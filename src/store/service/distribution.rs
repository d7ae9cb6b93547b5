//! Statements that spread tables over nodes. They name functions of Citus, which is not there in most databases: so none of them is
//! kept.

use crate::distribution::{EVERYWHERE, ON_ONE_NODE, SPREAD_BY};
use crate::error::{ClaimsError, DistributionError};
use crate::pg::settings::{self, keeping, under};
use crate::pg::spi::Connection;
use crate::pg::xact;

/// The owner of the extension, where it may not log in.
pub fn owner_without_login(connection: &Connection) -> Option<String> {
    let text = "SELECT r.rolname::text FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
                 WHERE n.nspname = 'claims' AND NOT r.rolcanlogin";
    connection.run_text_now(text, []).first(|row| row.must(1))
}

/// A node to which this role has no way, and what it said.
pub fn unreachable_node(connection: &Connection) -> Option<(String, String)> {
    let text = "SELECT format('%s:%s', n.nodename, n.nodeport), r.result
                  FROM pg_catalog.run_command_on_all_nodes('SELECT 1') r JOIN pg_catalog.pg_dist_node n USING (nodeid)
                 WHERE NOT r.success ORDER BY 1 LIMIT 1";
    connection.run_text(text, []).first(|row| (row.must(1), row.get(2).unwrap_or_default()))
}

/// How many nodes keep shards.
pub fn nodes(connection: &Connection) -> i32 {
    let text = "SELECT count(*)::int FROM pg_catalog.pg_dist_node WHERE shouldhaveshards AND isactive AND noderole = 'primary'";
    connection.run_text_now(text, []).first(|row| row.must(1)).unwrap_or(0)
}

/// What of this database is in use and cannot be spread: tables that have rows.
pub fn in_use(connection: &Connection) -> Option<&'static str> {
    let parts = [
        ("expiring claims", "claims.expiring_claims"),
        ("requests", "claims.requests"),
        ("cells of their own", "claims.cells_outstanding_leases"),
        ("captured tables", "claims.claimed_attributes"),
        ("captured tables", "claims.captured_tables"),
        ("cells of their own", "claims.attended_cells"),
    ];
    let has_rows = |from: &str| {
        let text = format!("SELECT EXISTS (SELECT FROM {from})");
        connection.run_text_now(&text, []).first(|row| row.must::<bool>(1)).unwrap_or(false)
    };
    parts.into_iter().find(|(_, from)| has_rows(from)).map(|(what, _)| what)
}

/// A table whose turn it is.
pub struct Step {
    pub table: &'static str,
    pub number: usize,
    pub of: usize,
    /// What it takes on this node, to be read.
    pub size: String,
}

/// Moves the rows of all tables: some whole to every node, some spread by a column into so many shards, some to one node.
pub fn spread(connection: &Connection, shards: i32, report: impl Fn(&Step)) {
    let (mut number, of) = (0, EVERYWHERE.len() + SPREAD_BY.len() + ON_ONE_NODE.len());
    let mut begin = |table| {
        number += 1;
        let text = "SELECT pg_catalog.pg_size_pretty(pg_catalog.pg_table_size($1::pg_catalog.regclass))";
        let size = connection.run_text_now(text, [format!("claims.{table}").into()]).first(|row| row.must(1));
        report(&Step { table, number, of, size: size.unwrap_or_default() });
    };
    // Citus would keep triggers away from reference tables: those of the extension only tell sessions what has changed.
    under(&[(c"citus.enable_unsafe_triggers", c"on")], || {
        connection.run_text(
            "UPDATE claims.cells c SET role_name = r.rolname FROM pg_catalog.pg_roles r WHERE r.oid = c.role::pg_catalog.oid",
            [],
        );
        for table in EVERYWHERE {
            begin(table);
            connection.run_text(
                "SELECT pg_catalog.create_reference_table($1::pg_catalog.regclass)",
                [format!("claims.{table}").into()],
            );
        }
        for (table, column, beside) in SPREAD_BY {
            begin(table);
            let text = "SELECT pg_catalog.create_distributed_table($1::pg_catalog.regclass, $2, colocate_with => $3, shard_count => CASE $3 WHEN 'none' THEN $4 END)";
            connection.run_text(text, [format!("claims.{table}").into(), column.into(), beside.into(), shards.into()]);
        }
        for (table, beside) in ON_ONE_NODE {
            begin(table);
            let text = "SELECT pg_catalog.create_distributed_table($1::pg_catalog.regclass, NULL, colocate_with => $2)";
            connection.run_text(text, [format!("claims.{table}").into(), beside.into()]);
        }
    });
}

/// Runs `body`, which grants, on this node only: what each node is granted is said to each of them.
pub fn here_only<T>(body: impl FnOnce() -> T) -> T {
    under(&[(c"citus.enable_ddl_propagation", c"off")], body)
}

/// Runs a statement of PL/pgSQL on every other node, each in a transaction of its own, which commits at once.
pub fn on_other_nodes(connection: &Connection, statement: &str) -> Result<(), ClaimsError> {
    let text = "SELECT format('%s:%s', r.nodename, r.nodeport), r.result FROM pg_catalog.run_command_on_workers($1) r
                 WHERE NOT r.success ORDER BY 1 LIMIT 1";
    let block = format!(
        "DO $on_node$ BEGIN
             SET LOCAL citus.enable_ddl_propagation = off;
             SET LOCAL lock_timeout = '10s';
             {statement};
         END $on_node$"
    );
    let failed = connection.run_text(text, [block.into()]).first(|row| (row.must(1), row.get(2).unwrap_or_default()));
    failed.map_or(Ok(()), |(node, message)| Err(DistributionError::NodeFailed { node, message }.into()))
}

/// Has this transaction's statements wait for locks on other nodes as long as they may here, and these nodes flush what they commit. Citus
/// sends a setting only from within a subtransaction; with the first statement for a node it costs no round trip of its own.
pub fn bound_waits(connection: &Connection) {
    let wait = settings::lock_wait();
    everywhere(connection, wait, || {
        // A transaction that has written on one other node only is committed there by a plain COMMIT, which is that node's to flush: by its
        // own default it may not. Both phases of a commit on several nodes are flushed in any case.
        connection.run_text(&format!("SET LOCAL synchronous_commit = {}", xact::durable_commit()), []);
    });
}

/// Has them wait as long as the caller's statements may.
pub fn free_waits(connection: &Connection) {
    everywhere(connection, settings::callers_lock_wait(), || ());
}

/// Sets on the other nodes how many milliseconds a wait for a lock may take, and what `more` sets. Here it stays as it is, and what the
/// caller sets afterwards stays here.
fn everywhere(connection: &Connection, wait: i32, more: impl FnOnce()) {
    keeping(&[c"lock_timeout", c"synchronous_commit"], || {
        under(&[(c"citus.propagate_set_commands", c"local")], || {
            more();
            connection.run_text(&format!("SET LOCAL lock_timeout = {wait}"), []);
        });
    });
}
