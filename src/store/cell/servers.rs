//! Reads foreign servers from the catalog.

use pgrx::pg_sys::Oid;

use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Reads the foreign-data wrapper and the owner of server $1, whether the current user may use it, and whether it was named as a
    /// service.
    SERVER(TEXTOID) =
        "SELECT s.oid, w.fdwname::text, s.srvowner, has_server_privilege(s.oid, 'USAGE'),
                EXISTS (SELECT FROM claims.named_services n WHERE n.server_name = s.srvname)
           FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE s.srvname::text = $1";
}

pub struct Server {
    pub oid: Oid,
    pub wrapper: String,
    pub owner: Oid,
    pub may_use: bool,
    pub is_named: bool,
}

pub fn server(connection: &Connection, name: &str) -> Option<Server> {
    connection.run(&SERVER, View::Statement, [name.into()]).first(|row| Server {
        oid: row.must(1),
        wrapper: row.must(2),
        owner: row.must(3),
        may_use: row.must(4),
        is_named: row.must(5),
    })
}
