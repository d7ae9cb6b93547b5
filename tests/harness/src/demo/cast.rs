//! The cells, their roles, and the databases of the demo.

use super::home;
use crate::cell::Cell;
use crate::failure::Failure;
use crate::server::{Server, fresh_role, register_cell};
use anyhow::{Context, Result};
use postgres::Client;

/// The shared database with the claims.
pub const SHARED: &str = "claims_demo";

/// A cell of the demo.
pub struct Member {
    pub id: i64,
    pub name: &'static str,
    pub role: &'static str,
    /// Its own database.
    pub database: &'static str,
}

pub const NORTH: Member = Member { id: 1, name: "north", role: "demo_north", database: "claims_demo_north" };
pub const SOUTH: Member = Member { id: 2, name: "south", role: "demo_south", database: "claims_demo_south" };
/// The role of instances and backends.
pub const WORKER: &str = "demo_worker";
pub const CELLS: [Member; 2] = [NORTH, SOUTH];

impl Member {
    /// Returns the server of the cell's own database.
    pub fn home(&self) -> Result<Server> {
        Server::named(&format!("CLUSTER_{}", self.name)).context("the demo needs a cluster for each cell: scripts/demo")
    }

    /// Connects to the cell's own database as one of its roles.
    pub fn at_home(&self, role: &str) -> Result<Client> {
        Ok(self.home()?.connect(self.database, role)?)
    }

    /// Connects to the service as this cell.
    pub fn connect(&self, server: &Server) -> Result<Cell, Failure> {
        Cell::connect(server, SHARED, self.id, self.role)
    }
}

/// The state that the chapters share.
pub struct World {
    pub server: Server,
    /// A superuser's connection to the shared database, which only reads.
    pub admin: Client,
    /// Names that both cells wanted, for realistic examples.
    pub contested: Vec<String>,
}

impl World {
    /// Creates the shared database with the extension and the two cells.
    pub fn build() -> Result<Self> {
        let server = Server::from_env()?;
        let mut admin = server.fresh_database(SHARED)?;
        admin
            .batch_execute("CREATE EXTENSION claims")
            .context("CREATE EXTENSION claims failed: is the extension installed in this cluster?")?;
        server.employ_worker(SHARED)?;
        for cell in &CELLS {
            fresh_role(&mut admin, cell.role)?;
            register_cell(&mut admin, cell.id, cell.role, cell.name)?;
        }
        Ok(Self { server, admin, contested: Vec::new() })
    }

    /// Returns one number from the shared database.
    pub fn count(&mut self, sql: &str) -> Result<u64> {
        let n: i64 = self.admin.query_one(sql, &[])?.get(0);
        Ok(n.try_into()?)
    }

    /// Returns a name that the cell owns, a contested one if possible.
    pub fn name_of(&mut self, cell: &Member) -> Result<String> {
        let row = self.admin.query_opt(
            "SELECT bucket_value FROM claims.claims WHERE creator_id = $1 AND status = 1 \
             ORDER BY bucket_value = ANY ($2) DESC, length(bucket_value) < 5, length(bucket_value), bucket_value LIMIT 1",
            &[&cell.id, &self.contested],
        )?;
        Ok(row.with_context(|| format!("cell {} won nothing", cell.name))?.get(0))
    }

    /// Drops the objects of the demo in the cluster.
    pub fn tear_down(self) -> Result<()> {
        let Self { server, admin, .. } = self;
        drop(admin);
        for cell in &CELLS {
            cell.home()?.drop_database(cell.database)?;
            cell.home()?.drop_roles(home::ROLES)?;
        }
        server.drop_database(SHARED)?;
        server.drop_roles(CELLS.iter().map(|cell| cell.role).chain([WORKER]))
    }
}
