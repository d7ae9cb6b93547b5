//! Reads foreign servers from the catalog.

use pgrx::pg_sys::Oid;

use pg::query::{query, record};

record! {
    pub struct Server {
        pub oid: Oid,
        pub wrapper: String,
        pub owner: Oid,
        /// Whether the current user may use it.
        pub may_use: bool,
        /// Whether it was named as a service.
        pub is_named: bool,
    }
}

query! {
    pub fn server(name: &str) -> Option<Server> = [Statement]
        "SELECT s.oid, w.fdwname::text AS wrapper, s.srvowner AS owner, has_server_privilege(s.oid, 'USAGE') AS may_use,
                EXISTS (SELECT FROM claims.named_services n WHERE n.server_name = s.srvname) AS is_named
           FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE s.srvname::text = :name";
}
