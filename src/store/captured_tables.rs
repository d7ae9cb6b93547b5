//! Statements on tables whose changes become requests, and what is cached of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::pg_sys::Oid;

use crate::pg::cache::Freshness;
use crate::pg::jsonb::Jsonb;
use crate::pg::owner::restricted_as;
use crate::pg::prepared::Prepared;
use crate::pg::spi::{Connection, View};
use crate::pg::trigger::RowVersion;
use crate::statement;

statement! {
    RELATION() = "SELECT to_regclass('claims.captured_tables')::oid";
    /// The queues, and the columns of the entity, of table $1, by itself or as a partition.
    CAPTURED(OIDOID) =
        "SELECT t.queue, t.entity_column::text FROM claims.captured_tables t
          WHERE t.table_name = $1 OR t.table_name IN (SELECT p.relid FROM pg_partition_ancestors($1) p)";
}

/// A row of type $1, and of its column $2: whether there is one, and what it holds.
const READ: &str = "SELECT x.r, x.r OPERATOR(pg_catalog.?) $2, x.r OPERATOR(pg_catalog.->>) $2
                      FROM (SELECT pg_catalog.to_jsonb($1) OFFSET 0) AS x (r)";

/// The queues and the columns of a table.
type Captured = Rc<Vec<(String, String)>>;

thread_local! {
    static CAPTURED_TABLES: RefCell<HashMap<Oid, ([Freshness; 2], Captured)>> = RefCell::default();
    /// By row type.
    static READERS: RefCell<HashMap<Oid, Rc<Prepared>>> = RefCell::default();
}

/// Whether changes of a table are to be recorded for the queue by the column.
pub fn is_captured(connection: &Connection, table: Oid, queue: &str, column: &str) -> bool {
    let known = CAPTURED_TABLES.with_borrow(|all| all.get(&table).cloned());
    let captured = match known {
        Some((fresh, captured)) if fresh.iter().all(Freshness::is_fresh) => captured,
        _ => load(connection, table),
    };
    captured.iter().any(|(its_queue, its_column)| its_queue == queue && its_column == column)
}

fn load(connection: &Connection, table: Oid) -> Captured {
    let relation = connection.run(&RELATION, View::Latest, []).first(|row| row.get(1)).flatten();
    let fresh = [Freshness::of(table), Freshness::of(relation.unwrap_or(Oid::INVALID))];
    let rows = connection.run(&CAPTURED, View::Latest, [table.into()]);
    let captured = Rc::new(rows.map(|row| (row.must(1), row.must(2))));
    CAPTURED_TABLES.with_borrow_mut(|all| all.insert(table, (fresh, captured.clone())));
    captured
}

/// A version of a row.
pub struct Read {
    pub row: Jsonb,
    /// Whether it has the column.
    pub has_entity: bool,
    pub entity: Option<String>,
}

/// Reads a version of a row as its table's owner: to become jsonb, values are handed to casts that anybody may have
/// written.
pub fn read(connection: &Connection, owner: Oid, version: RowVersion, column: &str) -> Option<Read> {
    let row_type = version.row_type();
    restricted_as(owner, || {
        let known = READERS.with_borrow(|all| all.get(&row_type).cloned());
        let reader = known.unwrap_or_else(|| {
            let types = [row_type, pgrx::pg_sys::TEXTOID];
            let reader = Rc::new(Prepared::new(connection, READ.to_owned(), &types));
            READERS.with_borrow_mut(|all| all.insert(row_type, reader.clone()));
            reader
        });
        let rows = reader.run(connection, [version.value(), column.into()]);
        rows.first(|row| Read { row: row.must(1), has_entity: row.must(2), entity: row.get(3) })
    })
}
