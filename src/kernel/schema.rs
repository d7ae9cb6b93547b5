//! The schema of the extension.

use pgrx::pg_sys::Oid;

use pg::query::query;

query! {
    /// Returns the owner of the extension's objects, that of the schema: pg_upgrade changes the owner of the extension.
    pub fn owner() -> Option<Oid> = [Latest Anywhere]
        "SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims'";
}
