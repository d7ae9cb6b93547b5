//! What the catalog says of foreign servers and of dblink.

use crate::pg::spi::{Connection, View};
use crate::statement;

statement! {
    /// The foreign-data wrapper of server $1.
    WRAPPER(TEXTOID) =
        "SELECT w.fdwname::text FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
          WHERE s.srvname::text = $1";
    /// Where dblink's functions are, quoted.
    DBLINK() =
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
          WHERE e.extname = 'dblink'";
}

/// The name of a foreign server's wrapper; `None`: there is no such server.
pub fn wrapper_of(connection: &Connection, server: &str) -> Option<String> {
    connection.run(&WRAPPER, View::Statement, [server.into()]).first(|row| row.must(1))
}

/// The schema of the extension dblink, quoted; `None`: it is not installed. Functions are only ever called by that name
/// and with exactly their own argument types, so that nobody's function of the same name gets in between.
pub fn dblink_schema(connection: &Connection) -> Option<String> {
    connection.run(&DBLINK, View::Statement, []).first(|row| row.must(1))
}
