//! Statements on claimed attributes, and a cache of the attributes of each captured table.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::rc::Rc;

use claims_model::enforcement::{Enforcement, EnforcementMode};
use claims_model::origin::{Approval, Declared};
use pgrx::pg_sys::Oid;

use super::keys::{KeyKind, base_type};
use pg::cache::{Freshness, MOST_PLANS, RelationCache};
use pg::owner::restricted_as;
use pg::prepared::Prepared;
use pg::query::{query, record};
use pg::settings::with_fixed_text;
use pg::spi::Connection;
use pg::subtransaction::{Caught, Stopped, attempt};
use pg::trigger::Tid;

record! {
    /// A declaration of a claimed column, and what the catalog says about the columns of the value, the subject and the source. A column that
    /// does not exist has no number.
    struct CapturedDeclaration {
        table_oid: Oid,
        schema_name: String,
        relname: String,
        quoted_table: String,
        relowner: Oid,
        bucket_type: String,
        subject_type: String,
        source_type: String,
        condition: Option<String>,
        declaration: String,
        constraint_name: String,
        enforcement: Option<String>,
        /// The share of names, in ten thousandths.
        share: Option<i64>,
        approved_owner: Option<Oid>,
        approved_cell: Option<i64>,
        attribute: String,
        quoted_attribute: String,
        value_number: Option<i32>,
        value_has_fixed_text: Option<bool>,
        value_type: Option<String>,
        subject_key: String,
        quoted_subject_key: String,
        subject_number: Option<i32>,
        subject_has_fixed_text: Option<bool>,
        subject_key_type: Option<String>,
        /// The type beneath all domains.
        subject_base_type: Option<Oid>,
        source_key: String,
        quoted_source_key: String,
        source_number: Option<i32>,
        source_has_fixed_text: Option<bool>,
        source_key_type: Option<String>,
        source_base_type: Option<Oid>,
    }
}

query! {
    fn relation() -> Option<Option<Oid>> = [Latest] "SELECT to_regclass('claims.claimed_attributes')::oid";
    /// Reads the claimed columns of a table, or of the partitioned table that it belongs to. A virtual generated column counts as missing,
    /// because triggers do not get its values.
    fn declarations(table: Oid) -> Vec<CapturedDeclaration> = [Latest] concat!(
        "SELECT c.oid AS table_oid, n.nspname::text AS schema_name, c.relname::text, quote_ident(c.relname) AS quoted_table, c.relowner,
                a.bucket_type, a.subject_type, a.source_type, a.condition, a.declaration::text, a.constraint_name::text, a.enforcement,
                round(a.share * 10000)::int8 AS share, a.approved_owner::oid, a.approved_cell,
                a.attribute::text, quote_ident(a.attribute::text) AS quoted_attribute, v.attnum::int AS value_number,
                claims.has_fixed_text(v.atttypid) AS value_has_fixed_text, format_type(v.atttypid, NULL) AS value_type,
                a.subject_key::text, quote_ident(a.subject_key::text) AS quoted_subject_key, s.attnum::int AS subject_number,
                claims.has_fixed_text(s.atttypid) AS subject_has_fixed_text, format_type(s.atttypid, NULL) AS subject_key_type,
                ", base_type!("s"), " AS subject_base_type,
                a.source_key::text, quote_ident(a.source_key::text) AS quoted_source_key, k.attnum::int AS source_number,
                claims.has_fixed_text(k.atttypid) AS source_has_fixed_text, format_type(k.atttypid, NULL) AS source_key_type,
                ", base_type!("k"), " AS source_base_type
           FROM claims.claimed_attributes a JOIN pg_class c ON c.oid = a.table_name JOIN pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN pg_attribute v ON v.attrelid = :table AND v.attname = a.attribute AND v.attnum > 0 AND NOT v.attisdropped AND v.attgenerated <> 'v'
           LEFT JOIN pg_attribute s ON s.attrelid = :table AND s.attname = a.subject_key AND s.attnum > 0 AND NOT s.attisdropped AND s.attgenerated <> 'v'
           LEFT JOIN pg_attribute k ON k.attrelid = :table AND k.attname = a.source_key AND k.attnum > 0 AND NOT k.attisdropped AND k.attgenerated <> 'v'
          WHERE a.table_name = :table OR a.table_name IN (SELECT p.relid FROM pg_partition_ancestors(:table) p)
          ORDER BY a.table_name, a.attribute, a.declaration");
    /// Builds the select list that turns a row of a partition, the parameter of the statement, into a row of the partitioned table `root`; for a
    /// row of `root` itself it changes nothing. A condition may refer to the whole row, so the columns are in the order of `root`.
    pub fn row_as_in(root: Oid) -> Option<Option<String>> = [Latest]
        "SELECT string_agg('($1).' || quote_ident(p.attname), ', ' ORDER BY p.attnum) FROM pg_attribute p
          WHERE p.attrelid = :root AND p.attnum > 0 AND NOT p.attisdropped";
    /// Queues the deferred trigger, which PostgreSQL calls at the end of the transaction.
    pub fn enqueue() = [Statement] "INSERT INTO claims.automatic_queue (changes) VALUES (0)";
    /// Queues the deferred trigger again, behind all deferred triggers that are queued now, if there were changes since the row was last
    /// written. Returns whether it did; the first call always does.
    pub fn requeue(ctid: Tid, changes: i64) -> bool = [Statement]
        "UPDATE claims.automatic_queue SET changes = :changes WHERE ctid = :ctid AND changes <> :changes";
    /// Deletes the row of the deferred trigger.
    pub fn dequeue(ctid: Tid) = [Statement] "DELETE FROM claims.automatic_queue WHERE ctid = :ctid";
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
    static CAPTURED: RelationCache<Captured> = const { RelationCache::new(MOST_PLANS) };
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
    let relation = relation(connection).flatten().unwrap_or(Oid::INVALID);
    let fresh = [Freshness::of(table), Freshness::of(relation)];
    let declarations = declarations(connection, table);
    let rows = CapturedRows {
        owner: declarations.first().map_or(Oid::INVALID, |first| first.relowner),
        row_type,
        select_list: declarations.first().and_then(|first| row_as_in(connection, first.table_oid).flatten()),
    };
    let prepare = |columns, is_lost| rows.prepare(connection, columns, is_lost);
    let (mut enforced, mut observed) = (Vec::new(), Vec::new());
    let (mut unusable, mut of_table) = (Vec::new(), Vec::new());
    for declaration in declarations {
        let declared = Rc::new(declared(&declaration, &pinned));
        let column = ClaimedColumn::new(declaration, declared.clone());
        of_table.push(declared.clone());
        match declared.enforcement.of_all() {
            Some(EnforcementMode::Off) => {}
            Some(EnforcementMode::Enforce) => enforced.push(column?),
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

/// Returns the names and the enforcement of a declaration.
fn declared(row: &CapturedDeclaration, pinned: impl Fn(&Declared) -> Option<Enforcement>) -> Declared {
    let declared = Declared {
        table: row.table_oid.to_u32(),
        schema_name: row.schema_name.clone(),
        table_name: row.relname.clone(),
        column_name: row.attribute.clone(),
        quoted_column: row.quoted_attribute.clone(),
        name: row.declaration.clone(),
        constraint_name: row.constraint_name.clone(),
        enforcement: Enforcement::stored(row.enforcement.as_deref(), row.share),
        owner: row.relowner.to_u32(),
        approval: Approval { owner: row.approved_owner.map(Oid::to_u32), cell_id: row.approved_cell },
    };
    Declared { enforcement: pinned(&declared).unwrap_or(declared.enforcement), ..declared }
}

/// The rows of a captured table, as the statements that compute declarations get them.
struct CapturedRows {
    owner: Oid,
    row_type: Oid,
    /// Turns a row of the table into one of the claimed table; see [`row_as_in`].
    select_list: Option<String>,
}

impl CapturedRows {
    /// Prepares the statement that computes some declarations. `is_lost` says which errors mean that a condition cannot be evaluated any
    /// more; others are raised.
    fn prepare(
        &self,
        connection: &Connection,
        columns: Vec<ClaimedColumn>,
        is_lost: fn(&Caught) -> bool,
    ) -> Result<CapturedColumns, UnusableAttribute> {
        // Parsing evaluates literals, which can call the owner's input functions and depend on settings.
        let prepare =
            |text| restricted_as(self.owner, || with_fixed_text(|| Prepared::new(connection, text, &[self.row_type])));
        let text = self.select_list.as_deref().and_then(|select_list| statement_text(&columns, select_list));
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
            owner: self.owner,
            has_conditions: columns.iter().any(|column| column.condition.is_some()),
            depends_on_settings: statement.as_ref().is_some_and(Prepared::depends_on_settings),
            statement,
            attributes: columns.into_iter().map(|column| column.attribute).collect(),
        })
    }
}

/// A claimed column that can be captured.
struct ClaimedColumn {
    quoted_table: String,
    /// The quoted columns of the value, the subject and the source.
    quoted: [String; 3],
    condition: Option<String>,
    attribute: CapturedAttribute,
}

impl ClaimedColumn {
    fn new(row: CapturedDeclaration, declared: Rc<Declared>) -> Result<Self, UnusableAttribute> {
        let number = |number: Option<i32>| number.and_then(|n| NonZeroUsize::new(n.unsigned_abs() as usize));
        let [Some(value), Some(subject), Some(source)] =
            [row.value_number, row.subject_number, row.source_number].map(number)
        else {
            return Err(UnusableAttribute::Missing { attribute: row.attribute, table: row.relname });
        };
        let types = [
            (&row.attribute, row.value_has_fixed_text, row.value_type),
            (&row.subject_key, row.subject_has_fixed_text, row.subject_key_type),
            (&row.source_key, row.source_has_fixed_text, row.source_key_type),
        ];
        if let Some((column, _, type_name)) = types.into_iter().find(|(_, is_fixed, _)| *is_fixed == Some(false)) {
            let (attribute, type_name) = (column.clone(), type_name.unwrap_or_default());
            return Err(UnusableAttribute::NoFixedText { attribute, table: row.relname, type_name });
        }
        Ok(ClaimedColumn {
            quoted_table: row.quoted_table,
            quoted: [row.quoted_attribute, row.quoted_subject_key, row.quoted_source_key],
            condition: row.condition,
            attribute: CapturedAttribute {
                columns: [(row.attribute, value), (row.subject_key, subject), (row.source_key, source)],
                bucket_type: row.bucket_type.into(),
                subject_type: row.subject_type.into(),
                subject_key: KeyKind::of(row.subject_base_type),
                source_type: row.source_type.into(),
                source_key: KeyKind::of(row.source_base_type),
                declared,
            },
        })
    }
}

/// Builds the statement that computes the attributes of a row, its parameter. Conditions refer to the row by the claimed table's name.
/// All names but those of the row's columns are schema-qualified, so the search_path does not matter.
fn statement_text(columns: &[ClaimedColumn], select_list: &str) -> Option<String> {
    let table = &columns.first()?.quoted_table;
    let values: Vec<_> = columns
        .iter()
        .map(|ClaimedColumn { quoted: [value, subject, source], condition, attribute, .. }| {
            let [subject_type, source_type] = [attribute.subject_key, attribute.source_key].map(result_type);
            let condition = condition.as_deref().unwrap_or("true");
            format!(
                "CASE WHEN ({condition}) THEN {table}.{value}::pg_catalog.text END, \
                 {table}.{subject}::{subject_type}, {table}.{source}::{source_type}"
            )
        })
        .collect();
    Some(format!("SELECT {} FROM (SELECT {select_list}) AS {table}", values.join(", ")))
}

/// Returns the type as which a key is selected.
fn result_type(key: KeyKind) -> &'static str {
    match key {
        KeyKind::Integer => "pg_catalog.int8",
        KeyKind::Uuid | KeyKind::Text => "pg_catalog.text",
    }
}
