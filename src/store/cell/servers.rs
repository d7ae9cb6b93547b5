//! Foreign servers, from the catalog.

use pgrx::pg_sys::Oid;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

statement! {
    /// Server $1: its foreign-data wrapper, its owner, and whether the current user may use it.
    SERVER(TEXTOID) =
        "SELECT s.oid, w.fdwname::text, s.srvowner, has_server_privilege(s.oid, 'USAGE')
           FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE s.srvname::text = $1";
}

/// A foreign server.
pub struct Server {
    pub oid: Oid,
    pub wrapper: String,
    pub owner: Oid,
    pub may_use: bool,
}

/// The foreign server of that name.
pub fn server(connection: &Connection, name: &str) -> Option<Server> {
    connection.run(&SERVER, View::Statement, [name.into()]).first(|row| Server {
        oid: row.must(1),
        wrapper: row.must(2),
        owner: row.must(3),
        may_use: row.must(4),
    })
}
