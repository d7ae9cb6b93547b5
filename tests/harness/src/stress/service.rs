//! The location of the claims: a database that the run creates, or tables that it distributes over the nodes of a Citus
//! cluster.

use super::options::Options;
use super::{CELLS, MAX_PRIORITY, ROUTER, role};
use crate::failure::Failure;
use crate::server::{Server, fresh_role, register_cell};
use anyhow::{Context, Result};
use postgres::Client;
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::OnceLock;
use std::time::Duration;

/// The number of shards of each table.
const SHARDS: i32 = 8;

/// The messages of Citus, without a SQLSTATE of its own, if another node or its backend was lost during a call. It is
/// unknown whether the call took effect.
const NODE_LOST: [&str; 5] = [
    "server closed the connection",
    "failure on connection marked",
    "could not commit transaction",
    "terminating connection",
    "SSL SYSCALL error",
];

pub struct Service {
    /// The nodes; administrators use the first one.
    nodes: Vec<Server>,
    pub database: String,
    is_preloaded: OnceLock<bool>,
}

impl Service {
    pub fn find(options: &Options) -> Result<Self> {
        let mut nodes = vec![Server::from_env()?];
        for place in &options.nodes {
            nodes.push(Server::at(place).with_context(|| format!("--node {place}"))?);
        }
        // Citus knows only databases that already exist.
        let database = if nodes.len() == 1 { "claims_stress".to_string() } else { nodes[0].database().to_string() };
        Ok(Self { nodes, database, is_preloaded: OnceLock::new() })
    }

    pub fn is_distributed(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Returns whether the library is preloaded, so that waiters have an order.
    pub fn is_preloaded(&self) -> bool {
        self.is_preloaded.get().copied().unwrap_or_default()
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Connects a superuser to the node that administrators use.
    pub fn admin(&self) -> Result<Client> {
        self.nodes[0].admin(&self.database)
    }

    /// Returns the number of a random node.
    pub fn any(&self, rng: &mut StdRng) -> usize {
        rng.random_range(0..self.nodes.len())
    }

    /// Returns the limit for the duration of a call, also on a busy machine.
    pub fn bound(&self) -> Duration {
        Duration::from_millis(if self.is_distributed() { 8000 } else { 4000 })
    }

    /// Returns how long some transactions stay open. It exceeds the bound, so a call that waits for them is noticed.
    pub fn slow_transaction(&self) -> Duration {
        self.bound() * 3 / 2
    }

    /// Converts a failure by what a client of distributed tables knows.
    pub fn failure(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Refused(r)
                if self.is_distributed()
                    && r.code == "XX000"
                    && NODE_LOST.iter().any(|part| r.message.contains(part)) =>
            {
                Failure::Lost(r.message)
            }
            other => other,
        }
    }

    /// Creates the database, the roles and the cells.
    pub fn prepare(&self) -> Result<Client> {
        let mut admin =
            if self.is_distributed() { self.admin()? } else { self.nodes[0].fresh_database(&self.database)? };
        admin.batch_execute("CREATE EXTENSION claims").context("CREATE EXTENSION claims failed")?;
        for cell in 1..=CELLS as i64 {
            fresh_role(&mut admin, &role(cell))?;
            register_cell(&mut admin, cell, &role(cell), &format!("cell {cell}"))?;
        }
        // A short deadlock_timeout, so that a deadlock would be noticed although clients wait. Citus detects deadlocks
        // with a timeout of its own.
        let database = &self.database;
        for node in &self.nodes {
            node.admin(database)?.batch_execute(&format!(
                "SET citus.enable_ddl_propagation = off; ALTER DATABASE {database} SET deadlock_timeout = '3ms'"
            ))?;
        }
        if self.is_distributed() {
            admin.execute("SELECT claims.distribute($1, 'the stress run')", &[&SHARDS])?;
        } else {
            admin.batch_execute(&format!("ALTER DATABASE {database} SET claims.change_feed = on"))?;
            let preloaded = "SELECT current_setting('shared_preload_libraries') LIKE '%claims%'";
            let is_preloaded = admin.query_one(preloaded, &[])?.get(0);
            self.is_preloaded.get_or_init(|| is_preloaded);
            for cell in 1..=CELLS as i64 {
                let limit = "SELECT claims.set_cell_limits($1, 'the stress run', max_priority => $2)";
                admin.execute(limit, &[&cell, &MAX_PRIORITY])?;
            }
            fresh_role(&mut admin, ROUTER)?;
            admin.execute("SELECT claims.grant_read(($1::text)::name)", &[&ROUTER])?;
        }
        Ok(admin)
    }

    /// Removes the database and the roles. A Citus cluster is left to its creator.
    pub fn remove(&self) -> Result<()> {
        if self.is_distributed() {
            return Ok(());
        }
        self.nodes[0].drop_database(&self.database)?;
        let roles: Vec<String> = (1..=CELLS as i64).map(role).collect();
        self.nodes[0].drop_roles(roles.iter().map(String::as_str).chain([ROUTER]))
    }
}
