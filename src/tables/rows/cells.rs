//! Rows of cells.

use pgrx::pg_sys::Oid;

use pg::jsonb::Jsonb;
use pg::query::record;

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
