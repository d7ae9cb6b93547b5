//! Statements on claimed attributes, and a cache of the attributes of each captured table.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::rc::Rc;

use claims_model::enforcement::{Enforcement, Mode, POSITIONS};
use claims_model::origin::{Approval, Declared};
use pgrx::pg_sys::Oid;

use super::keys::{KeyKind, base_type};
use pg::cache::{Freshness, RelationCache};
use pg::owner::restricted_as;
use pg::prepared::Prepared;
use pg::settings::with_fixed_text;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::statement;
use pg::subtransaction::{Caught, Stopped, attempt};

statement! {
    RELATION() = "SELECT to_regclass('claims.claimed_attributes')::oid";
    /// Reads the claimed columns of table $1, or of the partitioned table that it belongs to. A virtual generated column counts
    /// as missing, because triggers do not get its values.
    ATTRIBUTES(OIDOID) = concat!(
        "SELECT quote_ident(c.relname), c.relowner, a.attribute::text, c.relname::text, quote_ident(a.attribute::text),
                quote_ident(a.subject_key::text), quote_ident(a.source_key::text), a.bucket_type, a.subject_type,
                a.source_type, a.condition, v.attnum::int, s.attnum::int, k.attnum::int,
                claims.has_fixed_text(v.atttypid), format_type(v.atttypid, NULL), ", base_type!("s"), ", ", base_type!("k"), ",
                s.attname::text, claims.has_fixed_text(s.atttypid), format_type(s.atttypid, NULL),
                k.attname::text, claims.has_fixed_text(k.atttypid), format_type(k.atttypid, NULL),
                c.oid, n.nspname::text, a.declaration::text, a.constraint_name::text, a.enforcement, round(a.share * 10000)::int8,
                a.approved_owner::oid, a.approved_cell
           FROM claims.claimed_attributes a JOIN pg_class c ON c.oid = a.table_name JOIN pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN pg_attribute v ON v.attrelid = $1 AND v.attname = a.attribute AND v.attnum > 0 AND NOT v.attisdropped AND v.attgenerated <> 'v'
           LEFT JOIN pg_attribute s ON s.attrelid = $1 AND s.attname = a.subject_key AND s.attnum > 0 AND NOT s.attisdropped AND s.attgenerated <> 'v'
           LEFT JOIN pg_attribute k ON k.attrelid = $1 AND k.attname = a.source_key AND k.attnum > 0 AND NOT k.attisdropped AND k.attgenerated <> 'v'
          WHERE a.table_name = $1 OR a.table_name IN (SELECT p.relid FROM pg_partition_ancestors($1) p)
          ORDER BY a.table_name, a.attribute, a.declaration");
    /// Builds the select list that turns a row of table $1 into a row of the claimed table, which is $1 or its ancestor.
    /// A condition may refer to the whole row of the claimed table, so the columns are in that table's order.
    ROW(OIDOID) =
        "SELECT string_agg('($1).' || quote_ident(p.attname), ', ' ORDER BY p.attnum) FROM pg_attribute p
          WHERE p.attrelid = (SELECT a.table_name FROM claims.claimed_attributes a
                               WHERE a.table_name = $1 OR a.table_name IN (SELECT t.relid FROM pg_partition_ancestors($1) t) LIMIT 1)
            AND p.attnum > 0 AND NOT p.attisdropped";
    /// Queues the deferred trigger, which PostgreSQL calls at the end of the transaction.
    ENQUEUE() = "INSERT INTO claims.automatic_queue (changes) VALUES (0)";
    /// Queues the deferred trigger again, behind all deferred triggers that are queued now, if the number of changes ($2) has
    /// grown since it was queued.
    REQUEUE(TIDOID, INT8OID) = "UPDATE claims.automatic_queue SET changes = $2 WHERE ctid = $1 AND changes <> $2";
    DEQUEUE(TIDOID) = "DELETE FROM claims.automatic_queue WHERE ctid = $1";
}

/// Position of the column `changes` in claims.automatic_queue: the number of changes when the row was last written.
pub const CHANGES: NonZeroUsize = NonZeroUsize::MIN;

/// A claimed column of a table.
pub struct CapturedAttribute {
    /// The columns of the value, the subject and the source: their names and numbers.
    pub columns: [(String, NonZeroUsize); 3],
    pub bucket_type: Rc<str>,
    pub subject_type: Rc<str>,
    pub subject_key: KeyKind,
    pub source_type: Rc<str>,
    pub source_key: KeyKind,
    pub declared: Rc<Declared>,
}

/// The data with which a session captures the rows of one table.
pub struct CapturedColumns {
    pub attributes: Vec<CapturedAttribute>,
    /// Owner of the claimed table. The conditions and the casts to text are this role's code.
    pub owner: Oid,
    /// One of the attributes has a condition, which may refer to any column.
    pub has_conditions: bool,
    /// Whether the statement must run under fixed settings, so that its result is the same in every session.
    pub depends_on_settings: bool,
    /// Returns three columns for each attribute: the value (NULL if the condition is not true), the subject, and the source.
    /// Subject and source are int8 or text. It takes columns of its argument, a row, and never the whole row.
    pub statement: Option<Prepared>,
}

/// The declarations of one table.
pub struct Captured {
    /// Those that are enforced for all names.
    pub enforced: CapturedColumns,
    /// Those that are observed for some names, each by itself, so that an error of one does not concern another.
    pub observed: Vec<CapturedColumns>,
    /// Observed declarations that cannot be captured any more.
    pub unusable: Vec<Rc<Declared>>,
    /// All declarations, also those that are off.
    pub declared: Vec<Rc<Declared>>,
}

/// The reason why a claimed column can no longer be captured.
pub enum UnusableAttribute {
    /// The column or one of its keys does not exist.
    Missing { table: String, attribute: String },
    /// The type of the column or of one of its keys was changed to one whose text depends on settings.
    NoFixedText { table: String, attribute: String, type_name: String },
    /// A condition names an object that no longer exists.
    ConditionLost { table: String, error: Caught },
}

thread_local! {
    static CAPTURED: RelationCache<Captured> = const { RelationCache::new() };
}

fn relation(connection: &Connection) -> Oid {
    connection.run(&RELATION, View::Latest, []).first(|row| row.get(1)).flatten().unwrap_or(Oid::INVALID)
}

/// Returns the claimed columns of a table, as committed now or changed by this transaction. `row_type` is the table's row type.
/// `pinned` returns the enforcement that a declaration has had in this transaction, if that is to stay.
pub fn captured(
    connection: &Connection,
    table: Oid,
    row_type: Oid,
    pinned: impl Fn(&Declared) -> Option<Enforcement>,
) -> Result<Rc<Captured>, UnusableAttribute> {
    match CAPTURED.with(|all| all.get(table)) {
        Some(captured) => Ok(captured),
        None => load(connection, table, row_type, pinned),
    }
}

/// Forgets what [`captured`] has returned, because it was pinned for the transaction that has ended.
pub fn forget_captured(table: Oid) {
    CAPTURED.with(|all| all.remove(table));
}

/// Returns the claimed columns of a table if this session has cached them.
pub fn captured_if_cached(table: Oid) -> Option<Rc<Captured>> {
    CAPTURED.with(|all| all.get(table))
}

fn load(
    connection: &Connection,
    table: Oid,
    row_type: Oid,
    pinned: impl Fn(&Declared) -> Option<Enforcement>,
) -> Result<Rc<Captured>, UnusableAttribute> {
    let fresh = [Freshness::of(table), Freshness::of(relation(connection))];
    let rows = connection.run(&ATTRIBUTES, View::Latest, [table.into()]);
    let owner = rows.first(|row| row.must(2)).unwrap_or(Oid::INVALID);
    let read = |row: Row| {
        let declared = Rc::new(declared(&row, &pinned));
        (declared.clone(), ColumnRow::read(&row, declared))
    };
    let all = rows.map(read);
    let row = connection.run(&ROW, View::Latest, [table.into()]).first(|row| row.get::<String>(1)).flatten();
    let prepare = |columns, is_lost| prepared_columns(connection, owner, row_type, row.as_deref(), columns, is_lost);
    let (mut enforced, mut observed) = (Vec::new(), Vec::new());
    let (mut unusable, mut of_table) = (Vec::new(), Vec::new());
    for (declared, column) in all {
        of_table.push(declared.clone());
        match declared.enforcement.of_all() {
            Some(Mode::Off) => {}
            Some(Mode::Enforce) => enforced.push(column?),
            _ => match column.and_then(|column| prepare(vec![column], Caught::may_be_ignored)) {
                Ok(columns) => observed.push(columns),
                Err(_) => unusable.push(declared),
            },
        }
    }
    let captured =
        Captured { enforced: prepare(enforced, Caught::is_undefined_object)?, observed, unusable, declared: of_table };
    Ok(CAPTURED.with(|all| all.put(table, fresh, captured)))
}

/// Reads the names and the enforcement of a declaration.
fn declared(row: &Row, pinned: impl Fn(&Declared) -> Option<Enforcement>) -> Declared {
    let mode = row.get::<String>(29).and_then(|mode| Mode::named(&mode)).unwrap_or(Mode::Enforce);
    let below = row.get::<i64>(30).and_then(|below| u32::try_from(below).ok()).unwrap_or(POSITIONS);
    let declared = Declared {
        table: row.must::<Oid>(25).to_u32(),
        schema_name: row.must(26),
        table_name: row.must(4),
        column_name: row.must(3),
        quoted_column: row.must(5),
        name: row.must(27),
        constraint_name: row.must(28),
        enforcement: Enforcement::new(mode, below),
        owner: row.must::<Oid>(2).to_u32(),
        approval: Approval { owner: row.get::<Oid>(31).map(Oid::to_u32), cell_id: row.get(32) },
    };
    Declared { enforcement: pinned(&declared).unwrap_or(declared.enforcement), ..declared }
}

/// Prepares the statement that computes some declarations. `row` is the select list of [`ROW`]. `is_lost` says which errors mean that a
/// condition cannot be evaluated any more; others are raised.
fn prepared_columns(
    connection: &Connection,
    owner: Oid,
    row_type: Oid,
    row: Option<&str>,
    columns: Vec<ColumnRow>,
    is_lost: fn(&Caught) -> bool,
) -> Result<CapturedColumns, UnusableAttribute> {
    // Parsing evaluates literals, which can call the owner's input functions and depend on settings.
    let prepare = |text| restricted_as(owner, || with_fixed_text(|| Prepared::new(connection, text, &[row_type])));
    let text = row.and_then(|row| statement_text(&columns, row));
    let statement = match text.map(|text| attempt(|| Ok::<_, Infallible>(prepare(text)))) {
        None => None,
        Some(Ok(prepared)) => Some(prepared),
        Some(Err(Stopped::ByBody(never))) => match never {},
        Some(Err(Stopped::ByError(error))) if is_lost(&error) => {
            let table = columns.first().map(|column| column.attribute.declared.table_name.clone());
            return Err(UnusableAttribute::ConditionLost { table: table.unwrap_or_default(), error });
        }
        Some(Err(Stopped::ByError(error))) => error.rethrow(),
    };
    Ok(CapturedColumns {
        owner,
        has_conditions: columns.iter().any(|column| column.condition.is_some()),
        depends_on_settings: statement.as_ref().is_some_and(Prepared::depends_on_settings),
        statement,
        attributes: columns.into_iter().map(|column| column.attribute).collect(),
    })
}

struct ColumnRow {
    /// Quoted names: the table, the column, the subject key, the source key.
    names: [String; 4],
    condition: Option<String>,
    attribute: CapturedAttribute,
}

impl ColumnRow {
    fn read(row: &Row, declared: Rc<Declared>) -> Result<Self, UnusableAttribute> {
        let number = |column: i32| row.get::<i32>(column).and_then(|n| NonZeroUsize::new(n.unsigned_abs() as usize));
        let (Some(value), Some(subject), Some(source)) = (number(12), number(13), number(14)) else {
            return Err(UnusableAttribute::Missing { attribute: row.must(3), table: row.must(4) });
        };
        // For each of the three columns: the positions of its name, of `has_fixed_text`, and of its type.
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
            attribute: CapturedAttribute {
                columns: [(row.must(3), value), (row.must(19), subject), (row.must(22), source)],
                bucket_type: type_name(8),
                subject_type: type_name(9),
                subject_key: kind(17),
                source_type: type_name(10),
                source_key: kind(18),
                declared,
            },
        })
    }
}

/// Builds the statement that computes the attributes of row $1. Conditions refer to the row by the claimed table's name.
/// All names but those of the row's columns are schema-qualified, so the search_path does not matter.
fn statement_text(columns: &[ColumnRow], row: &str) -> Option<String> {
    let table = &columns.first()?.names[0];
    let values: Vec<_> = columns
        .iter()
        .map(|ColumnRow { names: [table, value, subject, source], condition, attribute, .. }| {
            let [subject_type, source_type] = [attribute.subject_key, attribute.source_key].map(result_type);
            let condition = condition.as_deref().unwrap_or("true");
            format!(
                "CASE WHEN ({condition}) THEN {table}.{value}::pg_catalog.text END, \
                 {table}.{subject}::{subject_type}, {table}.{source}::{source_type}"
            )
        })
        .collect();
    Some(format!("SELECT {} FROM (SELECT {row}) AS {table}", values.join(", ")))
}

/// Returns the type as which a key is selected.
fn result_type(key: KeyKind) -> &'static str {
    match key {
        KeyKind::Integer => "pg_catalog.int8",
        KeyKind::Uuid | KeyKind::Text => "pg_catalog.text",
    }
}

/// Queues the deferred trigger for the end of this transaction.
pub fn enqueue(connection: &Connection) {
    connection.run(&ENQUEUE, View::Statement, []);
}

/// Queues the deferred trigger again, behind all deferred triggers that are queued now, if there were changes since the row
/// was last written. Returns whether it did; the first call always does.
pub fn requeue(connection: &Connection, ctid: Value, changes: i64) -> bool {
    connection.run(&REQUEUE, View::Statement, [ctid, changes.into()]).count() > 0
}

/// Deletes the row of the deferred trigger.
pub fn dequeue(connection: &Connection, ctid: Value) {
    connection.run(&DEQUEUE, View::Statement, [ctid]);
}
