//! Statements with cached plans, through SPI.
//!
//! The SPI client of pgrx assigns a transaction id even for reads of one value, has no generic plans, and no choice of
//! snapshot. So this crate has its own. Statements are declared with [`statement!`] in `store`, prepared at their first
//! use in a session, and kept for the session. PostgreSQL replans them itself when a table changes, also when the
//! extension was dropped and created again.
//!
//! Safe code cannot read freed memory. The lifetime of rows ends with [`connect`]. A connection is used only while it
//! is the innermost one. Rows that a rolled-back subtransaction has read can no longer be read. A column is read only
//! as its type, and an argument must have the type that the plan takes. Violations are errors, in every build. The
//! checks also catch a table that its owner has altered ([`altered`]).

use std::marker::PhantomData;
use std::thread::LocalKey;

use super::compatibility;
use super::connections::{self, Counted};
use super::nesting;
pub use super::rows::{Row, Rows};
use super::statement::{self, Statement};
use super::text::c_text;
pub use super::value::{Inet, Value};
use pgrx::pg_sys;

/// The snapshot of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The snapshot of a separate statement: under READ COMMITTED a new one, with all changes of this transaction so
    /// far.
    Statement,
    /// The snapshot of the calling query. It is for functions that only read: it assigns no transaction id, and works
    /// on a standby.
    Caller,
    /// The state that is committed now, whatever the isolation level. It is for questions to which an old snapshot has
    /// wrong answers.
    Latest,
    /// Like `Latest`, for a statement that writes. Rows that were inserted or changed after the transaction's snapshot
    /// cause no serialization failure.
    LatestToWrite,
}

pub struct Connection {
    level: usize,
    not_send: PhantomData<*mut ()>,
}

/// Runs `body` with SPI connected, after the compatibility check ([`compatibility`]). After an error PostgreSQL closes the
/// connection itself.
pub fn connect<T>(body: impl FnOnce(&Connection) -> T) -> T {
    compatibility::require();
    connect_unchecked(body)
}

/// Like [`connect`], without the compatibility check: for statements that work with the tables of every version.
pub fn connect_unchecked<T>(body: impl FnOnce(&Connection) -> T) -> T {
    // SAFETY: connect and finish are paired on the way without errors. `body`'s result lives in Rust's memory, not in
    // that of SPI, because rows are converted to owned values.
    unsafe { pg_sys::SPI_connect() };
    let counted = Counted::connected();
    let result = body(&Connection::counted(&counted));
    drop(counted);
    unsafe { pg_sys::SPI_finish() };
    result
}

/// Like [`connect`], for functions that have the rights of their caller, and seldom run a statement: the first statement
/// connects SPI. From there on the code has the rights of the owner of the tables and a fixed search_path, as in a
/// SECURITY DEFINER function, which would set them up for each call.
pub fn connect_as_owner<T>(body: impl FnOnce(&Connection) -> T) -> T {
    compatibility::require();
    nesting::on_begin(connections::open_waiting);
    let counted = Counted::waiting();
    let result = body(&Connection::counted(&counted));
    connections::close(counted.level());
    drop(counted);
    result
}

/// The arguments of a statement for SPI, borrowed from the values.
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

    /// Raises an error unless the arguments have the types that a plan takes.
    pub(super) fn must_be(&self, types: &[&[pg_sys::Oid]], text: &str) {
        assert!(
            self.types.iter().eq(types.iter().copied().flatten()),
            "arguments of types {:?} for {types:?}: {text}",
            self.types
        );
    }
}

impl Connection {
    fn counted(counted: &Counted) -> Self {
        Connection { level: counted.level(), not_send: PhantomData }
    }

    /// Executes a statement and returns its rows.
    pub fn run(
        &self,
        statement: &'static LocalKey<Statement>,
        view: View,
        values: impl IntoIterator<Item = Value>,
    ) -> Rows<'_> {
        statement.with(|statement| self.run_leaked(statement, view, values))
    }

    /// Executes a statement that was made at run time, and returns its rows.
    pub fn run_leaked(&self, statement: &Statement, view: View, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.open();
        let execute = || self.execute_as_set(statement, view, values);
        if statement.may_leave() { statement::with_distributed_hooks(execute) } else { execute() }
    }

    fn execute_as_set(&self, statement: &Statement, view: View, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.open();
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
        self.open();
        let terminated = c_text(text);
        let mut arguments = StatementArguments::new(values);
        let (types, datums) = (arguments.types.as_mut_ptr(), arguments.datums.as_mut_ptr());
        let (count, nulls) = (arguments.count(), arguments.nulls.as_ptr());
        // SAFETY: the arrays have one element for each value and live as long as the call; SPI is connected.
        statement::with_distributed_hooks(|| unsafe {
            let status = pg_sys::SPI_execute_with_args(terminated.as_ptr(), count, types, datums, nulls, false, 0);
            self.rows_of(status, text)
        })
    }

    /// Executes a reading statement once, without keeping its plan. It sees the latest committed state and this
    /// transaction's changes.
    pub fn run_text_now(&self, text: &str, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.open();
        let terminated = c_text(text);
        let mut arguments = StatementArguments::new(values);
        let (types, datums) = (arguments.types.as_mut_ptr(), arguments.datums.as_mut_ptr());
        let (count, nulls) = (arguments.count(), arguments.nulls.as_ptr());
        // SAFETY: the arrays have one element for each value and live as long as the call. After an error the end of
        // the connection frees the plan; rows have been copied out of the executor before the plan goes.
        statement::with_distributed_hooks(|| unsafe {
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

    /// Connects SPI, if this connection waits for its first statement. Raises an error if another connection was made since: SPI
    /// would execute statements in that one, and free their rows with it.
    pub(super) fn open(&self) {
        assert!(connections::is_innermost(self.level), "a connection is used inside of another one");
        connections::open_waiting();
    }

    /// Returns the rows of the statement that was executed last.
    ///
    /// # Safety
    /// No other statement was executed since it returned `status`.
    pub(super) unsafe fn rows_of(&self, status: i32, text: &str) -> Rows<'_> {
        if status <= 0 {
            pgrx::error!("SPI failed with {status}: {text}");
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.fetched_rows() }
    }

    /// Returns the last result of SPI.
    ///
    /// # Safety
    /// Nothing else has taken the result.
    pub(super) unsafe fn fetched_rows(&self) -> Rows<'_> {
        // SAFETY: guaranteed by the caller.
        unsafe { Rows::fetched(self.level) }
    }
}

/// Returns a snapshot of the state that is committed now, with this transaction's changes. PostgreSQL refuses to take
/// one while a parallel plan runs; then a new catalog snapshot shows an equal state.
///
/// # Safety
/// The snapshot is used at once, because the next call overwrites it.
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
