//! Finds tables that the current command has made, and that an event trigger refuses.

use pg::query::{query, record};
use pg::settings::with_search_path;
use pg::spi::Connection;

record! {
    /// A new inheritance child of a claimed table, and that table.
    pub struct ChildOfClaimed {
        pub child: String,
        pub parent: String,
    }
}

query! {
    /// Returns a table that the current command has created, or has altered, and the claimed table from which it inherits. Partitions of a
    /// claimed table are captured with it.
    fn find_child(has_inherited: bool) -> Option<ChildOfClaimed> = [Latest]
        "SELECT c.oid::regclass::text AS child, i.inhparent::regclass::text AS parent
           FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid JOIN pg_inherits i ON i.inhrelid = c.oid
           JOIN pg_trigger t ON t.tgrelid = i.inhparent JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
          WHERE d.classid = 'pg_class'::regclass AND NOT c.relispartition AND n.nspname = 'claims' AND p.proname IN ('capture_row', 'unique_row')
            AND (d.command_tag LIKE 'CREATE%' OR :has_inherited)
          LIMIT 1";
    /// Returns a table of the extension that the current command has made unlogged.
    fn find_unlogged() -> Option<String> = [Latest]
        "SELECT c.relname::text
           FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE d.classid = 'pg_class'::regclass AND n.nspname = 'claims' AND c.relpersistence = 'u' AND c.relname <> 'automatic_queue'
          LIMIT 1";
}

/// Returns a new inheritance child of a claimed table. `has_inherited` says that the command has altered a table so that it inherits.
pub fn child_of_claimed(connection: &Connection, has_inherited: bool) -> Option<ChildOfClaimed> {
    pinned(|| find_child(connection, has_inherited))
}

/// Returns a table of the extension that became unlogged.
pub fn unlogged(connection: &Connection) -> Option<String> {
    pinned(|| find_unlogged(connection))
}

/// Runs `body` with a search_path under which unqualified names are PostgreSQL's own.
fn pinned<T>(body: impl FnOnce() -> T) -> T {
    with_search_path(c"pg_catalog, pg_temp", body)
}
