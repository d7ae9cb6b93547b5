//! The triggers of claimed tables, and of tables whose changes become requests.
//!
//! The cluster's first superuser creates them, because neither the caller nor the extension's owner need have the right. So
//! every word that runs as superuser is in this file, except names that the catalogs spell. Everything else is read as the
//! extension's owner.

use pgrx::pg_sys::Oid;

use super::{event_triggers, services};
use crate::store::cell::errors::TriggerError;
use pg::lock::{self, Strength};
use pg::owner::{as_superuser, restricted_as};
use pg::settings::with_search_path;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Returns table $1 and its partitions, as far as they can have triggers, $1 first: whether each has triggers named $2 and $3, and
    /// whether each of these fires; and whether the first one is for each row and each change, with function $4.
    MEMBERS(OIDOID, TEXTOID, TEXTOID, TEXTOID) =
        "SELECT c.oid, r.oid IS NOT NULL, s.oid IS NOT NULL, coalesce(r.tgenabled IN ('O', 'A'), true), coalesce(s.tgenabled IN ('O', 'A'), true),
                coalesce(r.tgtype = 29 AND r.tgqual IS NULL AND r.tgattr = '' AND r.tgfoid = $4::regproc, false)
           FROM pg_class c
           LEFT JOIN pg_trigger r ON r.tgrelid = c.oid AND r.tgname = $2::name
           LEFT JOIN pg_trigger s ON s.tgrelid = c.oid AND s.tgname = $3::name
          WHERE c.relkind IN ('r', 'p') AND (c.oid = $1 OR c.oid IN (SELECT p.relid FROM pg_partition_tree($1) p))
          ORDER BY c.oid <> $1, c.oid";
    /// Returns the partitioned table from which partition $1 has inherited its trigger named $2.
    INHERITED_FROM(OIDOID, TEXTOID) =
        "SELECT own.tgrelid::regclass::text
           FROM pg_trigger inherited, pg_partition_ancestors($1) a JOIN pg_trigger own ON own.tgrelid = a.relid
          WHERE inherited.tgrelid = $1 AND inherited.tgname = $2::name AND inherited.tgparentid <> 0
            AND own.tgname = $2::name AND own.tgparentid = 0";
    /// Returns a partition of table $1 with a trigger named $2 that it has not inherited.
    HAS_ITS_OWN(OIDOID, TEXTOID) =
        "SELECT t.tgrelid::regclass::text FROM pg_trigger t
          WHERE t.tgrelid IN (SELECT p.relid FROM pg_partition_tree($1) p) AND t.tgrelid <> $1
            AND t.tgname = $2::name AND t.tgparentid = 0
          ORDER BY t.tgrelid LIMIT 1";
    TABLE_NAME(OIDOID) =
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
    /// Returns the names of the triggers of queue $1 and column $2, and the arguments of the row trigger.
    OF_QUEUE(TEXTOID, TEXTOID) =
        "SELECT 'claims_capture_' || md5($1), 'claims_truncate_' || md5($1), quote_literal($1) || ', ' || quote_literal($2)";
    /// Returns the owner of table $1 if that role may not execute function $2.
    LACKS_FUNCTION(OIDOID, TEXTOID) =
        "SELECT quote_ident(pg_get_userbyid(c.relowner)) FROM pg_class c
          WHERE c.oid = $1 AND NOT has_function_privilege(c.relowner, $2, 'EXECUTE')";
    /// Returns the owner of the schema. After pg_upgrade, pg_extension.extowner is the superuser that ran it, but the objects of the
    /// extension have kept their owner.
    EXTENSION_OWNER() = "SELECT nspowner FROM pg_namespace WHERE nspname = 'claims'";
    /// Returns the claimed tables, and the captured tables with queue and column, among $1 and the ancestors of $1.
    ROOTS_OF(OIDARRAYOID) =
        "WITH relation (oid) AS (SELECT x FROM unnest($1) x
                            UNION SELECT p.relid FROM unnest($1) x, pg_partition_ancestors(x) p)
         SELECT DISTINCT a.table_name::oid, NULL::text, NULL::text
           FROM claims.claimed_attributes a JOIN relation ON relation.oid = a.table_name
         UNION ALL
         SELECT t.table_name::oid, t.queue, t.entity_column::text
           FROM claims.captured_tables t JOIN relation ON relation.oid = t.table_name";
    /// Returns the partitions and partitioned tables that the current command has created; with $1 also those it has altered.
    CHANGED_TABLES(BOOLOID) =
        "SELECT DISTINCT d.objid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
          WHERE d.classid = 'pg_class'::regclass AND (c.relispartition OR c.relkind = 'p')
            AND (d.command_tag LIKE 'CREATE TABLE%' OR $1)";
    DROPPED_TABLES() =
        "SELECT DISTINCT d.objid FROM pg_event_trigger_dropped_objects() d
          WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND d.object_type = 'table' AND NOT d.is_temporary";
    DROPPED_SERVERS() =
        "SELECT d.object_name FROM pg_event_trigger_dropped_objects() d
          WHERE d.classid = 'pg_foreign_server'::regclass AND d.objsubid = 0";
    /// Returns a row if one of the tables $1 is claimed or captured.
    ARE_KNOWN(OIDARRAYOID) =
        "SELECT 1 FROM claims.claimed_attributes WHERE table_name = ANY ($1)
         UNION ALL SELECT 1 FROM claims.captured_tables WHERE table_name = ANY ($1) LIMIT 1";
    FORGET_CLAIMED(OIDARRAYOID) = "DELETE FROM claims.claimed_attributes WHERE table_name = ANY ($1)";
    FORGET_OBSERVED(OIDARRAYOID) = "DELETE FROM claims.observed WHERE table_name = ANY ($1)";
    FORGET_CAPTURED(OIDARRAYOID) = "DELETE FROM claims.captured_tables WHERE table_name = ANY ($1)";
}

/// The triggers for one purpose: one for rows, and one that refuses TRUNCATE. All names are quoted.
struct Triggers {
    rows: String,
    truncate: String,
    /// The function of the row trigger.
    function: &'static str,
    arguments: String,
    /// The function of the trigger against TRUNCATE.
    refuses: &'static str,
}

/// The purpose of a table's triggers.
pub enum Purpose {
    /// Columns of the table are claimed.
    Claims,
    /// Changes of the table become requests.
    Requests { queue: String, column: String },
}

fn triggers(connection: &Connection, purpose: &Purpose) -> Triggers {
    match purpose {
        Purpose::Claims => Triggers {
            rows: "claims_capture".to_owned(),
            truncate: "claims_truncate".to_owned(),
            function: "claims.capture_row",
            arguments: String::new(),
            refuses: "claims.refuse_truncate",
        },
        Purpose::Requests { queue, column } => {
            let values = [queue.as_str().into(), column.as_str().into()];
            let names = connection.run(&OF_QUEUE, View::Latest, values);
            let (rows, truncate, arguments) =
                names.first(|row| (row.must(1), row.must(2), row.must(3))).unwrap_or_default();
            let refuses = "claims.refuse_unrecorded_truncate";
            Triggers { rows, truncate, function: "claims.capture_change", arguments, refuses }
        }
    }
}

/// A table that can have triggers: the table itself, or one of its partitions.
struct Member {
    table: Oid,
    has_rows: bool,
    has_truncate: bool,
    /// Whether the triggers that it has fire. Somebody may have disabled them.
    rows_fires: bool,
    truncate_fires: bool,
    /// Whether the row trigger is as [`add`] creates it.
    has_rows_as_created: bool,
}

fn members(connection: &Connection, table: Oid, triggers: &Triggers) -> Vec<Member> {
    let values = [&triggers.rows, &triggers.truncate, triggers.function].map(|text: &str| text.into());
    let members = connection.run(&MEMBERS, View::Latest, [table.into()].into_iter().chain(values));
    members.map(|row| Member {
        table: row.must(1),
        has_rows: row.must(2),
        has_truncate: row.must(3),
        rows_fires: row.must(4),
        truncate_fires: row.must(5),
        has_rows_as_created: row.must(6),
    })
}

fn name(connection: &Connection, table: Oid) -> String {
    connection.run(&TABLE_NAME, View::Latest, [table.into()]).first(|row| row.must(1)).unwrap_or_default()
}

/// Runs `body` with a search_path under which unqualified names are PostgreSQL's own.
fn pinned<T>(body: impl FnOnce() -> T) -> T {
    with_search_path(c"pg_catalog, pg_temp", body)
}

/// Creates the triggers that a table and its partitions lack, and enables those that are disabled. Refuses to capture a row twice: a partition that has inherited the
/// trigger, or a table with a partition that has its own.
pub fn add(connection: &Connection, table: Oid, purpose: &Purpose) -> Result<(), TriggerError> {
    pinned(|| {
        // No transaction may write while triggers are created or the captured columns change.
        lock::table(table, Strength::AgainstWriters);
        let triggers = triggers(connection, purpose);
        members(connection, table, &triggers)
            .iter()
            .for_each(|member| lock::table(member.table, Strength::AgainstWriters));
        let Triggers { rows, function, arguments, .. } = &triggers;
        if let Some(root) = inherited_from(connection, table, rows) {
            return Err(TriggerError::CapturedAsPartition { table: name(connection, table), root });
        }
        let its_own = connection.run(&HAS_ITS_OWN, View::Latest, [table.into(), rows.as_str().into()]);
        if let Some(partition) = its_own.first(|row| row.must(1)) {
            let is_claimed = matches!(purpose, Purpose::Claims);
            return Err(TriggerError::PartitionCaptured { table: name(connection, table), partition, is_claimed });
        }
        for member in members(connection, table, &triggers) {
            // PostgreSQL creates row triggers on the partitions itself, also on later ones.
            if member.table == table && !(member.has_rows_as_created && matches!(purpose, Purpose::Claims)) {
                let table = name(connection, table);
                let text = format!(
                    "CREATE OR REPLACE TRIGGER {rows} AFTER INSERT OR UPDATE OR DELETE ON {table}
                     FOR EACH ROW EXECUTE FUNCTION {function}({arguments})"
                );
                as_superuser(|| connection.run_text(&text, []));
            }
            refuse_truncate(connection, &member, &triggers);
            for (fires, trigger) in [(member.rows_fires, rows), (member.truncate_fires, &triggers.truncate)] {
                if !fires {
                    let text = format!("ALTER TABLE ONLY {} ENABLE TRIGGER {trigger}", name(connection, member.table));
                    as_superuser(|| connection.run_text(&text, []));
                }
            }
        }
        // add() holds a lock until the end of the transaction. It also serializes the GRANT below: concurrent GRANTs on one
        // function fail with "tuple concurrently updated".
        event_triggers::add(connection);
        let owner = connection.run(&LACKS_FUNCTION, View::Latest, [table.into(), format!("{function}()").into()]);
        // Whoever creates a partition needs EXECUTE on the functions of the triggers that PostgreSQL clones to it.
        if let Some(owner) = owner.first(|row| row.must::<String>(1)) {
            connection.run_text(&format!("GRANT EXECUTE ON FUNCTION {function}() TO {owner}"), []);
        }
        Ok(())
    })
}

/// Returns the table from which a partition has inherited a trigger.
fn inherited_from(connection: &Connection, table: Oid, trigger: &str) -> Option<String> {
    connection.run(&INHERITED_FROM, View::Latest, [table.into(), trigger.into()]).first(|row| row.must(1))
}

/// Creates the trigger that refuses TRUNCATE. PostgreSQL does not clone statement triggers to partitions.
fn refuse_truncate(connection: &Connection, member: &Member, triggers: &Triggers) {
    if member.has_truncate {
        return;
    }
    // The lock keeps the table's name from changing before the CREATE TRIGGER.
    lock::table(member.table, Strength::AgainstWriters);
    let table = name(connection, member.table);
    let Triggers { truncate, refuses, .. } = triggers;
    let text =
        format!("CREATE TRIGGER {truncate} BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {refuses}()");
    as_superuser(|| connection.run_text(&text, []));
}

/// Drops the triggers of a table and its partitions. Refuses for a partition that has inherited them.
pub fn drop(connection: &Connection, table: Oid, purpose: &Purpose) -> Result<(), TriggerError> {
    pinned(|| {
        lock::table(table, Strength::AgainstAll);
        let triggers = triggers(connection, purpose);
        if let Some(root) = inherited_from(connection, table, &triggers.rows) {
            return Err(TriggerError::CapturedWithItsTable { table: name(connection, table), root });
        }
        let drop = |trigger: &str, table| {
            lock::table(table, Strength::AgainstAll);
            let text = format!("DROP TRIGGER {trigger} ON {}", name(connection, table));
            as_superuser(|| connection.run_text(&text, []));
        };
        for member in members(connection, table, &triggers) {
            if member.has_truncate {
                drop(&triggers.truncate, member.table);
            }
            if member.has_rows && member.table == table {
                drop(&triggers.rows, table);
            }
        }
        event_triggers::drop_unneeded(connection);
        Ok(())
    })
}

/// Runs `body` as the extension's owner, who may have replaced the extension's tables: they must not be touched with more rights
/// than this role's.
fn as_extension_owner<T>(connection: &Connection, body: impl FnOnce() -> T) -> Option<T> {
    let owner = connection.run(&EXTENSION_OWNER, View::Latest, []).first(|row| row.must(1));
    owner.map(|owner| restricted_as(owner, body))
}

/// Creates the triggers that refuse TRUNCATE on new partitions, at the end of a command that created or attached tables. Skips
/// a table that lacks its own triggers: it is being restored from a dump, which contains the triggers of the partitions.
pub fn complete(connection: &Connection, has_attached: bool) {
    pinned(|| {
        let changed = connection.run(&CHANGED_TABLES, View::Latest, [has_attached.into()]);
        let changed: Vec<Oid> = changed.map(|row| row.must(1));
        if changed.is_empty() {
            return;
        }
        as_extension_owner(connection, || {
            let roots = connection.run(&ROOTS_OF, View::Latest, [changed.into()]);
            let roots: Vec<(Oid, _, _)> = roots.map(|row| (row.must(1), row.get(2), row.get(3)));
            for (root, queue, column) in roots {
                let purpose = match (queue, column) {
                    (Some(queue), Some(column)) => Purpose::Requests { queue, column },
                    _ => Purpose::Claims,
                };
                let triggers = triggers(connection, &purpose);
                let members = members(connection, root, &triggers);
                if members.first().is_some_and(|root| root.has_rows && root.has_truncate) {
                    members.iter().for_each(|member| refuse_truncate(connection, member, &triggers));
                }
            }
        });
    });
}

/// Deletes the entries of dropped tables and servers, at the end of a command that dropped objects.
pub fn forget(connection: &Connection) {
    pinned(|| {
        let dropped = connection.run(&DROPPED_TABLES, View::Latest, []);
        let dropped: Vec<Oid> = dropped.map(|row| row.must(1));
        let servers: Vec<String> = connection.run(&DROPPED_SERVERS, View::Latest, []).map(|row| row.must(1));
        if dropped.is_empty() && servers.is_empty() {
            return;
        }
        as_extension_owner(connection, || {
            if !servers.is_empty() && services::forget(connection, &servers) {
                event_triggers::drop_unneeded(connection);
            }
            // Every DELETE sends an invalidation to all sessions, even if it deletes nothing.
            if connection.run(&ARE_KNOWN, View::Latest, [dropped.clone().into()]).count() > 0 {
                connection.run(&FORGET_CLAIMED, View::Statement, [dropped.clone().into()]);
                connection.run(&FORGET_OBSERVED, View::Statement, [dropped.clone().into()]);
                connection.run(&FORGET_CAPTURED, View::Statement, [dropped.into()]);
                event_triggers::drop_unneeded(connection);
            }
        });
    });
}
