//! The triggers of claimed tables, and of tables whose changes become requests.
//!
//! The cluster's first superuser creates them, because neither the caller nor the extension's owner need have the right. So
//! every word that runs as superuser is in this file, except names that the catalogs spell. Everything else is read as the
//! extension's owner.

pub mod errors;
mod event_triggers;
pub mod named_services;

use pgrx::pg_sys::Oid;

use self::errors::TriggerError;
use pg::lock::{self, Strength};
use pg::owner::{as_superuser, restricted_as};
use pg::query::{query, record};
use pg::settings::with_search_path;
use pg::spi::Connection;

record! {
    /// A table that can have triggers: the table itself, or one of its partitions.
    struct Member {
        oid: Oid,
        has_rows: bool,
        has_truncate: bool,
        /// Whether the triggers that it has fire. Somebody may have disabled them.
        rows_fires: bool,
        truncate_fires: bool,
        /// Whether the row trigger is as [`add`] creates it.
        has_rows_as_created: bool,
    }

    /// The names of the triggers of a queue and a column, and the arguments of the row trigger.
    #[derive(Default)]
    struct QueueTriggers {
        rows: String,
        truncate: String,
        arguments: String,
    }

    /// A claimed table, or a captured table with its queue and column.
    struct Root {
        table_name: Oid,
        queue: Option<String>,
        entity_column: Option<String>,
    }
}

impl Root {
    fn purpose(&self) -> Purpose {
        match (self.queue.clone(), self.entity_column.clone()) {
            (Some(queue), Some(column)) => Purpose::Requests { queue, column },
            _ => Purpose::Claims,
        }
    }
}

query! {
    /// Returns `table`, and `top`, which is `table` or one of its partitions, with the partitions of `top`, as far as they can have triggers, `table` first:
    /// whether each has the triggers named `rows` and `truncate`, and whether each of these fires; and whether the first one is for each row and each
    /// change, with `function`. Unlike pg_partition_tree() it locks no partition.
    fn members_with(table: Oid, top: Oid, rows: &str, truncate: &str, function: &str) -> Vec<Member> = [Latest]
        "WITH RECURSIVE tree (oid) AS (
             SELECT :top::oid
             UNION SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid JOIN pg_class p ON p.oid = i.inhrelid
                    WHERE p.relispartition AND NOT i.inhdetachpending)
         SELECT c.oid, r.oid IS NOT NULL AS has_rows, s.oid IS NOT NULL AS has_truncate,
                coalesce(r.tgenabled IN ('O', 'A'), true) AS rows_fires, coalesce(s.tgenabled IN ('O', 'A'), true) AS truncate_fires,
                coalesce(r.tgtype = 29 AND r.tgqual IS NULL AND r.tgattr = '' AND r.tgfoid = :function::regproc, false) AS has_rows_as_created
           FROM pg_class c
           LEFT JOIN pg_trigger r ON r.tgrelid = c.oid AND r.tgname = :rows::name
           LEFT JOIN pg_trigger s ON s.tgrelid = c.oid AND s.tgname = :truncate::name
          WHERE c.relkind IN ('r', 'p') AND c.oid IN (SELECT tree.oid FROM tree UNION SELECT :table)
          ORDER BY c.oid <> :table, c.oid";
    /// Returns the partitioned table from which a partition has inherited a trigger.
    fn inherited_from(partition: Oid, trigger: &str) -> Option<String> = [Latest]
        "SELECT own.tgrelid::regclass::text
           FROM pg_trigger inherited, pg_partition_ancestors(:partition) a JOIN pg_trigger own ON own.tgrelid = a.relid
          WHERE inherited.tgrelid = :partition AND inherited.tgname = :trigger::name AND inherited.tgparentid <> 0
            AND own.tgname = :trigger::name AND own.tgparentid = 0";
    /// Returns a partition of a table with a trigger of this name that it has not inherited.
    fn partition_with_its_own(table: Oid, trigger: &str) -> Option<String> = [Latest]
        "SELECT t.tgrelid::regclass::text FROM pg_trigger t
          WHERE t.tgrelid IN (SELECT p.relid FROM pg_partition_tree(:table) p) AND t.tgrelid <> :table
            AND t.tgname = :trigger::name AND t.tgparentid = 0
          ORDER BY t.tgrelid LIMIT 1";
    fn quoted_name(table: Oid) -> Option<String> = [Latest]
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = :table";
    fn of_queue(queue: &str, entity_column: &str) -> Option<QueueTriggers> = [Latest]
        "SELECT 'claims_capture_' || md5(:queue) AS rows, 'claims_truncate_' || md5(:queue) AS truncate,
                quote_literal(:queue) || ', ' || quote_literal(:entity_column) AS arguments";
    /// Returns the owner of a table if that role may not execute a function.
    fn owner_without(table: Oid, function: &str) -> Option<String> = [Latest]
        "SELECT quote_ident(pg_get_userbyid(c.relowner)) FROM pg_class c
          WHERE c.oid = :table AND NOT has_function_privilege(c.relowner, :function, 'EXECUTE')";
    /// Returns the owner of the schema. After pg_upgrade, pg_extension.extowner is the superuser that ran it, but the objects of the
    /// extension have kept their owner.
    fn extension_owner() -> Option<Oid> = [Latest] "SELECT nspowner FROM pg_namespace WHERE nspname = 'claims'";
    /// Returns the claimed tables, and the captured tables, among some tables and their ancestors.
    fn roots_of(tables: &[Oid]) -> Vec<Root> = [Latest]
        "WITH relation (oid) AS (SELECT x FROM unnest(:tables) x
                            UNION SELECT p.relid FROM unnest(:tables) x, pg_partition_ancestors(x) p)
         SELECT DISTINCT a.table_name::oid, NULL::text AS queue, NULL::text AS entity_column
           FROM claims.claimed_attributes a JOIN relation ON relation.oid = a.table_name
         UNION ALL
         SELECT t.table_name::oid, t.queue, t.entity_column::text
           FROM claims.captured_tables t JOIN relation ON relation.oid = t.table_name";
    /// Returns the partitions and partitioned tables that the current command has created; with `has_attached` also those it has altered.
    fn changed_tables(has_attached: bool) -> Vec<Oid> = [Latest]
        "SELECT DISTINCT d.objid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
          WHERE d.classid = 'pg_class'::regclass AND (c.relispartition OR c.relkind = 'p')
            AND (d.command_tag LIKE 'CREATE TABLE%' OR :has_attached)";
    fn dropped_tables() -> Vec<Oid> = [Latest]
        "SELECT DISTINCT d.objid FROM pg_event_trigger_dropped_objects() d
          WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND d.object_type = 'table' AND NOT d.is_temporary";
    fn dropped_servers() -> Vec<String> = [Latest]
        "SELECT d.object_name FROM pg_event_trigger_dropped_objects() d
          WHERE d.classid = 'pg_foreign_server'::regclass AND d.objsubid = 0";
    /// Returns whether one of the tables is claimed or captured.
    fn are_known(tables: &[Oid]) -> bool = [Latest]
        "SELECT FROM claims.claimed_attributes WHERE table_name = ANY (:tables)
         UNION ALL SELECT FROM claims.captured_tables WHERE table_name = ANY (:tables) LIMIT 1";
    fn forget_claimed(tables: &[Oid]) = [Statement] "DELETE FROM claims.claimed_attributes WHERE table_name = ANY (:tables)";
    fn forget_observed(tables: &[Oid]) = [Statement] "DELETE FROM claims.observed WHERE table_name = ANY (:tables)";
    fn forget_captured(tables: &[Oid]) = [Statement] "DELETE FROM claims.captured_tables WHERE table_name = ANY (:tables)";
}

/// The triggers for one purpose: one for rows, and one that refuses TRUNCATE. The names of the functions are quoted, those of the triggers have
/// no quotes in them.
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
    /// A column of the table is unique together with those of others.
    Unique,
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
        Purpose::Unique => Triggers {
            // It has to record a row before other AFTER triggers change it again: PostgreSQL calls them in the order of their names.
            rows: "!claims_unique".to_owned(),
            truncate: "claims_unique_truncate".to_owned(),
            function: "claims.unique_row",
            arguments: String::new(),
            refuses: "claims.give_up_truncated",
        },
        Purpose::Requests { queue, column } => {
            let QueueTriggers { rows, truncate, arguments } = of_queue(connection, queue, column).unwrap_or_default();
            let refuses = "claims.refuse_unrecorded_truncate";
            Triggers { rows, truncate, function: "claims.capture_change", arguments, refuses }
        }
    }
}

fn members(connection: &Connection, table: Oid, triggers: &Triggers) -> Vec<Member> {
    members_beneath(connection, table, table, triggers)
}

fn members_beneath(connection: &Connection, table: Oid, top: Oid, triggers: &Triggers) -> Vec<Member> {
    members_with(connection, table, top, &triggers.rows, &triggers.truncate, triggers.function)
}

fn name(connection: &Connection, table: Oid) -> String {
    quoted_name(connection, table).unwrap_or_default()
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
        for member in members(connection, table, &triggers) {
            lock::table(member.oid, Strength::AgainstWriters);
        }
        let Triggers { rows, function, arguments, .. } = &triggers;
        if let Some(root) = inherited_from(connection, table, rows) {
            return Err(TriggerError::CapturedAsPartition { table: name(connection, table), root });
        }
        if let Some(partition) = partition_with_its_own(connection, table, rows) {
            let ending = match purpose {
                Purpose::Claims => "unclaim_attribute",
                Purpose::Unique => "drop_unique",
                Purpose::Requests { .. } => "uncapture_requests",
            };
            return Err(TriggerError::PartitionCaptured { table: name(connection, table), partition, ending });
        }
        for member in members(connection, table, &triggers) {
            // PostgreSQL creates row triggers on the partitions itself, also on later ones.
            let is_renewed = !member.has_rows_as_created || matches!(purpose, Purpose::Requests { .. });
            if member.oid == table && is_renewed {
                let table = name(connection, table);
                let text = format!(
                    "CREATE OR REPLACE TRIGGER \"{rows}\" AFTER INSERT OR UPDATE OR DELETE ON {table}
                     FOR EACH ROW EXECUTE FUNCTION {function}({arguments})"
                );
                as_superuser(|| connection.run_text(&text, []));
            }
            refuse_truncate(connection, &member, &triggers);
            for (fires, trigger) in [(member.rows_fires, rows), (member.truncate_fires, &triggers.truncate)] {
                if !fires {
                    let text =
                        format!("ALTER TABLE ONLY {} ENABLE TRIGGER \"{trigger}\"", name(connection, member.oid));
                    as_superuser(|| connection.run_text(&text, []));
                }
            }
        }
        // add() holds a lock until the end of the transaction. It also serializes the GRANT below: concurrent GRANTs on one
        // function fail with "tuple concurrently updated".
        event_triggers::add(connection);
        grant_to_owner(connection, table, purpose);
        Ok(())
    })
}

/// Lets the owner of a table execute the function of its row trigger. Whoever creates a partition needs that for the triggers that PostgreSQL
/// clones to it.
pub fn grant_to_owner(connection: &Connection, table: Oid, purpose: &Purpose) {
    let function = triggers(connection, purpose).function;
    if let Some(owner) = owner_without(connection, table, &format!("{function}()")) {
        event_triggers::lock(connection);
        as_extension_owner(connection, || {
            connection.run_text(&format!("GRANT EXECUTE ON FUNCTION {function}() TO {owner}"), []);
        });
    }
}

/// Does [`grant_to_owner`] for claimed and captured tables that the current command has given to another owner.
pub fn follow_owners(connection: &Connection) {
    pinned(|| {
        let changed = changed_tables(connection, true);
        let roots = as_extension_owner(connection, || roots_of(connection, &changed)).unwrap_or_default();
        for root in roots {
            let purpose = root.purpose();
            changed.iter().for_each(|table| grant_to_owner(connection, *table, &purpose));
        }
    });
}

/// Creates the trigger that refuses TRUNCATE. PostgreSQL does not clone statement triggers to partitions.
fn refuse_truncate(connection: &Connection, member: &Member, triggers: &Triggers) {
    if member.has_truncate {
        return;
    }
    // The lock keeps the table's name from changing before the CREATE TRIGGER.
    lock::table(member.oid, Strength::AgainstWriters);
    let table = name(connection, member.oid);
    let Triggers { truncate, refuses, .. } = triggers;
    let text = format!(
        "CREATE TRIGGER \"{truncate}\" BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {refuses}()"
    );
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
            let text = format!("DROP TRIGGER \"{trigger}\" ON {}", name(connection, table));
            as_superuser(|| connection.run_text(&text, []));
        };
        for member in members(connection, table, &triggers) {
            if member.has_truncate {
                drop(&triggers.truncate, member.oid);
            }
            if member.has_rows && member.oid == table {
                drop(&triggers.rows, table);
            }
        }
        event_triggers::drop_unneeded(connection);
        Ok(())
    })
}

/// Runs `body` as the extension's owner, who may have replaced the extension's tables: they must not be touched with more rights
/// than this role's.
pub fn as_extension_owner<T>(connection: &Connection, body: impl FnOnce() -> T) -> Option<T> {
    extension_owner(connection).map(|owner| restricted_as(owner, body))
}

/// Creates the triggers that refuse TRUNCATE on new partitions, at the end of a command that created or attached tables. Skips
/// a table that lacks its own triggers: it is being restored from a dump, which contains the triggers of the partitions.
pub fn complete(connection: &Connection, has_attached: bool) {
    pinned(|| {
        let changed = changed_tables(connection, has_attached);
        if changed.is_empty() {
            return;
        }
        as_extension_owner(connection, || {
            for root in roots_of(connection, &changed) {
                complete_tables(connection, root.table_name, root.table_name, &root.purpose());
            }
        });
    });
}

/// Creates the triggers for TRUNCATE that `top` and its partitions lack. `top` is a partition of the captured table `table`, or `table`.
pub fn complete_tables(connection: &Connection, table: Oid, top: Oid, purpose: &Purpose) {
    let triggers = triggers(connection, purpose);
    let members = members_beneath(connection, table, top, &triggers);
    if members.first().is_some_and(|root| root.has_rows && root.has_truncate) {
        members.iter().for_each(|member| refuse_truncate(connection, member, &triggers));
    }
}

/// Deletes the entries of dropped tables and servers, at the end of a command that dropped objects.
pub fn forget(connection: &Connection) {
    pinned(|| {
        let (dropped, servers) = (dropped_tables(connection), dropped_servers(connection));
        if dropped.is_empty() && servers.is_empty() {
            return;
        }
        as_extension_owner(connection, || {
            if !servers.is_empty() && named_services::forget(connection, &servers) {
                event_triggers::drop_unneeded(connection);
            }
            // Every DELETE sends an invalidation to all sessions, even if it deletes nothing.
            if are_known(connection, &dropped) {
                forget_claimed(connection, &dropped);
                forget_observed(connection, &dropped);
                forget_captured(connection, &dropped);
                event_triggers::drop_unneeded(connection);
            }
        });
    });
}
