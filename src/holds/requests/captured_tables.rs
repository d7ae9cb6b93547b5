//! Statements on tables whose changes are recorded as requests, and their cache.

use std::cell::OnceCell;
use std::rc::Rc;

use pgrx::pg_sys::Oid;

use pg::cache::{Freshness, MOST_PLANS, RelationCache};
use pg::jsonb::Jsonb;
use pg::owner::restricted_as;
use pg::prepared::Prepared;
use pg::query::{Answer, query, record};
use pg::settings::with_fixed_text;
use pg::spi::Connection;
use pg::trigger::{RowChange, RowVersion};

record! {
    /// A table of the application.
    pub struct Table {
        pub owner: Oid,
        pub name: String,
        pub can_be_captured: bool,
    }

    struct Capture {
        queue: String,
        entity_column: String,
        quoted_column: String,
        has_column: bool,
        /// The captured table: the table of the row, or one of which that is a partition.
        captured: Oid,
        has_changes: bool,
    }
}

query! {
    /// Returns a table in its committed state.
    pub fn table(table: Oid) -> Option<Table> = [Latest]
        "SELECT c.relowner AS owner, c.oid::regclass::text AS name,
                c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
                AND c.relnamespace <> ALL ('{pg_catalog,information_schema,claims}'::regnamespace[]) AS can_be_captured
           FROM pg_class c WHERE c.oid = :table";
    /// Returns whether a column is a virtual generated column, or `None` if it does not exist.
    pub fn is_virtual(table: Oid, column: &str) -> Option<bool> = [Latest]
        "SELECT a.attgenerated = 'v' FROM pg_attribute a
          WHERE a.attrelid = :table AND a.attname = :column::name AND a.attnum > 0 AND NOT a.attisdropped";
    /// Records that the changes of a table become requests of a queue, with their entity in a column, and which form their payloads have.
    pub fn record(table: Oid, queue: &str, column: &str, form: &str) = [Statement]
        "INSERT INTO claims.captured_tables AS t (table_name, queue, entity_column, payload_form)
         VALUES (:table::regclass, :queue, :column::name, :form)
             ON CONFLICT (table_name, queue) DO UPDATE SET entity_column = excluded.entity_column, payload_form = excluded.payload_form";
    /// Deletes that record.
    pub fn forget(table: Oid, queue: &str) = [Statement]
        "DELETE FROM claims.captured_tables t WHERE t.table_name = :table::regclass AND t.queue = :queue";
    fn relation() -> Option<Option<Oid>> = [Latest] "SELECT to_regclass('claims.captured_tables')::oid";
    /// Returns the queues and entity columns of a table, as a captured table or as a partition of one; whether the table has
    /// the column; and whether payloads are changes.
    fn captures(table: Oid) -> Vec<Capture> = [Latest]
        "SELECT t.queue, t.entity_column::text, quote_ident(t.entity_column) AS quoted_column,
                EXISTS (SELECT FROM pg_attribute a
                         WHERE a.attrelid = :table AND a.attname = t.entity_column AND a.attnum > 0 AND NOT a.attisdropped) AS has_column,
                t.table_name::oid AS captured, t.payload_form = 'change' AS has_changes
           FROM claims.captured_tables t
          WHERE t.table_name = :table OR t.table_name IN (SELECT p.relid FROM pg_partition_ancestors(:table) p)";
    /// Returns whether the JSON of a row of the table depends on settings of the session: a column has a type whose text
    /// is not certain to be equal under all settings. Dates without a time zone are certain, because jsonb has its own
    /// format for them.
    fn depends_on_settings(table: Oid) -> Option<bool> = [Latest]
        "SELECT EXISTS (
             SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
               JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
               JOIN pg_type e ON e.oid = CASE WHEN b.typcategory = 'A' AND b.typelem <> 0 THEN b.typelem ELSE b.oid END
              WHERE a.attrelid = :table AND a.attnum > 0 AND NOT a.attisdropped AND e.typtype <> 'e'
                AND e.oid <> ALL ('{bool,int2,int4,int8,numeric,oid,text,varchar,bpchar,\"char\",name,uuid,date,timestamp,json,jsonb}'::regtype[]::oid[]))";
    /// Builds a payload of the form `change`: the captured table by its present name, the operation, and both versions of the row.
    fn change(captured: Oid, operation: &str, old: Option<Jsonb>, new: Option<Jsonb>) -> Option<Jsonb> = [Latest]
        "SELECT jsonb_build_object('table', quote_ident(n.nspname) || '.' || quote_ident(c.relname), 'operation', :operation,
                                   'old', :old, 'new', :new)
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = :captured";
}

/// Reads a row $1 as jsonb.
const ROW: &str = "SELECT pg_catalog.to_jsonb($1)";

/// A queue that receives the changes of a table.
pub struct CapturedQueue {
    queue: String,
    column: String,
    quoted_column: String,
    pub has_column: bool,
    captured: Oid,
    /// Whether payloads are changes and not only new rows.
    has_changes: bool,
    /// Reads the column of a row.
    reader: OnceCell<Prepared>,
}

/// The cached data of a table.
pub struct CapturedQueues {
    queues: Vec<CapturedQueue>,
    /// Whether its rows must be read under fixed settings.
    depends_on_settings: bool,
    reader: OnceCell<Prepared>,
}

impl CapturedQueues {
    /// Returns the queue if changes of the column are recorded for it.
    pub fn queue(&self, queue: &str, column: &str) -> Option<&CapturedQueue> {
        self.queues.iter().find(|known| known.queue == queue && known.column == column)
    }
}

thread_local! {
    static CAPTURED_TABLES: RelationCache<CapturedQueues> = const { RelationCache::new(MOST_PLANS) };
}

/// Returns the cached data of a table.
pub fn captured(connection: &Connection, table: Oid) -> Rc<CapturedQueues> {
    CAPTURED_TABLES.with(|all| all.get(table)).unwrap_or_else(|| load(connection, table))
}

fn load(connection: &Connection, table: Oid) -> Rc<CapturedQueues> {
    let relation = relation(connection).flatten().unwrap_or(Oid::INVALID);
    let fresh = [Freshness::of(table), Freshness::of(relation)];
    let queue = |Capture { queue, entity_column, quoted_column, has_column, captured, has_changes }| CapturedQueue {
        queue,
        column: entity_column,
        quoted_column,
        has_column,
        captured,
        has_changes,
        reader: OnceCell::new(),
    };
    let queues = captures(connection, table).into_iter().map(queue).collect();
    let depends_on_settings = depends_on_settings(connection, table).unwrap_or(true);
    CAPTURED_TABLES
        .with(|all| all.put(table, fresh, CapturedQueues { queues, depends_on_settings, reader: OnceCell::new() }))
}

/// Reads the entity of a version of a row: the text that the column has in the row's JSON. Reads no other column.
pub fn entity(
    connection: &Connection,
    captured: &CapturedQueues,
    queue: &CapturedQueue,
    owner: Oid,
    version: RowVersion,
) -> Option<String> {
    as_owner(captured, owner, || {
        let text = || {
            let column = &queue.quoted_column;
            format!("SELECT pg_catalog.to_jsonb(($1).{column}) OPERATOR(pg_catalog.#>>) '{{}}'::pg_catalog.text[]")
        };
        let reader = queue.reader.get_or_init(|| Prepared::new(connection, text(), &[version.row_type()]));
        Option::of(&reader.run(connection, [version.value_as_stored()])).flatten()
    })
}

impl CapturedQueue {
    /// Returns the versions of a row that its payload has: the new one, or both if payloads are changes.
    pub fn versions<'t>(&self, change: &RowChange<'t>) -> [Option<RowVersion<'t>>; 2] {
        [change.before().filter(|_| self.has_changes), change.after()]
    }
}

/// Reads the payload of a changed row.
pub fn payload(
    connection: &Connection,
    captured: &CapturedQueues,
    queue: &CapturedQueue,
    changed: &RowChange,
) -> Option<Jsonb> {
    let read = |version: RowVersion| row(connection, captured, changed.owner(), version);
    let [old, new] = queue.versions(changed).map(|version| version.and_then(read));
    if !queue.has_changes {
        return new;
    }
    change(connection, queue.captured, changed.operation(), old, new)
}

/// Reads a version of a row as JSON.
fn row(connection: &Connection, captured: &CapturedQueues, owner: Oid, version: RowVersion) -> Option<Jsonb> {
    as_owner(captured, owner, || {
        let reader = captured.reader.get_or_init(|| Prepared::new(connection, ROW.to_owned(), &[version.row_type()]));
        Option::of(&reader.run(connection, [version.value()])).flatten()
    })
}

/// Reads as the table's owner. The conversion to jsonb calls casts, which any role may have written. Its result does not depend
/// on the role that writes the row.
fn as_owner<T>(captured: &CapturedQueues, owner: Oid, read: impl FnOnce() -> T) -> T {
    restricted_as(owner, || if captured.depends_on_settings { with_fixed_text(read) } else { read() })
}
