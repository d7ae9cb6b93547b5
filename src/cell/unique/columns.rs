//! The unique columns of a table, which a session caches.

use std::cell::OnceCell;
use std::num::NonZeroUsize;
use std::rc::Rc;

use claims_model::capture::READ_BYTES;
use claims_model::origin::{Approval, Declared};
use pgrx::pg_sys::Oid;

use super::errors::UniqueError;
use crate::cell::claimed::attributes;
use crate::cell::claimed::unique_members::{self, MemberOf};
use crate::cell::claimed::unique_tables::{self, UniqueColumnRow};
use crate::kernel::error::ClaimsError;
use pg::cache::{Freshness, MOST_PLANS, RelationCache};
use pg::owner::restricted_as;
use pg::prepared::Prepared;
use pg::settings::with_fixed_text;
use pg::spi::{Connection, Row};
use pg::stored::BoundedText;
use pg::trigger::{PlainValue, RowVersion};

/// A unique column of a table.
pub struct UniqueColumn {
    /// Name of the constraint, and of its types.
    pub name: Rc<str>,
    pub number: NonZeroUsize,
    /// The source of the table's claims.
    pub generation: i64,
    pub declared: Rc<Declared>,
    /// Whether the stored value has to be converted before it is compared.
    is_converted: bool,
}

/// The unique columns of one table.
pub struct UniqueColumns {
    pub columns: Vec<UniqueColumn>,
    row_type: Oid,
    of_root: Rc<ColumnsOfRoot>,
    /// Computes the values of rows that cannot be taken as they are stored.
    statement: OnceCell<ValuesStatement>,
}

/// Returns the value of each column for a row: NULL if the condition is not true.
struct ValuesStatement {
    prepared: Prepared,
    depends_on_settings: bool,
}

/// The unique columns of a table that add_unique() named, which all of its partitions share.
#[derive(Default)]
struct ColumnsOfRoot {
    columns: Vec<ColumnOfRoot>,
    has_conditions: bool,
    root: Oid,
    quoted_root: String,
    /// Owner of the table. Conditions and casts to text are this role's code.
    owner: Oid,
}

struct ColumnOfRoot {
    type_id: i32,
    name: Rc<str>,
    declared: Rc<Declared>,
    expression: String,
    is_converted: bool,
    /// The type of a column whose values cannot be compared.
    unfit: Option<String>,
}

/// A session that writes more tables in turn reads their columns again and again. Those of a unique with a condition, or of citext, have a statement of
/// some 20 kB each.
const MOST_TABLES: usize = 2_000;

thread_local! {
    static CACHED: RelationCache<UniqueColumns> = const { RelationCache::new(MOST_TABLES) };
    static ROOTS: RelationCache<ColumnsOfRoot> = const { RelationCache::new(MOST_PLANS) };
}

/// Returns the unique columns of a table if this session has cached them.
pub fn if_cached(table: Oid) -> Option<Rc<UniqueColumns>> {
    CACHED.with(|all| all.get(table))
}

/// Returns the unique columns of a table, as committed now or changed by this transaction. `row_type` is the table's row type.
pub fn of(connection: &Connection, table: Oid, row_type: Oid) -> Result<Rc<UniqueColumns>, ClaimsError> {
    if let Some(cached) = if_cached(table) {
        return Ok(cached);
    }
    unique_members::know_columns(connection);
    let watched = [unique_tables::watched(connection), unique_members::watched(connection)];
    let read = || (fresh_of(table, watched), unique_members::members_of(connection, table));
    let (mut of_table, mut members) = read();
    // The event trigger that begins generations may have been disabled when the partition was made.
    if members.iter().any(|member| member.generation.is_none()) {
        for member in members.iter().filter(|member| member.generation.is_none()) {
            unique_tables::begin_incomplete(connection, member.type_id, table);
        }
        (of_table, members) = read();
    }
    // The owner and the name of the table of a constraint can change without its partitions.
    let of_root = members.first().map(|member| member.root);
    let fresh: Vec<_> = of_table.into_iter().chain(of_root.map(Freshness::of)).collect();
    let of_root = of_root.map_or_else(Rc::default, |root| columns_of_root(connection, root, watched));
    let columns = members.iter().filter_map(|member| column(&of_root, member).transpose()).collect::<Result<_, _>>()?;
    let columns = UniqueColumns { columns, row_type, of_root, statement: OnceCell::new() };
    Ok(CACHED.with(|all| all.put(table, fresh, columns)))
}

/// Requests the flags of what a table's unique columns are read from: the table, and the tables of uniques.
fn fresh_of(table: Oid, watched: [Oid; 2]) -> [Freshness; 3] {
    [table, watched[0], watched[1]].map(Freshness::of)
}

/// Returns the unique columns of a table that add_unique() named.
fn columns_of_root(connection: &Connection, root: Oid, watched: [Oid; 2]) -> Rc<ColumnsOfRoot> {
    if let Some(cached) = ROOTS.with(|all| all.get(root)) {
        return cached;
    }
    let fresh = fresh_of(root, watched);
    let rows: Vec<_> = unique_tables::columns(connection, root).into_iter().filter(|row| row.root == root).collect();
    let columns = ColumnsOfRoot {
        has_conditions: rows.iter().any(|row| row.condition.is_some()),
        root,
        quoted_root: rows.first().map_or_else(String::new, |first| first.quoted_root.clone()),
        owner: rows.first().map_or(Oid::INVALID, |first| first.owner),
        columns: rows.into_iter().map(ColumnOfRoot::from).collect(),
    };
    ROOTS.with(|all| all.put(root, fresh, columns))
}

/// Returns the values that a statement has computed for a row.
pub fn values_of(row: &Row, count: usize) -> impl Iterator<Item = Option<BoundedText>> {
    (1..).take(count).map(|at| row.get_bounded(at, READ_BYTES))
}

impl UniqueColumnRow {
    /// Builds the expression for the value of a row of the table.
    pub fn value_expression(&self) -> String {
        value_expression(&self.quoted_root, &self.quoted_column, self.is_citext, self.condition.as_deref())
    }
}

/// Builds the expression for the value of a row, which is NULL if the row is not compared. All names but those of the row's columns are
/// schema-qualified, so the search_path does not matter.
pub fn value_expression(quoted_table: &str, quoted_column: &str, is_citext: bool, condition: Option<&str>) -> String {
    let text = format!("{quoted_table}.{quoted_column}::pg_catalog.text");
    let value = if is_citext { format!("pg_catalog.lower({text} COLLATE pg_catalog.\"default\")") } else { text };
    match condition {
        Some(condition) => format!("CASE WHEN ({condition}) THEN {value} END"),
        None => value,
    }
}

impl From<UniqueColumnRow> for ColumnOfRoot {
    fn from(row: UniqueColumnRow) -> Self {
        let (expression, is_fit) = (row.value_expression(), row.has_unique_text == Some(true));
        let declared = Declared {
            table: row.root.to_u32(),
            schema_name: row.schema_name,
            table_name: row.root_name,
            column_name: row.column_name,
            quoted_column: row.quoted_column,
            name: row.name.clone(),
            constraint_name: row.name.clone(),
            owner: row.owner.to_u32(),
            // The constraint is an administrator's, whoever owns the table.
            approval: Approval { owner: Some(row.owner.to_u32()), cell_id: None },
            ..Declared::default()
        };
        ColumnOfRoot {
            type_id: row.type_id,
            name: row.name.into(),
            declared: Rc::new(declared),
            expression,
            is_converted: row.is_citext,
            unfit: (!is_fit).then(|| row.type_name.unwrap_or_default()),
        }
    }
}

/// Returns a unique column of a table. `None`: it has just been dropped.
fn column(of_root: &ColumnsOfRoot, member: &MemberOf) -> Result<Option<UniqueColumn>, ClaimsError> {
    let Some(column) = of_root.columns.iter().find(|column| column.type_id == member.type_id) else { return Ok(None) };
    let ColumnOfRoot { name, declared, is_converted, .. } = column;
    let number = member.number.and_then(|number| NonZeroUsize::new(number.unsigned_abs() as usize));
    let (Some(number), Some(generation)) = (number, member.generation) else {
        let (table, column) = (declared.table_name.clone(), declared.column_name.clone());
        return Err(UniqueError::NoColumn { name: name.to_string(), table, column }.into());
    };
    if let Some(type_name) = column.unfit.clone() {
        return Err(UniqueError::UnfitColumn { column: declared.column_name.clone(), type_name }.into());
    }
    let (name, declared) = (name.clone(), declared.clone());
    Ok(Some(UniqueColumn { name, number, generation, declared, is_converted: *is_converted }))
}

impl UniqueColumns {
    pub fn has_conditions(&self) -> bool {
        self.of_root.has_conditions
    }

    /// Returns the values of a version of a row that need no statement: `None` if one needs it.
    pub fn stored(&self, version: RowVersion) -> Option<Vec<Option<BoundedText>>> {
        if self.has_conditions() {
            return None;
        }
        let value = |column: &UniqueColumn| match version.plain_value(column.number, READ_BYTES) {
            PlainValue::Null => Some(None),
            PlainValue::Number(number) => Some(Some(BoundedText::Text(number.to_string()))),
            PlainValue::Text(text) if !column.is_converted => Some(Some(text)),
            _ => None,
        };
        self.columns.iter().map(value).collect()
    }

    /// Evaluates the values of a version of a row.
    pub fn evaluated(&self, connection: &Connection, version: RowVersion) -> Option<Vec<Option<BoundedText>>> {
        if self.columns.is_empty() {
            return None;
        }
        let ValuesStatement { prepared, depends_on_settings } = match self.statement.get() {
            Some(statement) => statement,
            None => {
                let new = self.prepare(connection);
                self.statement.get_or_init(|| new)
            }
        };
        let read = || {
            let found = prepared.run(connection, [version.value_as_stored()]);
            found.first(|row| values_of(&row, self.columns.len()).collect())
        };
        restricted_as(self.of_root.owner, || if *depends_on_settings { with_fixed_text(read) } else { read() })
    }

    fn prepare(&self, connection: &Connection) -> ValuesStatement {
        let ColumnsOfRoot { columns, root, quoted_root, owner, .. } = &*self.of_root;
        let fields = attributes::row_as_in(connection, *root).flatten().unwrap_or_default();
        let is_own = |column: &&ColumnOfRoot| self.columns.iter().any(|own| own.name == column.name);
        let values: Vec<_> = columns.iter().filter(is_own).map(|column| column.expression.as_str()).collect();
        let text = format!("SELECT {} FROM (SELECT {fields}) AS {quoted_root}", values.join(", "));
        let prepare = || with_fixed_text(|| Prepared::new(connection, text, &[self.row_type]));
        let prepared = restricted_as(*owner, prepare);
        ValuesStatement { depends_on_settings: prepared.depends_on_settings(), prepared }
    }
}
