//! Statements on tables whose changes are recorded as requests, and their cache.

use std::cell::OnceCell;
use std::rc::Rc;

use pgrx::pg_sys::Oid;

use crate::pg::cache::{Freshness, RelationCache};
use crate::pg::jsonb::Jsonb;
use crate::pg::owner::restricted_as;
use crate::pg::prepared::Prepared;
use crate::pg::settings::{FIXED_TEXT, under};
use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;
use crate::pg::trigger::RowVersion;

statement! {
    /// Table $1: its owner, its name, and whether its changes can become requests.
    TABLE(OIDOID) =
        "SELECT c.relowner, c.oid::regclass::text,
                c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
                AND c.relnamespace <> ALL ('{pg_catalog,information_schema,claims}'::regnamespace[])
           FROM pg_class c WHERE c.oid = $1";
    /// Whether column $2 of table $1 is a virtual generated one.
    IS_VIRTUAL(OIDOID, TEXTOID) =
        "SELECT a.attgenerated = 'v' FROM pg_attribute a
          WHERE a.attrelid = $1 AND a.attname = $2::name AND a.attnum > 0 AND NOT a.attisdropped";
    RECORD(OIDOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.captured_tables AS t (table_name, queue, entity_column) VALUES ($1::regclass, $2, $3::name)
             ON CONFLICT (table_name, queue) DO UPDATE SET entity_column = excluded.entity_column";
    FORGET(OIDOID, TEXTOID) = "DELETE FROM claims.captured_tables t WHERE t.table_name = $1::regclass AND t.queue = $2";
    RELATION() = "SELECT to_regclass('claims.captured_tables')::oid";
    /// The queues, and the columns of the entity, of table $1, by itself or as a partition.
    CAPTURED(OIDOID) =
        "SELECT t.queue, t.entity_column::text FROM claims.captured_tables t
          WHERE t.table_name = $1 OR t.table_name IN (SELECT p.relid FROM pg_partition_ancestors($1) p)";
    /// Whether the JSON of a row of table $1 depends on settings of the session: it has a column of a type that is not
    /// known to be the same under all of them. Dates without a time zone are: jsonb has its own form of them.
    DEPENDS(OIDOID) =
        "SELECT EXISTS (
             SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
               JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
               JOIN pg_type e ON e.oid = CASE WHEN b.typcategory = 'A' AND b.typelem <> 0 THEN b.typelem ELSE b.oid END
              WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND e.typtype <> 'e'
                AND e.oid <> ALL ('{bool,int2,int4,int8,numeric,oid,text,varchar,bpchar,\"char\",name,uuid,date,timestamp,json,jsonb}'::regtype[]::oid[]))";
}

/// A row of type $1, and of its column $2: whether there is one, and what it holds.
const READ: &str = "SELECT x.r, x.r OPERATOR(pg_catalog.?) $2, x.r OPERATOR(pg_catalog.->>) $2
                      FROM (SELECT pg_catalog.to_jsonb($1) OFFSET 0) AS x (r)";

/// A table of the application.
pub struct Table {
    pub owner: Oid,
    pub name: String,
    pub can_be_captured: bool,
}

/// A table as it is right now.
pub fn table(connection: &Connection, table: Oid) -> Option<Table> {
    let found = connection.run(&TABLE, View::Latest, [table.into()]);
    found.first(|row| Table { owner: row.must(1), name: row.must(2), can_be_captured: row.must(3) })
}

/// Whether a column is a virtual generated one; `None`: there is no such column.
pub fn is_virtual(connection: &Connection, table: Oid, column: &str) -> Option<bool> {
    connection.run(&IS_VIRTUAL, View::Latest, [table.into(), column.into()]).first(|row| row.must(1))
}

/// Notes that the changes of a table become requests of a queue, by a column.
pub fn record(connection: &Connection, table: Oid, queue: &str, column: &str) {
    connection.run(&RECORD, View::Statement, [table.into(), queue.into(), column.into()]);
}

/// Notes that they do not any more.
pub fn forget(connection: &Connection, table: Oid, queue: &str) {
    connection.run(&FORGET, View::Statement, [table.into(), queue.into()]);
}

/// What is known of a table.
pub struct Captured {
    /// The queues and the columns.
    queues: Vec<(String, String)>,
    /// Its rows are to be read under settings that are the same for every session.
    depends_on_settings: bool,
    /// Reads its rows.
    reader: OnceCell<Prepared>,
}

impl Captured {
    /// Whether changes are to be recorded for the queue by the column.
    pub fn is_for(&self, queue: &str, column: &str) -> bool {
        self.queues.iter().any(|(its_queue, its_column)| its_queue == queue && its_column == column)
    }
}

thread_local! {
    static CAPTURED_TABLES: RelationCache<Captured> = const { RelationCache::new() };
}

/// What is known of a table whose changes may have to be recorded.
pub fn captured(connection: &Connection, table: Oid) -> Rc<Captured> {
    CAPTURED_TABLES.with(|all| all.get(table)).unwrap_or_else(|| load(connection, table))
}

fn load(connection: &Connection, table: Oid) -> Rc<Captured> {
    let relation = connection.run(&RELATION, View::Latest, []).first(|row| row.get(1)).flatten();
    let fresh = [Freshness::of(table), Freshness::of(relation.unwrap_or(Oid::INVALID))];
    let queues = connection.run(&CAPTURED, View::Latest, [table.into()]).map(|row| (row.must(1), row.must(2)));
    let depends = connection.run(&DEPENDS, View::Latest, [table.into()]).first(|row| row.must(1));
    let captured = Captured { queues, depends_on_settings: depends.unwrap_or(true), reader: OnceCell::new() };
    CAPTURED_TABLES.with(|all| all.put(table, fresh, captured))
}

/// A version of a row.
pub struct Read {
    pub row: Jsonb,
    /// Whether it has the column.
    pub has_entity: bool,
    pub entity: Option<String>,
}

/// Reads a version of a row as its table's owner: to become jsonb, values are handed to casts that anybody may have
/// written. What they become is the same whoever writes the row.
pub fn read(
    connection: &Connection,
    captured: &Captured,
    owner: Oid,
    version: RowVersion,
    column: &str,
) -> Option<Read> {
    let read = || read_by_settings_in_force(connection, captured, version, column);
    restricted_as(owner, || if captured.depends_on_settings { under(FIXED_TEXT, read) } else { read() })
}

fn read_by_settings_in_force(
    connection: &Connection,
    captured: &Captured,
    version: RowVersion,
    column: &str,
) -> Option<Read> {
    let types = [version.row_type(), pgrx::pg_sys::TEXTOID];
    let reader = captured.reader.get_or_init(|| Prepared::new(connection, READ.to_owned(), &types));
    let rows = reader.run(connection, [version.value(), column.into()]);
    rows.first(|row| Read { row: row.must(1), has_entity: row.must(2), entity: row.get(3) })
}
