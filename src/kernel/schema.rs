//! The schema of the extension.

use pgrx::pg_sys::Oid;

use pg::query::query;

query! {
    /// Returns the owner of the extension's objects, that of the schema. After pg_upgrade, pg_extension.extowner is the superuser that ran it.
    pub fn owner() -> Option<Oid> = [Latest Anywhere]
        "SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims'";
}
