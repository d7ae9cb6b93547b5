//! Statements on claimed attributes, and their cache for each captured table.

use std::cell::RefCell;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::rc::Rc;

use pgrx::pg_sys::Oid;
use uuid::Uuid;

use super::keys::{KeyKind, base_type};
use crate::pg::cache::{self, Freshness, RelationCache};
use crate::pg::owner::restricted_as;
use crate::pg::prepared::Prepared;
use crate::pg::spi::{Connection, Row, Value, View};
use crate::pg::statement::statement;
use crate::pg::subtransaction::{Caught, Stopped, attempt};
use crate::pg::uuid::from_pg_uuid;

statement! {
    RELATIONS() = "SELECT to_regclass('claims.claimed_attributes')::oid, to_regclass('claims.automatic_service')::oid";
    /// The claimed columns of table $1, or of the partitioned table that it belongs to. Virtual generated columns count as
    /// missing, since triggers do not get their values.
    ATTRIBUTES(OIDOID) = concat!(
        "SELECT quote_ident(c.relname), c.relowner, a.attribute::text, c.relname::text, quote_ident(a.attribute::text),
                quote_ident(a.subject_key::text), quote_ident(a.source_key::text), a.bucket_type, a.subject_type,
                a.source_type, a.condition, v.attnum::int, s.attnum::int, k.attnum::int,
                claims.has_fixed_text(v.atttypid), format_type(v.atttypid, NULL), ", base_type!("s"), ", ", base_type!("k"), ",
                s.attname::text, claims.has_fixed_text(s.atttypid), format_type(s.atttypid, NULL),
                k.attname::text, claims.has_fixed_text(k.atttypid), format_type(k.atttypid, NULL)
           FROM claims.claimed_attributes a JOIN pg_class c ON c.oid = a.table_name
           LEFT JOIN pg_attribute v ON v.attrelid = $1 AND v.attname = a.attribute AND v.attnum > 0 AND NOT v.attisdropped AND v.attgenerated <> 'v'
           LEFT JOIN pg_attribute s ON s.attrelid = $1 AND s.attname = a.subject_key AND s.attnum > 0 AND NOT s.attisdropped AND s.attgenerated <> 'v'
           LEFT JOIN pg_attribute k ON k.attrelid = $1 AND k.attname = a.source_key AND k.attnum > 0 AND NOT k.attisdropped AND k.attgenerated <> 'v'
          WHERE a.table_name = $1 OR a.table_name IN (SELECT p.relid FROM pg_partition_ancestors($1) p)
          ORDER BY a.table_name, a.attribute");
    /// The columns of the claimed table, taken from a row of table $1, which is that table or a partition of it. A condition may
    /// use the whole row of the claimed table, with the columns in their order there.
    ROW(OIDOID) =
        "SELECT string_agg('($1).' || quote_ident(p.attname), ', ' ORDER BY p.attnum) FROM pg_attribute p
          WHERE p.attrelid = (SELECT a.table_name FROM claims.claimed_attributes a
                               WHERE a.table_name = $1 OR a.table_name IN (SELECT t.relid FROM pg_partition_ancestors($1) t) LIMIT 1)
            AND p.attnum > 0 AND NOT p.attisdropped";
    /// The service of automatic mode.
    AUTOMATIC() = "SELECT cell_id, service FROM claims.automatic_service";
    /// Queues the deferred trigger, which is called at the end of the transaction.
    ENQUEUE() = "INSERT INTO claims.automatic_queue (changes) VALUES (0)";
    /// Queues it again, after everything that is deferred by now, if there were changes ($2) since it was queued.
    REQUEUE(TIDOID, INT8OID) = "UPDATE claims.automatic_queue SET changes = $2 WHERE ctid = $1 AND changes <> $2";
    /// The newest tracked leases of cell $2, at most $1, and those whose cell is not known.
    NEWEST_TRACKED(INT8OID, INT8OID) =
        "SELECT uuid FROM claims.cells_outstanding_leases WHERE cell_id IS NULL OR cell_id = $2 ORDER BY uuid DESC LIMIT $1";
    DEQUEUE(TIDOID) = "DELETE FROM claims.automatic_queue WHERE ctid = $1";
}

/// The column of claims.automatic_queue that says after how many changes the row was queued.
pub const CHANGES: NonZeroUsize = NonZeroUsize::MIN;

/// A claimed column of a table.
pub struct CapturedAttribute {
    pub bucket_type: Rc<str>,
    pub subject_type: Rc<str>,
    pub subject_key: KeyKind,
    pub source_type: Rc<str>,
    pub source_key: KeyKind,
}

/// What is needed to capture the rows of one table.
pub struct CapturedColumns {
    pub attributes: Vec<CapturedAttribute>,
    /// Owner of the claimed table, whose code the conditions and the casts to text are.
    pub owner: Oid,
    /// All columns that matter, of each attribute the value, the subject and the source; `None`: there is a condition, which
    /// may look at any.
    pub columns: Option<Vec<[NonZeroUsize; 3]>>,
    /// Three columns for each attribute: value (NULL where it is not claimed), subject, source; the latter two as numbers
    /// or as texts.
    pub statement: Option<Prepared>,
}

/// Why a claimed column can no longer be captured.
pub enum UnusableAttribute {
    /// The column, or one of its keys, does not exist.
    Missing { table: String, attribute: String },
    /// The type of it or of one of its keys was changed to one whose text depends on settings.
    NoFixedText { table: String, attribute: String, type_name: String },
    /// A condition names something that does not exist any more.
    ConditionLost { table: String, error: Caught },
}

thread_local! {
    static CAPTURED: RelationCache<CapturedColumns> = const { RelationCache::new() };
    static SERVICE: RefCell<Option<(Freshness, Option<Automatic>)>> = const { RefCell::new(None) };
}

fn relation(connection: &Connection, number: i32) -> Oid {
    connection.run(&RELATIONS, View::Latest, []).first(|row| row.get(number)).flatten().unwrap_or(Oid::INVALID)
}

/// The claimed columns of a table, as committed now or changed by this transaction. `row_type` is the table's.
pub fn captured(connection: &Connection, table: Oid, row_type: Oid) -> Result<Rc<CapturedColumns>, UnusableAttribute> {
    match CAPTURED.with(|all| all.get(table)) {
        Some(captured) => Ok(captured),
        None => load(connection, table, row_type),
    }
}

/// The same, if this session has looked them up already.
pub fn captured_as_known(table: Oid) -> Option<Rc<CapturedColumns>> {
    CAPTURED.with(|all| all.get(table))
}

fn load(connection: &Connection, table: Oid, row_type: Oid) -> Result<Rc<CapturedColumns>, UnusableAttribute> {
    let fresh = [Freshness::of(table), Freshness::of(relation(connection, 1))];
    let rows = connection.run(&ATTRIBUTES, View::Latest, [table.into()]);
    let columns = rows.map(|row| ColumnRow::read(&row)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let owner = rows.first(|row| row.must(2)).unwrap_or(Oid::INVALID);
    // Parsing evaluates literals: it runs code of the owner too.
    let prepare = |text| restricted_as(owner, || Prepared::new(connection, text, &[row_type]));
    let row = connection.run(&ROW, View::Latest, [table.into()]).first(|row| row.get::<String>(1)).flatten();
    let text = row.and_then(|row| statement_text(&columns, &row));
    let statement = match text.map(|text| attempt(|| Ok::<_, Infallible>(prepare(text)))) {
        None => None,
        Some(Ok(prepared)) => Some(prepared),
        Some(Err(Stopped::ByBody(never))) => match never {},
        Some(Err(Stopped::ByError(error))) if error.names_what_is_not_there() => {
            return Err(UnusableAttribute::ConditionLost {
                table: rows.first(|row| row.must(4)).unwrap_or_default(),
                error,
            });
        }
        Some(Err(Stopped::ByError(error))) => error.rethrow(),
    };
    let captured = CapturedColumns {
        owner,
        columns: columns
            .iter()
            .all(|column| column.condition.is_none())
            .then(|| columns.iter().map(|column| column.numbers).collect()),
        statement,
        attributes: columns.into_iter().map(|column| column.attribute).collect(),
    };
    Ok(CAPTURED.with(|all| all.put(table, fresh, captured)))
}

/// A row of ATTRIBUTES.
struct ColumnRow {
    /// Names, quoted: the table, the column, the keys.
    names: [String; 4],
    condition: Option<String>,
    numbers: [NonZeroUsize; 3],
    attribute: CapturedAttribute,
}

impl ColumnRow {
    fn read(row: &Row) -> Result<Self, UnusableAttribute> {
        let number = |column: i32| row.get::<i32>(column).and_then(|n| NonZeroUsize::new(n.unsigned_abs() as usize));
        let numbers = match (number(12), number(13), number(14)) {
            (Some(value), Some(subject), Some(source)) => [value, subject, source],
            _ => return Err(UnusableAttribute::Missing { attribute: row.must(3), table: row.must(4) }),
        };
        // A name, whether its type has a fixed text, and the type.
        let columns = [(3, 15, 16), (19, 20, 21), (22, 23, 24)];
        if let Some((attribute, _, type_name)) =
            columns.into_iter().find(|(_, fixed, _)| row.get(*fixed) == Some(false))
        {
            let (attribute, type_name) = (row.must(attribute), row.must(type_name));
            return Err(UnusableAttribute::NoFixedText { attribute, table: row.must(4), type_name });
        }
        let type_name = |column: i32| Rc::from(row.must::<String>(column));
        let kind = |column: i32| KeyKind::of(row.get(column));
        Ok(ColumnRow {
            names: [row.must(1), row.must(5), row.must(6), row.must(7)],
            condition: row.get(11),
            numbers,
            attribute: CapturedAttribute {
                bucket_type: type_name(8),
                subject_type: type_name(9),
                subject_key: kind(17),
                source_type: type_name(10),
                source_key: kind(18),
            },
        })
    }
}

/// The row $1 as the attributes see it; in conditions it has the name of the claimed table. All names but those
/// of the row's columns are qualified, in conditions too: the search_path does not matter.
fn statement_text(columns: &[ColumnRow], row: &str) -> Option<String> {
    let table = &columns.first()?.names[0];
    let values: Vec<_> = columns
        .iter()
        .map(|ColumnRow { names: [table, value, subject, source], condition, attribute, .. }| {
            let [subject_type, source_type] = [attribute.subject_key, attribute.source_key].map(as_sent);
            let condition = condition.as_deref().unwrap_or("true");
            format!(
                "CASE WHEN ({condition}) THEN {table}.{value}::pg_catalog.text END, \
                 {table}.{subject}::{subject_type}, {table}.{source}::{source_type}"
            )
        })
        .collect();
    Some(format!("SELECT {} FROM (SELECT {row}) AS {table}", values.join(", ")))
}

/// How a key is returned.
fn as_sent(key: KeyKind) -> &'static str {
    match key {
        KeyKind::Integer => "pg_catalog.int8",
        KeyKind::Uuid | KeyKind::Text => "pg_catalog.text",
    }
}

/// Who is to be called at the end of each transaction.
#[derive(Debug, Clone)]
pub struct Automatic {
    pub cell_id: i64,
    pub service: String,
}

/// The service of automatic mode, as committed right now or changed by this transaction.
pub fn automatic(connection: &Connection) -> Option<Automatic> {
    cache::catch_up();
    let known = SERVICE.with_borrow(|known| known.clone());
    if let Some((fresh, automatic)) = known
        && fresh.is_fresh()
    {
        return automatic;
    }
    let fresh = Freshness::of(relation(connection, 2));
    let rows = connection.run(&AUTOMATIC, View::Latest, []);
    let automatic = rows.first(|row| Automatic { cell_id: row.must(1), service: row.must(2) });
    SERVICE.replace(Some((fresh, automatic.clone())));
    automatic
}

/// Whether automatic mode is on, if this session has looked that up already.
pub fn is_automatic_as_known() -> Option<bool> {
    cache::catch_up();
    SERVICE.with_borrow(|known| {
        let (fresh, automatic) = known.as_ref()?;
        fresh.is_fresh().then_some(automatic.is_some())
    })
}

/// Queues the deferred trigger, to be called at the end of this transaction.
pub fn enqueue(connection: &Connection) {
    connection.run(&ENQUEUE, View::Statement, []);
}

/// If there were changes since the row was queued, and always the first time, queues the trigger again, after everything that is
/// deferred by now, and returns `true`.
pub fn requeue(connection: &Connection, place: Value, changes: i64) -> bool {
    connection.run(&REQUEUE, View::Statement, [place, changes.into()]).count() > 0
}

/// Deletes the trigger's row.
pub fn dequeue(connection: &Connection, place: Value) {
    connection.run(&DEQUEUE, View::Statement, [place]);
}

/// The leases that a cell has tracked last, as committed now.
pub fn newest_tracked(connection: &Connection, cell_id: i64, limit: i64) -> Vec<Uuid> {
    let values = [limit.into(), cell_id.into()];
    connection.run(&NEWEST_TRACKED, View::Latest, values).map(|row| from_pg_uuid(row.must(1)))
}
