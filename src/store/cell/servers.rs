//! What the catalog says of foreign servers and of dblink.

use pgrx::pg_sys::Oid;

use crate::pg::spi::{Connection, View};
use crate::statement;

statement! {
    /// The foreign-data wrapper of server $1, and whose server it is.
    SERVER(TEXTOID) =
        "SELECT w.fdwname::text, s.srvowner FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
          WHERE s.srvname::text = $1";
    /// Where dblink's functions are, quoted.
    DBLINK() =
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
          WHERE e.extname = 'dblink'";
}

/// A foreign server.
pub struct Server {
    pub wrapper: String,
    pub owner: Oid,
}

/// The foreign server of that name.
pub fn server(connection: &Connection, name: &str) -> Option<Server> {
    connection
        .run(&SERVER, View::Statement, [name.into()])
        .first(|row| Server { wrapper: row.must(1), owner: row.must(2) })
}

/// The schema of the extension dblink, quoted; `None`: it is not installed. Functions are only ever called by that name
/// and with exactly their own argument types, so that nobody's function of the same name gets in between.
pub fn dblink_schema(connection: &Connection) -> Option<String> {
    connection.run(&DBLINK, View::Statement, []).first(|row| row.must(1))
}
