//! Where the claims are: in a database that the run makes for itself, or in tables that it spreads over the nodes of a Citus cluster.

use super::options::Options;
use super::{CELLS, ROUTER, role};
use crate::failure::Failure;
use crate::server::{Server, fresh_role, register_cell};
use anyhow::{Context, Result};
use postgres::Client;
use rand::RngExt;
use rand::rngs::StdRng;
use std::time::Duration;

/// How many shards each table gets.
const SHARDS: i32 = 8;

/// What Citus says, without a SQLSTATE of its own, of a call in which another node or its backend went away: nobody knows what became of it.
const NODE_LOST: [&str; 5] = [
    "server closed the connection",
    "failure on connection marked",
    "could not commit transaction",
    "terminating connection",
    "SSL SYSCALL error",
];

pub struct Service {
    /// Administrators work on the first one.
    nodes: Vec<Server>,
    pub database: String,
}

impl Service {
    pub fn find(options: &Options) -> Result<Self> {
        let mut nodes = vec![Server::from_env()?];
        for place in &options.nodes {
            nodes.push(Server::at(place).with_context(|| format!("--node {place}"))?);
        }
        // Only a database that is there is known to Citus.
        let database = if nodes.len() == 1 { "claims_stress".to_string() } else { nodes[0].database().to_string() };
        Ok(Self { nodes, database })
    }

    pub fn is_spread(&self) -> bool {
        self.nodes.len() > 1
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// A superuser's connection to the node that administrators work on.
    pub fn admin(&self) -> Result<Client> {
        self.nodes[0].admin(&self.database)
    }

    /// Somewhere.
    pub fn any(&self, rng: &mut StdRng) -> usize {
        rng.random_range(0..self.nodes.len())
    }

    /// No call may take longer.
    pub fn bound(&self) -> Duration {
        Duration::from_millis(if self.is_spread() { 3000 } else { 1000 })
    }

    /// Some transactions stay open for longer than the bound, so waiting for one shows.
    pub fn slow_transaction(&self) -> Duration {
        self.bound() * 3 / 2
    }

    /// What the failure is, to a client who knows where the tables are.
    pub fn failure(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Refused(r)
                if self.is_spread() && r.code == "XX000" && NODE_LOST.iter().any(|part| r.message.contains(part)) =>
            {
                Failure::Lost(r.message)
            }
            other => other,
        }
    }

    /// Makes the database, the roles and the cells.
    pub fn prepare(&self) -> Result<Client> {
        let mut admin = if self.is_spread() { self.admin()? } else { self.nodes[0].fresh_database(&self.database)? };
        admin.batch_execute("CREATE EXTENSION claims").context("CREATE EXTENSION claims failed")?;
        for cell in 1..=CELLS as i64 {
            fresh_role(&mut admin, &role(cell))?;
            register_cell(&mut admin, cell, &role(cell), &format!("cell {cell}"))?;
        }
        // Looks for deadlocks early: with some clients waiting, one would be noticed. Citus looks by a timeout of its own.
        let database = &self.database;
        for node in &self.nodes {
            node.admin(database)?.batch_execute(&format!(
                "SET citus.enable_ddl_propagation = off; ALTER DATABASE {database} SET deadlock_timeout = '3ms'"
            ))?;
        }
        if self.is_spread() {
            admin.execute("SELECT claims.distribute($1, 'the stress run')", &[&SHARDS])?;
        } else {
            admin.batch_execute(&format!("ALTER DATABASE {database} SET claims.change_feed = on"))?;
            fresh_role(&mut admin, ROUTER)?;
            admin.execute("SELECT claims.grant_read(($1::text)::name)", &[&ROUTER])?;
        }
        Ok(admin)
    }

    /// Takes all of it away again. A Citus cluster is left to who has made it.
    pub fn remove(&self) -> Result<()> {
        if self.is_spread() {
            return Ok(());
        }
        self.nodes[0].drop_database(&self.database)?;
        let roles: Vec<String> = (1..=CELLS as i64).map(role).collect();
        self.nodes[0].drop_roles(roles.iter().map(String::as_str).chain([ROUTER]))
    }
}
