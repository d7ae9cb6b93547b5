//! The triggers of claimed tables and of tables whose changes become requests.
//!
//! They are made as the cluster's first superuser, since neither the caller nor the extension's owner need have the right.
//! So every word of what is run as such is in this file, but for names that the catalogs spell; what else is to be
//! known is asked as the extension's owner.

use pgrx::pg_sys::Oid;

use super::event_triggers;
use crate::error::CaptureError;
use crate::pg::lock::{self, Strength};
use crate::pg::owner::{as_superuser, restricted_as};
use crate::pg::settings::with_search_path;
use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

statement! {
    /// Table $1 and its partitions, its own row first: whether it has triggers named $2 and $3, where it can have them.
    MEMBERS(OIDOID, TEXTOID, TEXTOID) =
        "SELECT c.oid, EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = $2::name),
                EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = $3::name)
           FROM pg_class c
          WHERE c.relkind IN ('r', 'p') AND (c.oid = $1 OR c.oid IN (SELECT p.relid FROM pg_partition_tree($1) p))
          ORDER BY c.oid <> $1, c.oid";
    /// The table of which $1 is a partition and from which it has its trigger named $2.
    INHERITED_FROM(OIDOID, TEXTOID) =
        "SELECT own.tgrelid::regclass::text
           FROM pg_trigger inherited, pg_partition_ancestors($1) a JOIN pg_trigger own ON own.tgrelid = a.relid
          WHERE inherited.tgrelid = $1 AND inherited.tgname = $2::name AND inherited.tgparentid <> 0
            AND own.tgname = $2::name AND own.tgparentid = 0";
    /// A partition of table $1 that has a trigger named $2 of its own, and not from that table.
    HAS_ITS_OWN(OIDOID, TEXTOID) =
        "SELECT t.tgrelid::regclass::text FROM pg_trigger t
          WHERE t.tgrelid IN (SELECT p.relid FROM pg_partition_tree($1) p) AND t.tgrelid <> $1
            AND t.tgname = $2::name AND t.tgparentid = 0
          ORDER BY t.tgrelid LIMIT 1";
    TABLE_NAME(OIDOID) =
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
    /// The triggers of queue $1 by column $2: their names, and what one of them is called with.
    OF_QUEUE(TEXTOID, TEXTOID) =
        "SELECT 'claims_capture_' || md5($1), 'claims_truncate_' || md5($1), quote_literal($1) || ', ' || quote_literal($2)";
    /// The owner of table $1, unless he may execute function $2.
    LACKS_FUNCTION(OIDOID, TEXTOID) =
        "SELECT quote_ident(pg_get_userbyid(c.relowner)) FROM pg_class c
          WHERE c.oid = $1 AND NOT has_function_privilege(c.relowner, $2, 'EXECUTE')";
    /// The schema's, not pg_extension.extowner: after pg_upgrade the extension belongs to the superuser that ran it, while
    /// everything in it has kept its owner.
    EXTENSION_OWNER() = "SELECT nspowner FROM pg_namespace WHERE nspname = 'claims'";
    /// The claimed tables, and the queues and columns of captured ones, that $1 are or are partitions of.
    ROOTS_OF(OIDARRAYOID) =
        "WITH relation (oid) AS (SELECT x FROM unnest($1) x
                            UNION SELECT p.relid FROM unnest($1) x, pg_partition_ancestors(x) p)
         SELECT DISTINCT a.table_name::oid, NULL::text, NULL::text
           FROM claims.claimed_attributes a JOIN relation ON relation.oid = a.table_name
         UNION ALL
         SELECT t.table_name::oid, t.queue, t.entity_column::text
           FROM claims.captured_tables t JOIN relation ON relation.oid = t.table_name";
    /// What the command that ends created or altered: tables. $1: including those that were only altered.
    CHANGED_TABLES(BOOLOID) =
        "SELECT DISTINCT d.objid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
          WHERE d.classid = 'pg_class'::regclass AND (c.relispartition OR c.relkind = 'p')
            AND (d.command_tag LIKE 'CREATE TABLE%' OR $1)";
    DROPPED_TABLES() =
        "SELECT DISTINCT d.objid FROM pg_event_trigger_dropped_objects() d
          WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND d.object_type = 'table' AND NOT d.is_temporary";
    /// Whether anything is known of tables $1.
    ARE_KNOWN(OIDARRAYOID) =
        "SELECT 1 FROM claims.claimed_attributes WHERE table_name = ANY ($1)
         UNION ALL SELECT 1 FROM claims.captured_tables WHERE table_name = ANY ($1) LIMIT 1";
    FORGET_CLAIMED(OIDARRAYOID) = "DELETE FROM claims.claimed_attributes WHERE table_name = ANY ($1)";
    FORGET_CAPTURED(OIDARRAYOID) = "DELETE FROM claims.captured_tables WHERE table_name = ANY ($1)";
}

/// The triggers of one purpose: for rows, and against TRUNCATE. All names are quoted.
struct Triggers {
    rows: String,
    truncate: String,
    /// What the trigger for rows calls, and with what.
    function: &'static str,
    arguments: String,
    refuses: &'static str,
}

/// What triggers are for.
pub enum Purpose {
    /// Columns of the table are claimed.
    Claims,
    /// Its changes become requests.
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

/// A table that can have triggers.
struct Member {
    table: Oid,
    has_rows: bool,
    has_truncate: bool,
}

fn members(connection: &Connection, table: Oid, triggers: &Triggers) -> Vec<Member> {
    let values = [table.into(), triggers.rows.as_str().into(), triggers.truncate.as_str().into()];
    let members = connection.run(&MEMBERS, View::Latest, values);
    members.map(|row| Member { table: row.must(1), has_rows: row.must(2), has_truncate: row.must(3) })
}

fn name(connection: &Connection, table: Oid) -> String {
    connection.run(&TABLE_NAME, View::Latest, [table.into()]).first(|row| row.must(1)).unwrap_or_default()
}

/// Runs `body` with names that mean what Postgres means by them.
fn pinned<T>(body: impl FnOnce() -> T) -> T {
    with_search_path(c"pg_catalog, pg_temp", body)
}

/// Puts triggers on a table and its partitions, where they lack them. Refuses where the same is captured twice: of a partition
/// that has the trigger from its table, or of a table one of whose partitions has one of its own.
pub fn add(connection: &Connection, table: Oid, purpose: &Purpose) -> Result<(), CaptureError> {
    pinned(|| {
        // Nobody may be writing while the triggers come, or what they capture changes.
        lock::table(table, Strength::AgainstWriters);
        let triggers = triggers(connection, purpose);
        members(connection, table, &triggers)
            .iter()
            .for_each(|member| lock::table(member.table, Strength::AgainstWriters));
        let Triggers { rows, function, arguments, .. } = &triggers;
        if let Some(root) = inherited_from(connection, table, rows) {
            return Err(CaptureError::CapturedAsPartition { table: name(connection, table), root });
        }
        let its_own = connection.run(&HAS_ITS_OWN, View::Latest, [table.into(), rows.as_str().into()]);
        if let Some(partition) = its_own.first(|row| row.must(1)) {
            let is_claimed = matches!(purpose, Purpose::Claims);
            return Err(CaptureError::PartitionCaptured { table: name(connection, table), partition, is_claimed });
        }
        for member in members(connection, table, &triggers) {
            // Postgres gives a trigger for rows to the partitions itself, also to those that come later.
            if member.table == table && !(member.has_rows && matches!(purpose, Purpose::Claims)) {
                let table = name(connection, table);
                let text = format!(
                    "CREATE OR REPLACE TRIGGER {rows} AFTER INSERT OR UPDATE OR DELETE ON {table}
                     FOR EACH ROW EXECUTE FUNCTION {function}({arguments})"
                );
                as_superuser(|| connection.run_text(&text, []));
            }
            refuse_truncate(connection, &member, &triggers);
        }
        // Under their lock also those who grant on one function follow each other: at the same time they would get "tuple
        // concurrently updated".
        event_triggers::add(connection);
        let owner = connection.run(&LACKS_FUNCTION, View::Latest, [table.into(), format!("{function}()").into()]);
        // Postgres asks whoever makes a partition for the right to execute the triggers that it gets.
        if let Some(owner) = owner.first(|row| row.must::<String>(1)) {
            connection.run_text(&format!("GRANT EXECUTE ON FUNCTION {function}() TO {owner}"), []);
        }
        Ok(())
    })
}

/// The table from which a partition has a trigger.
fn inherited_from(connection: &Connection, table: Oid, trigger: &str) -> Option<String> {
    connection.run(&INHERITED_FROM, View::Latest, [table.into(), trigger.into()]).first(|row| row.must(1))
}

/// A statement trigger, which each partition has to get by itself.
fn refuse_truncate(connection: &Connection, member: &Member, triggers: &Triggers) {
    if member.has_truncate {
        return;
    }
    // The name is read under the lock that keeps it.
    lock::table(member.table, Strength::AgainstWriters);
    let table = name(connection, member.table);
    let Triggers { truncate, refuses, .. } = triggers;
    let text =
        format!("CREATE TRIGGER {truncate} BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {refuses}()");
    as_superuser(|| connection.run_text(&text, []));
}

/// Takes triggers off a table and its partitions. Refuses for a partition that has them from its table.
pub fn drop(connection: &Connection, table: Oid, purpose: &Purpose) -> Result<(), CaptureError> {
    pinned(|| {
        lock::table(table, Strength::AgainstAll);
        let triggers = triggers(connection, purpose);
        if let Some(root) = inherited_from(connection, table, &triggers.rows) {
            return Err(CaptureError::CapturedWithItsTable { table: name(connection, table), root });
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

/// Runs `body` as the extension's owner, whose tables are asked: they, and what he may have made of them, are not to be
/// touched with more rights than his.
fn as_extension_owner<T>(connection: &Connection, body: impl FnOnce() -> T) -> Option<T> {
    let owner = connection.run(&EXTENSION_OWNER, View::Latest, []).first(|row| row.must(1));
    owner.map(|owner| restricted_as(owner, body))
}

/// At the end of a command that made or attached tables: partitions of claimed and of captured tables refuse TRUNCATE,
/// too. Where the table itself lacks its triggers it is being restored from a dump, which has those of partitions.
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

/// At the end of a command that dropped something: what is known of tables that went with it goes.
pub fn forget(connection: &Connection) {
    pinned(|| {
        let dropped = connection.run(&DROPPED_TABLES, View::Latest, []);
        let dropped: Vec<Oid> = dropped.map(|row| row.must(1));
        if dropped.is_empty() {
            return;
        }
        as_extension_owner(connection, || {
            // Every DELETE is announced to all sessions, whether or not it deletes anything.
            if connection.run(&ARE_KNOWN, View::Latest, [dropped.clone().into()]).count() > 0 {
                connection.run(&FORGET_CLAIMED, View::Statement, [dropped.clone().into()]);
                connection.run(&FORGET_CAPTURED, View::Statement, [dropped.into()]);
                event_triggers::drop_unneeded(connection);
            }
        });
    });
}
