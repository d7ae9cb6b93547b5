//! The unique columns of a table, which a session caches.

use std::num::NonZeroUsize;
use std::rc::Rc;

use claims_model::capture::READ_BYTES;
use claims_model::origin::{Approval, Declared};
use pgrx::pg_sys::Oid;

use super::errors::UniqueError;
use crate::cell::claimed::attributes;
use crate::cell::claimed::unique_tables::{self, UniqueColumnRow};
use crate::kernel::error::ClaimsError;
use pg::cache::{Freshness, RelationCache};
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
    pub has_conditions: bool,
    /// Owner of the table that add_unique() named. Conditions and casts to text are this role's code.
    owner: Oid,
    /// Returns the value of each column for a row: NULL if the condition is not true.
    statement: Option<Prepared>,
    depends_on_settings: bool,
}

thread_local! {
    static CACHED: RelationCache<UniqueColumns> = const { RelationCache::new() };
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
    unique_tables::know_columns(connection);
    let mut rows = unique_tables::columns(connection, table);
    // The event trigger that begins generations may have been disabled when the partition was made.
    for row in rows.iter().filter(|row| row.generation.is_none()) {
        unique_tables::begin_incomplete(connection, row.type_id, table);
    }
    // The owner and the name of the table of a constraint can change without its partitions.
    let roots = rows.iter().map(|row| row.root).filter(|root| *root != table);
    let since: Vec<_> =
        [table, unique_tables::watched(connection)].into_iter().chain(roots).map(Freshness::of).collect();
    rows = unique_tables::columns(connection, table);
    let statement = rows.first().map(|first| {
        let fields = attributes::row_as_in(connection, first.root).flatten().unwrap_or_default();
        let values: Vec<_> = rows.iter().map(UniqueColumnRow::value_expression).collect();
        let text = format!("SELECT {} FROM (SELECT {fields}) AS {}", values.join(", "), first.quoted_root);
        restricted_as(first.owner, || with_fixed_text(|| Prepared::new(connection, text, &[row_type])))
    });
    let columns = UniqueColumns {
        has_conditions: rows.iter().any(|row| row.condition.is_some()),
        owner: rows.first().map_or(Oid::INVALID, |first| first.owner),
        depends_on_settings: statement.as_ref().is_some_and(Prepared::depends_on_settings),
        statement,
        columns: rows.into_iter().map(column).collect::<Result<_, _>>()?,
    };
    Ok(CACHED.with(|all| all.put(table, since, columns)))
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

fn column(row: UniqueColumnRow) -> Result<UniqueColumn, ClaimsError> {
    let number = row.number.and_then(|number| NonZeroUsize::new(number.unsigned_abs() as usize));
    let (Some(number), Some(generation)) = (number, row.generation) else {
        return Err(UniqueError::NoColumn { name: row.name, table: row.root_name, column: row.column_name }.into());
    };
    if row.has_unique_text != Some(true) {
        let type_name = row.type_name.unwrap_or_default();
        return Err(UniqueError::UnfitColumn { column: row.column_name, type_name }.into());
    }
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
    Ok(UniqueColumn {
        name: row.name.into(),
        number,
        generation,
        declared: Rc::new(declared),
        is_converted: row.is_citext,
    })
}

impl UniqueColumns {
    /// Returns the values of a version of a row that need no statement: `None` if one needs it.
    pub fn stored(&self, version: RowVersion) -> Option<Vec<Option<BoundedText>>> {
        if self.has_conditions {
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
        let statement = self.statement.as_ref()?;
        let read = || {
            let found = statement.run(connection, [version.value_as_stored()]);
            found.first(|row| values_of(&row, self.columns.len()).collect())
        };
        restricted_as(self.owner, || if self.depends_on_settings { with_fixed_text(read) } else { read() })
    }
}
