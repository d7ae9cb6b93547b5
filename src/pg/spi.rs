//! Statements with cached plans, through SPI.
//!
//! pgrx' own client takes a transaction id even for reads of one value, has no generic plans and no choice of
//! snapshot; that is why this exists. Statements are declared with [`statement!`] in `store`, prepared at their
//! first use in a session, and kept. Postgres replans them by itself when a table changes, also when the extension
//! was dropped and created again.
//!
//! Safe code cannot read freed memory: the lifetime of rows keeps them in [`connect`]; a connection is used
//! only while it is the innermost; rows that a rolled-back subtransaction has read cannot be read any more; a column is read
//! only as its type, and an argument must be of the type that the plan takes. Violations are errors, in every build.
//! A table that its owner has altered meets the same looks ([`altered`]).

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::thread::LocalKey;

use super::altered::{self, Altered};
use super::gate;
use super::statement::{self, Statement};
use super::text::c_text;
use super::tuple::{attribute, name_of, width};
use super::value::Column;
pub use super::value::Value;
use pgrx::pg_sys;

/// The snapshot of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// As a separate statement: under READ COMMITTED a new snapshot, with all changes of this transaction so far.
    Statement,
    /// The snapshot of the calling query. For functions that only read: takes no transaction id, works on a standby.
    Caller,
    /// What is committed right now, whatever the isolation level. For questions that an old snapshot answers wrongly.
    Latest,
    /// The same for a statement that writes: rows inserted or changed since the transaction's snapshot are no conflict.
    LatestToWrite,
}

thread_local! {
    /// How many nested connections are open.
    static OPEN: Cell<u32> = const { Cell::new(0) };
    /// The subtransactions that were rolled back since the outermost connection was opened.
    static ROLLED_BACK: RefCell<Vec<pg_sys::SubTransactionId>> = const { RefCell::new(Vec::new()) };
}

/// An open SPI connection.
pub struct Connection {
    /// Its nesting level.
    level: u32,
    not_send: PhantomData<*mut ()>,
}

/// Runs `body` with SPI connected, after the check of [`gate`]. After an error Postgres closes the connection itself.
pub fn connect<T>(body: impl FnOnce(&Connection) -> T) -> T {
    gate::pass();
    // SAFETY: connect and finish are paired on the way without errors. `body`'s result lives in Rust's memory, not in
    // that of SPI, because rows are converted to owned values.
    unsafe { pg_sys::SPI_connect() };
    let counted = Counted::new();
    let result = body(&Connection { level: OPEN.get(), not_send: PhantomData });
    drop(counted);
    unsafe { pg_sys::SPI_finish() };
    result
}

/// Guard that counts a connection.
struct Counted;

impl Counted {
    fn new() -> Self {
        if OPEN.get() == 0 {
            ROLLED_BACK.with_borrow_mut(Vec::clear);
        }
        OPEN.set(OPEN.get() + 1);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.set(OPEN.get() - 1);
    }
}

/// Must be called after every rollback of a subtransaction that may have run statements: Postgres has freed their rows.
pub(super) fn rolled_back(subtransaction: pg_sys::SubTransactionId) {
    if OPEN.get() > 0 {
        ROLLED_BACK.with_borrow_mut(|all| all.push(subtransaction));
    }
}

/// Arguments as SPI takes them, borrowed from the values.
pub(super) struct StatementArguments {
    pub types: Vec<pg_sys::Oid>,
    pub datums: Vec<pg_sys::Datum>,
    pub nulls: Vec<std::ffi::c_char>,
    _values: Vec<Value>,
}

impl StatementArguments {
    pub(super) fn new(values: impl IntoIterator<Item = Value>) -> Self {
        let values: Vec<Value> = values.into_iter().collect();
        let (datums, nulls) = values.iter().map(Value::parts).unzip();
        StatementArguments { types: values.iter().map(Value::type_oid).collect(), datums, nulls, _values: values }
    }

    pub(super) fn count(&self) -> std::ffi::c_int {
        std::ffi::c_int::try_from(self.types.len()).unwrap_or_else(|_| panic!("too many arguments"))
    }

    /// Raises an error unless they are those that a plan takes.
    pub(super) fn must_be(&self, types: &[pg_sys::Oid], text: &str) {
        assert!(self.types == types, "arguments of types {:?} for {types:?}: {text}", self.types);
    }
}

impl Connection {
    /// Executes a statement and returns its rows.
    pub fn run(
        &self,
        statement: &'static LocalKey<Statement>,
        view: View,
        values: impl IntoIterator<Item = Value>,
    ) -> Rows<'_> {
        statement.with(|statement| self.run_made(statement, view, values))
    }

    /// The same of one that was made at run time.
    pub fn run_made(&self, statement: &Statement, view: View, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        statement::as_sent(|| self.execute_as_set(statement, view, values))
    }

    /// Executes a statement on a table of this node alone, a shard: nothing of it goes to other nodes.
    pub fn run_here(&self, statement: &Statement, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.execute_as_set(statement, View::Statement, values)
    }

    fn execute_as_set(&self, statement: &Statement, view: View, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.must_be_innermost();
        let mut arguments = StatementArguments::new(values);
        arguments.must_be(statement.argument_types(), statement.text());
        let (datums, nulls) = (arguments.datums.as_mut_ptr(), arguments.nulls.as_ptr());
        // SAFETY: the plan is valid and kept, the arrays have as many elements as it has arguments, of their types.
        let execute = |plan| unsafe {
            let status = match view {
                View::Statement => pg_sys::SPI_execute_plan(plan, datums, nulls, false, 0),
                View::Caller => pg_sys::SPI_execute_plan(plan, datums, nulls, true, 0),
                View::Latest | View::LatestToWrite => pg_sys::SPI_execute_snapshot(
                    plan,
                    datums,
                    nulls,
                    latest_snapshot(),
                    std::ptr::null_mut(),
                    view == View::Latest,
                    true,
                    0,
                ),
            };
            self.rows_of(status, statement.text())
        };
        statement.with_plan(execute)
    }

    /// Executes a statement once, without keeping its plan.
    pub fn run_text(&self, text: &str, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.must_be_innermost();
        let terminated = c_text(text);
        let mut arguments = StatementArguments::new(values);
        let (types, datums) = (arguments.types.as_mut_ptr(), arguments.datums.as_mut_ptr());
        let (count, nulls) = (arguments.count(), arguments.nulls.as_ptr());
        // SAFETY: the arrays have one element for each value and live as long as the call; SPI is connected.
        statement::as_sent(|| unsafe {
            let status = pg_sys::SPI_execute_with_args(terminated.as_ptr(), count, types, datums, nulls, false, 0);
            self.rows_of(status, text)
        })
    }

    /// The same for a statement that reads: it sees the latest committed state and this transaction's changes.
    pub fn run_text_now(&self, text: &str, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.must_be_innermost();
        let terminated = c_text(text);
        let mut arguments = StatementArguments::new(values);
        let (types, datums) = (arguments.types.as_mut_ptr(), arguments.datums.as_mut_ptr());
        let (count, nulls) = (arguments.count(), arguments.nulls.as_ptr());
        // SAFETY: as above. After an error the end of the connection frees the plan; rows have been copied out of the executor
        // before the plan goes.
        statement::as_sent(|| unsafe {
            let plan = pg_sys::SPI_prepare(terminated.as_ptr(), count, types);
            if plan.is_null() {
                pgrx::error!("SPI_prepare failed: {text}");
            }
            let (snapshot, nothing) = (latest_snapshot(), std::ptr::null_mut());
            let status = pg_sys::SPI_execute_snapshot(plan, datums, nulls, snapshot, nothing, true, true, 0);
            let rows = self.rows_of(status, text);
            pg_sys::SPI_freeplan(plan);
            rows
        })
    }

    /// Raises an error if another connection was opened since: SPI would execute statements in that one, and
    /// free their rows with it.
    pub(super) fn must_be_innermost(&self) {
        assert!(self.level == OPEN.get(), "a connection is used inside of another one");
    }

    /// The rows of the statement that was executed last.
    ///
    /// # Safety
    /// Nothing else may have been executed since it returned `status`.
    pub(super) unsafe fn rows_of(&self, status: i32, text: &str) -> Rows<'_> {
        if status <= 0 {
            pgrx::error!("SPI failed with {status}: {text}");
        }
        // SAFETY: by the caller.
        unsafe { self.fetched_rows() }
    }

    /// The last result of SPI.
    ///
    /// # Safety
    /// Nobody else has taken them.
    pub(super) unsafe fn fetched_rows(&self) -> Rows<'_> {
        // SAFETY: reads backend variables.
        unsafe {
            Rows {
                table: pg_sys::SPI_tuptable,
                count: usize::try_from(pg_sys::SPI_processed).unwrap_or(0),
                level: self.level,
                read_in: pg_sys::GetCurrentSubTransactionId(),
                rollbacks: ROLLED_BACK.with_borrow(Vec::len),
                connection: PhantomData,
            }
        }
    }
}

/// A snapshot of what is committed now, with this transaction's changes. While a parallel plan runs Postgres refuses to take
/// one; a new catalog snapshot shows the same.
///
/// # Safety
/// The snapshot is to be used at once: the next call for one overwrites it.
pub(super) unsafe fn latest_snapshot() -> pg_sys::Snapshot {
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
pub struct Rows<'c> {
    table: *mut pg_sys::SPITupleTable,
    count: usize,
    /// The level of the connection.
    level: u32,
    /// The subtransaction that has read them, and how many had been rolled back by then.
    read_in: pg_sys::SubTransactionId,
    rollbacks: usize,
    connection: PhantomData<&'c Connection>,
}

impl Rows<'_> {
    /// How many rows were returned or written.
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

    /// Hands the rows over, until `each` has had enough.
    pub(super) fn try_each(&self, mut each: impl FnMut(Row) -> ControlFlow<()>) -> ControlFlow<()> {
        (0..self.count).try_for_each(|index| each(Row { rows: self, index }))
    }

    /// Whether the rows still exist: the rollback of a subtransaction frees what was read in it, and in
    /// its own subtransactions, which all have higher numbers.
    fn are_there(&self) -> bool {
        ROLLED_BACK
            .with_borrow(|all| all.iter().skip(self.rollbacks).all(|subtransaction| *subtransaction > self.read_in))
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // While unwinding, the (sub)transaction's end has freed the table or is about to. Inside of another connection, this
        // one's end will.
        if !self.table.is_null() && !std::thread::panicking() && self.level == OPEN.get() && self.are_there() {
            // SAFETY: the table is the one that SPI handed out.
            unsafe { pg_sys::SPI_freetuptable(self.table) };
        }
    }
}

/// One row.
pub struct Row<'r> {
    rows: &'r Rows<'r>,
    index: usize,
}

impl Row<'_> {
    /// A column, counted from 1; `None` is NULL. A missing column, or one of another type, is an error.
    pub fn get<T: Column>(&self, column: i32) -> Option<T> {
        assert!(self.rows.are_there(), "rows are read that were rolled back");
        let number = usize::try_from(column).unwrap_or(0);
        // SAFETY: the table is there, and `index` below the number of its rows; the column is one of them, of a type that T
        // reads.
        unsafe {
            let table = self.rows.table.as_ref().unwrap_or_else(|| panic!("a statement without result is read"));
            assert!((1..=width(table.tupdesc)).contains(&number), "there is no column {column}");
            let attribute = attribute(table.tupdesc, number);
            if !T::fits(attribute.atttypid) {
                altered::raise(Altered::Column { name: name_of(attribute) });
            }
            let tuple = *table.vals.add(self.index);
            let mut is_null = false;
            let datum = pg_sys::SPI_getbinval(tuple, table.tupdesc, column, &mut is_null);
            if is_null { None } else { T::read(datum) }
        }
    }

    /// A column that cannot be NULL.
    pub fn must<T: Column>(&self, column: i32) -> T {
        self.get(column).unwrap_or_else(|| altered::raise(Altered::Null { name: self.name(column) }))
    }

    fn name(&self, column: i32) -> String {
        let number = usize::try_from(column).unwrap_or(0);
        // SAFETY: the table is there, since `get` has read of it; so is the column.
        unsafe { self.rows.table.as_ref().map_or(String::new(), |table| name_of(attribute(table.tupdesc, number))) }
    }
}
