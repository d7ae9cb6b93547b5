//! The event triggers of claimed and captured tables and of named services. They exist only while there is such a table or
//! service. In other databases no command runs them, and none fails because the library is missing.
//!
//! They are not members of the extension: a dump contains them if it contains the triggers of the tables. Their owner is the
//! cluster's first superuser: PostgreSQL requires a superuser, and pg_upgrade recreates them with their owner.

use super::errors::TriggerError;
use crate::kernel::error::{ClaimsError, raise};
use pg::extension::outside_of_scripts;
use pg::owner::as_superuser;
use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// An event trigger that exists.
    struct Present {
        name: String,
        /// Whether it is enabled, and for all commands for which this version creates it.
        fires: bool,
    }
}

query! {
    /// Serializes the transactions that create or drop event triggers, so that none drops one that another needs. The lock lasts
    /// until the end of the transaction.
    pub(super) fn lock() = [Statement] "LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE";
    /// Returns whether any table has capture triggers, or any server is named as a service.
    fn are_needed() -> bool = [Latest]
        "SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
          WHERE n.nspname = 'claims' AND p.proname IN ('capture_row', 'capture_change', 'unique_row')
         UNION ALL SELECT FROM claims.named_services LIMIT 1";
    /// Returns the existing event triggers that call the extension's own functions, which only a superuser can replace.
    fn present() -> Vec<Present> = [Latest]
        "SELECT v.evtname::text AS name,
                v.evtenabled IN ('O', 'A') AND (v.evttags IS NULL OR v.evttags @> '{CREATE FOREIGN TABLE,ALTER SEQUENCE}') AS fires
           FROM pg_event_trigger v JOIN pg_proc p ON p.oid = v.evtfoid
           JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
            AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
           JOIN pg_extension e ON e.oid = d.refobjid
          WHERE e.extname = 'claims' AND p.proowner = 10
            AND v.evtname IN ('claims_complete_triggers', 'claims_forget_dropped_tables')";
}

/// The names of the event triggers, and the statements that create them.
const EVENT_TRIGGERS: [(&str, [&str; 2]); 2] = [
    (
        "claims_complete_triggers",
        [
            "CREATE EVENT TRIGGER claims_complete_triggers ON ddl_command_end
               WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'CREATE SCHEMA', 'ALTER TABLE', 'CREATE FOREIGN TABLE',
                            'ALTER FOREIGN TABLE', 'ALTER SEQUENCE')
               EXECUTE FUNCTION claims.complete_triggers()",
            "COMMENT ON EVENT TRIGGER claims_complete_triggers IS
             'Has new partitions of claimed and captured tables refuse TRUNCATE, and refuses what would leave names without claims.'",
        ],
    ),
    (
        "claims_forget_dropped_tables",
        [
            "CREATE EVENT TRIGGER claims_forget_dropped_tables ON sql_drop EXECUTE FUNCTION claims.forget_dropped_tables()",
            "COMMENT ON EVENT TRIGGER claims_forget_dropped_tables IS 'Ends the capture of tables that are dropped.'",
        ],
    ),
];

fn drop_trigger(connection: &Connection, name: &str) {
    as_superuser(|| connection.run_text(&format!("DROP EVENT TRIGGER {name}"), []));
}

/// Creates the event triggers that are missing, disabled, or of an earlier version. Called after a table got capture triggers or a service
/// was named.
pub fn add(connection: &Connection) {
    lock(connection);
    let (present, outdated): (Vec<_>, Vec<_>) = present(connection).into_iter().partition(|existing| existing.fires);
    outdated.iter().for_each(|existing| drop_trigger(connection, &existing.name));
    for (name, statements) in EVENT_TRIGGERS {
        if !present.iter().any(|existing| existing.name == name) {
            for statement in statements {
                outside_of_scripts(|| as_superuser(|| connection.run_text(statement, [])));
            }
        }
    }
    // Without this check a name in the statements could resolve to another role's function, which would run with the rights of
    // every role.
    if self::present(connection).len() < EVENT_TRIGGERS.len() {
        raise::<()>(Err(ClaimsError::from(TriggerError::ForeignEventTrigger)));
    }
}

/// Drops the event triggers if nothing needs them any more.
pub fn drop_unneeded(connection: &Connection) {
    lock(connection);
    if !are_needed(connection) {
        present(connection).iter().for_each(|existing| drop_trigger(connection, &existing.name));
    }
}
