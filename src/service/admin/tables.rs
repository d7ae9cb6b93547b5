//! Cells and privileges of roles: their rows, and what the tables do with them.

use pgrx::pg_sys::Oid;

use crate::kernel::error::ClaimsError;
use crate::kernel::tables::{Door, Local};
use pg::jsonb::Jsonb;
use pg::query::record;
use pg::spi::Connection;

/// The new values of a cell. A `None` leaves the column unchanged.
pub struct CellRegistration {
    pub cell_id: i64,
    pub role: Oid,
    pub name: Option<String>,
    pub address: Option<String>,
    pub attributes: Option<Jsonb>,
}

record! {
    /// The rows that keep a cell from being removed.
    #[derive(Debug, Clone, Copy)]
    pub struct Leftovers {
        pub claims: bool,
        pub leases: bool,
        pub transfers: bool,
    }
}

/// Cells, and privileges of roles.
pub trait RoleTables: Sync {
    /// Registers a cell, or changes it.
    fn register(&self, connection: &Connection, cell: &CellRegistration);

    fn role_of_cell(&self, connection: &Connection, cell_id: i64) -> Option<Oid>;

    fn has_cells(&self, connection: &Connection, role: Oid) -> bool;

    /// Grants the functions of audiences to a role, or revokes them.
    fn change_grants(&self, connection: &Connection, role_name: &str, audiences: &[&str], granting: bool);

    /// Runs a GRANT or REVOKE on relations.
    fn grant(&self, connection: &Connection, grant: &str);

    /// Gives the objects of the extension to their owner on every node if the caller is a superuser. Raises an error if objects
    /// of others are left.
    fn hand_over(&self, _: &Connection) -> Result<(), ClaimsError> {
        Ok(())
    }

    /// Grants every role what its kind has in this version. The caller has locked the grants.
    fn refresh_grants(&self, connection: &Connection);

    /// Raises an error if the extension has another owner on some node: types and grants would change on some nodes only.
    fn require_own_nodes(&self, _: &Connection) -> Result<(), ClaimsError> {
        Ok(())
    }
}

/// Where the cells and the roles are.
pub static ROLE_TABLES: Door<dyn RoleTables> = Door::local(&Local);
