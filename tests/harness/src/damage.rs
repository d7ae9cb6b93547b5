//! Damage to tables and indexes, as PostgreSQL's extension amcheck finds it: rows without index entries, and entries and pages that
//! break the rules of their kind.

use anyhow::Result;
use postgres::Client;

/// The tables of schema `claims` in this database that have rows of their own.
const TABLES: &str = "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam
    WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' AND a.amname = 'heap' ORDER BY 1";

const INDEXES: &str = "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam
    WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'i' AND a.amname = 'btree' ORDER BY 1";

/// Returns the damage to the tables and indexes of the extension. Reads all of them.
pub fn find(admin: &mut Client) -> Result<Vec<String>> {
    // Citus has created it on the other nodes, where it refuses the statement.
    if admin.query("SELECT FROM pg_extension WHERE extname = 'amcheck'", &[])?.is_empty() {
        admin.batch_execute("CREATE EXTENSION amcheck")?;
    }
    let mut found = Vec::new();
    for table in names(admin, TABLES)? {
        for row in admin.query("SELECT v::text FROM verify_heapam($1::text::regclass) AS v", &[&table])? {
            found.push(format!("verify_heapam of {table}: {}", row.get::<_, String>(0)));
        }
    }
    for index in names(admin, INDEXES)? {
        // It raises an error for what it finds.
        if let Err(error) = admin.execute("SELECT bt_index_check($1::text::regclass, true)", &[&index]) {
            found.push(format!("bt_index_check of {index}: {error:#}"));
        }
    }
    Ok(found)
}

fn names(admin: &mut Client, query: &str) -> Result<Vec<String>> {
    Ok(admin.query(query, &[])?.iter().map(|row| row.get(0)).collect())
}
