//! Refuses writes that a node sends which has left the cluster, or that go to a shard which another node has by now.
//!
//! `citus_remove_node` leaves the catalogs of the removed node as they were, and sessions there continue to write to the shards
//! that these catalogs name. So the node that writes a lease, a claim or an outcome looks both up in its own catalogs. That
//! takes no message: Citus says in the name of each connection which node has opened it.

use std::cell::RefCell;
use std::collections::HashSet;

use pgrx::pg_sys::Oid;

use crate::citus::catalog;
use crate::citus::errors::DistributionError;
use crate::kernel::arguments::required;
use crate::kernel::error::ClaimsError;
use pg::prelude::*;
use pg::query::{query, record};
use pg::spi::{self, Connection};
use pg::transaction_end::Hooks;
use pg::{compatibility, session};

record! {
    struct Membership { is_member: bool, has_shard: bool }
}

query! {
    /// Returns the number in the name of a shard.
    fn shard_of_table(table: Oid) -> Option<Option<i64>> = [Statement Node]
        "SELECT substring(c.relname FROM '_([0-9]+)$')::int8 FROM pg_class c WHERE c.oid = :table";
    /// Returns whether a node belongs to the cluster, and whether this node has a shard.
    fn membership(node: Option<i64>, shard: i64) -> Option<Membership> = [Statement Node]
        "SELECT :node IS NULL OR EXISTS (SELECT FROM pg_dist_node n WHERE n.nodeid = :node) AS is_member,
                EXISTS (SELECT FROM pg_dist_placement p JOIN pg_dist_local_group g ON g.groupid = p.groupid WHERE p.shardid = :shard) AS has_shard";
}

thread_local! {
    /// The shards that this transaction has checked.
    static CHECKED: RefCell<HashSet<i64>> = RefCell::default();
}

pub const HOOKS: Hooks = Hooks { end: || CHECKED.with_borrow_mut(HashSet::clear), ..Hooks::NONE };

/// Returns the number of the node that has opened this connection, or `None` if it is a client's or comes from a coordinator
/// that is not in its own metadata.
fn asking_node() -> Option<i64> {
    /// Citus names a connection by this number times the node, plus the process there.
    const PROCESSES: i64 = 10_000_000_000;
    const NOT_IN_METADATA: i64 = 99_999_999;
    let name = session::application_name();
    let number: i64 = name.strip_prefix("citus_internal gpid=")?.parse().ok()?;
    Some(number / PROCESSES).filter(|node| ![0, NOT_IN_METADATA].contains(node))
}

/// Raises an error unless the node that has opened this connection belongs to the cluster, and this node has the shard.
pub fn require_current(connection: &Connection, shard: i64) -> Result<(), ClaimsError> {
    if !catalog::is_installed() || CHECKED.with_borrow(|checked| checked.contains(&shard)) {
        return Ok(());
    }
    let asking = asking_node();
    match membership(connection, asking, shard) {
        Some(Membership { is_member: false, .. }) => {
            Err(DistributionError::NotAMember { node: asking.unwrap_or_default() }.into())
        }
        Some(Membership { has_shard: true, .. }) => {
            CHECKED.with_borrow_mut(|checked| checked.insert(shard));
            Ok(())
        }
        _ => Err(DistributionError::ShardElsewhere { shard }.into()),
    }
}

/// Returns `true`, or raises an error as [require_current] does for the shard whose row a statement has written. The argument is
/// the row's tableoid. Declared IMMUTABLE for the reason that [`super::write`] gives.
#[pg_extern(schema = "claims", immutable)]
#[search_path(pg_catalog, pg_temp)]
fn is_current_shard(shard_table: Option<Oid>) -> Result<bool, ErrorReport> {
    compatibility::require();
    let table = required(shard_table, "shard_table")?;
    spi::connect(|connection| {
        let shard = shard_of_table(connection, table).flatten();
        // The table itself where it is not distributed.
        shard.map_or(Ok(()), |shard| require_current(connection, shard))
    })?;
    Ok(true)
}
