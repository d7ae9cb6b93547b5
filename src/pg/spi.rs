//! Statements with cached plans, through SPI.
//!
//! pgrx' own client takes a transaction id before it writes or reads "one" value, has no generic plans and no choice of
//! snapshot; those three are why this exists. Statements are declared with [`statement!`] in `store`, prepared at their
//! first use in a session, and kept. Postgres plans them again by itself when a table changes, also when the extension
//! was dropped and made anew.

use std::ffi::CString;
use std::marker::PhantomData;
use std::thread::LocalKey;

use super::gate;
use super::statement::Statement;
use pgrx::pg_sys;
use pgrx::{FromDatum, IntoDatum};

/// What a statement sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A statement of its own: under READ COMMITTED a new snapshot, and everything this transaction did so far.
    Statement,
    /// What the calling query sees. For functions that only read: takes no transaction id, works on a standby.
    Caller,
    /// What is committed right now, whatever the isolation level. For questions that an old snapshot answers wrongly.
    Latest,
    /// The same for a statement that writes: rows that came or changed since the transaction's snapshot are no conflict.
    LatestToWrite,
}

/// An open SPI connection.
pub struct Connection {
    not_send: PhantomData<*mut ()>,
}

/// Runs `body` with SPI connected, past the gate. After an error Postgres closes the connection itself.
pub fn connect<T>(body: impl FnOnce(&Connection) -> T) -> T {
    gate::pass();
    // SAFETY: connect and finish are paired on the way without errors. `body`'s result lives in Rust's memory, not in
    // that of SPI, because rows are converted to owned values.
    unsafe { pg_sys::SPI_connect() };
    let result = body(&Connection { not_send: PhantomData });
    unsafe { pg_sys::SPI_finish() };
    result
}

/// One argument of a statement.
pub struct Value {
    datum: Option<pg_sys::Datum>,
    type_oid: pg_sys::Oid,
}

impl Value {
    /// A value whose type is only known at run time.
    pub(super) fn of_type(datum: pg_sys::Datum, type_oid: pg_sys::Oid) -> Self {
        Value { datum: Some(datum), type_oid }
    }

    /// As SPI takes it: the datum, and whether it is null.
    pub(super) fn into_parts(self) -> (pg_sys::Datum, std::ffi::c_char) {
        let null = if self.datum.is_none() { b'n' } else { b' ' };
        (self.datum.unwrap_or_else(|| pg_sys::Datum::from(0)), null as std::ffi::c_char)
    }
}

impl<T: IntoDatum> From<T> for Value {
    fn from(value: T) -> Self {
        Value { datum: value.into_datum(), type_oid: T::type_oid() }
    }
}

impl Connection {
    /// Executes a statement and returns its rows.
    pub fn run(
        &self,
        statement: &'static LocalKey<Statement>,
        view: View,
        values: impl IntoIterator<Item = Value>,
    ) -> Rows {
        statement.with(|statement| self.execute(statement, view, values))
    }

    fn execute(&self, statement: &Statement, view: View, values: impl IntoIterator<Item = Value>) -> Rows {
        let mut datums = Vec::with_capacity(statement.argument_types().len());
        let mut nulls: Vec<std::ffi::c_char> = Vec::with_capacity(statement.argument_types().len());
        for (value, wanted) in values.into_iter().zip(statement.argument_types()) {
            debug_assert_eq!(value.type_oid, *wanted, "{:?}", statement.text());
            nulls.push(if value.datum.is_none() { b'n' } else { b' ' } as std::ffi::c_char);
            datums.push(value.datum.unwrap_or_else(|| pg_sys::Datum::from(0)));
        }
        assert_eq!(datums.len(), statement.argument_types().len(), "{:?}", statement.text());
        // SAFETY: the plan is valid and kept, the arrays have as many elements as it has arguments.
        statement.with_plan(|plan| unsafe {
            let status = match view {
                View::Statement => pg_sys::SPI_execute_plan(plan, datums.as_mut_ptr(), nulls.as_ptr(), false, 0),
                View::Caller => pg_sys::SPI_execute_plan(plan, datums.as_mut_ptr(), nulls.as_ptr(), true, 0),
                View::Latest | View::LatestToWrite => pg_sys::SPI_execute_snapshot(
                    plan,
                    datums.as_mut_ptr(),
                    nulls.as_ptr(),
                    latest_snapshot(),
                    std::ptr::null_mut(),
                    view == View::Latest,
                    true,
                    0,
                ),
            };
            rows_of(status, statement.text())
        })
    }
}

impl Connection {
    /// Executes a statement whose text is only known now, planned for this one time.
    pub fn run_text(&self, text: &str, values: impl IntoIterator<Item = Value>) -> Rows {
        let terminated = CString::new(text).unwrap_or_default();
        let values: Vec<Value> = values.into_iter().collect();
        let mut types: Vec<_> = values.iter().map(|value| value.type_oid).collect();
        let mut datums: Vec<_> = values.iter().map(|value| value.datum.unwrap_or_else(|| 0.into())).collect();
        let nulls: Vec<_> = values.iter().map(|value| if value.datum.is_none() { b'n' } else { b' ' } as _).collect();
        // SAFETY: the arrays have one element for each value and live as long as the call; SPI is connected.
        unsafe {
            let count = i32::try_from(values.len()).unwrap_or(0);
            let (types, datums) = (types.as_mut_ptr(), datums.as_mut_ptr());
            let status =
                pg_sys::SPI_execute_with_args(terminated.as_ptr(), count, types, datums, nulls.as_ptr(), false, 0);
            rows_of(status, text)
        }
    }
}

/// The rows of the statement that was executed last.
///
/// # Safety
/// Nothing else may have been executed since it returned `status`.
pub(super) unsafe fn rows_of(status: i32, text: &str) -> Rows {
    if status <= 0 {
        pgrx::error!("SPI failed with {status}: {text}");
    }
    // SAFETY: by the caller.
    unsafe { Rows { table: pg_sys::SPI_tuptable, count: pg_sys::SPI_processed as usize } }
}

/// What is committed now, and what this transaction did. While a parallel plan runs Postgres refuses to make its
/// secondary snapshot; the one it reads its own catalogs by shows the same, once it is made anew.
///
/// # Safety
/// The snapshot is to be used at once: the next call for one overwrites it.
unsafe fn latest_snapshot() -> pg_sys::Snapshot {
    unsafe {
        if pg_sys::IsInParallelMode() {
            pg_sys::InvalidateCatalogSnapshot();
            pg_sys::GetCatalogSnapshot(pg_sys::RelationRelationId)
        } else {
            pg_sys::GetLatestSnapshot()
        }
    }
}

/// The rows of a statement, freed with this value or, after an error, with the connection.
pub struct Rows {
    table: *mut pg_sys::SPITupleTable,
    count: usize,
}

impl Rows {
    /// How many rows there are, or were written.
    pub fn count(&self) -> usize {
        self.count
    }

    /// All rows, converted.
    pub fn map<T>(&self, convert: impl FnMut(Row) -> T) -> Vec<T> {
        (0..self.count).map(|index| Row { rows: self, index }).map(convert).collect()
    }

    /// The first row, converted.
    pub fn first<T>(&self, convert: impl FnOnce(Row) -> T) -> Option<T> {
        (self.count > 0).then(|| convert(Row { rows: self, index: 0 }))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // While unwinding, the (sub)transaction's end has freed the table or is about to.
        if !self.table.is_null() && !std::thread::panicking() {
            // SAFETY: the table is the one that SPI handed out.
            unsafe { pg_sys::SPI_freetuptable(self.table) };
        }
    }
}

/// One row.
pub struct Row<'r> {
    rows: &'r Rows,
    index: usize,
}

impl Row<'_> {
    /// A column, counted from 1; `None` is NULL.
    pub fn get<T: FromDatum>(&self, column: i32) -> Option<T> {
        // SAFETY: `index` is below the number of rows in the table; T is the column's type by the statement's text.
        unsafe {
            let table = &*self.rows.table;
            let tuple = *table.vals.add(self.index);
            let mut is_null = false;
            let datum = pg_sys::SPI_getbinval(tuple, table.tupdesc, column, &mut is_null);
            T::from_datum(datum, is_null)
        }
    }

    /// A column that is declared NOT NULL, or counted.
    pub fn must<T: FromDatum>(&self, column: i32) -> T {
        self.get(column).unwrap_or_else(|| panic!("column {column} is null"))
    }
}

impl Value {
    /// Type, datum and whether it is null, as SPI takes them.
    pub(super) fn raw(&self) -> (pg_sys::Oid, pg_sys::Datum, std::ffi::c_char) {
        let null = if self.datum.is_none() { b'n' } else { b' ' };
        (self.type_oid, self.datum.unwrap_or_else(|| pg_sys::Datum::from(0)), null as std::ffi::c_char)
    }
}

impl Rows {
    /// Takes the rows that SPI fetched last, and hands every one over; returns how many there were.
    pub(super) fn fetched(mut each: impl FnMut(Row)) -> usize {
        // SAFETY: SPI hands a table out once, to whoever called it last.
        let rows = unsafe { Rows { table: pg_sys::SPI_tuptable, count: pg_sys::SPI_processed as usize } };
        (0..rows.count).for_each(|index| each(Row { rows: &rows, index }));
        rows.count
    }
}
