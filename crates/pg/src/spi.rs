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

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::thread::LocalKey;

use super::altered::{self, Altered};
use super::compatibility;
use super::nesting;
use super::owner::{self, Rights};
use super::statement::{self, Statement};
use super::stored::{self, BoundedText};
use super::text::c_text;
use super::tuple::{attribute, name_of, width};
use super::value::Column;
pub use super::value::Value;
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

thread_local! {
    /// The connections that are in use, the innermost one last.
    static CONNECTIONS: RefCell<Vec<State>> = const { RefCell::new(Vec::new()) };
    /// The subtransactions that were rolled back since the outermost connection was made.
    static ROLLED_BACK: RefCell<Vec<pg_sys::SubTransactionId>> = const { RefCell::new(Vec::new()) };
}

/// Whether SPI is connected for a connection.
#[derive(Clone, Copy)]
enum State {
    Connected,
    /// The first statement connects.
    Waiting,
    /// A statement has connected, with the rights of the owner of the tables.
    AsOwner {
        within: pg_sys::SubTransactionId,
        rights: Rights,
    },
}

pub struct Connection {
    level: usize,
    not_send: PhantomData<*mut ()>,
}

/// Runs `body` with SPI connected, after the compatibility check ([`compatibility`]). After an error PostgreSQL closes the
/// connection itself.
pub fn connect<T>(body: impl FnOnce(&Connection) -> T) -> T {
    compatibility::require();
    // SAFETY: connect and finish are paired on the way without errors. `body`'s result lives in Rust's memory, not in
    // that of SPI, because rows are converted to owned values.
    unsafe { pg_sys::SPI_connect() };
    let counted = Counted::new(State::Connected);
    let result = body(&counted.connection());
    drop(counted);
    unsafe { pg_sys::SPI_finish() };
    result
}

/// Like [`connect`], for functions that have the rights of their caller, and seldom run a statement: the first statement
/// connects SPI. From there on the code has the rights of the owner of the tables and a fixed search_path, as in a
/// SECURITY DEFINER function, which would set them up for each call.
pub fn connect_as_owner<T>(body: impl FnOnce(&Connection) -> T) -> T {
    compatibility::require();
    nesting::on_begin(open_waiting);
    let counted = Counted::new(State::Waiting);
    let result = body(&counted.connection());
    close(counted.level);
    drop(counted);
    result
}

/// Connects SPI if the innermost connection waits for its first statement.
fn open_waiting() {
    let level = CONNECTIONS.with_borrow(Vec::len);
    if !matches!(state(level), Some(State::Waiting)) {
        return;
    }
    let rights = owner::take_rights();
    // SAFETY: `close` finishes it or, after an error, the end of the (sub)transaction.
    let within = unsafe {
        pg_sys::SPI_connect();
        pg_sys::GetCurrentSubTransactionId()
    };
    set_state(level, State::AsOwner { within, rights });
}

/// Finishes SPI if a statement has connected it.
fn close(level: usize) {
    if let Some(State::AsOwner { rights, .. }) = state(level) {
        // Rows of this connection can no longer be read.
        set_state(level, State::Waiting);
        // SAFETY: it is the innermost connection of SPI, because those that were made in it have been finished.
        unsafe { pg_sys::SPI_finish() };
        owner::give_rights_back(rights);
    }
}

/// Finishes SPI if a statement has connected it in this subtransaction, which is about to be committed.
pub(super) fn close_within(subtransaction: pg_sys::SubTransactionId) {
    let level = CONNECTIONS.with_borrow(Vec::len);
    if matches!(state(level), Some(State::AsOwner { within, .. }) if within == subtransaction) {
        close(level);
    }
}

fn state(level: usize) -> Option<State> {
    CONNECTIONS.with_borrow(|all| all.get(level.checked_sub(1)?).copied())
}

/// Returns the subtransaction in which a statement has connected SPI for a connection.
fn connected_in(level: usize) -> Option<pg_sys::SubTransactionId> {
    match state(level) {
        Some(State::AsOwner { within, .. }) => Some(within),
        _ => None,
    }
}

fn set_state(level: usize, state: State) {
    CONNECTIONS.with_borrow_mut(|all| all[level - 1] = state);
}

/// A guard that counts a connection.
struct Counted {
    level: usize,
}

impl Counted {
    fn new(state: State) -> Self {
        let level = CONNECTIONS.with_borrow_mut(|all| {
            all.push(state);
            all.len()
        });
        if level == 1 {
            ROLLED_BACK.with_borrow_mut(Vec::clear);
        }
        Counted { level }
    }

    fn connection(&self) -> Connection {
        Connection { level: self.level, not_send: PhantomData }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        CONNECTIONS.with_borrow_mut(|all| all.truncate(self.level - 1));
    }
}

/// Records the rollback of a subtransaction, which has freed its rows, and finished SPI if a statement in it had connected it.
/// Must be called after every rollback of a subtransaction that may have run statements.
pub(super) fn rolled_back(subtransaction: pg_sys::SubTransactionId) {
    let level = CONNECTIONS.with_borrow(Vec::len);
    match state(level) {
        None => return,
        Some(State::AsOwner { within, .. }) if within >= subtransaction => set_state(level, State::Waiting),
        Some(_) => {}
    }
    ROLLED_BACK.with_borrow_mut(|all| all.push(subtransaction));
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
        statement.with(|statement| self.run_leaked(statement, view, values))
    }

    /// Executes a statement that was made at run time, and returns its rows.
    pub fn run_leaked(&self, statement: &Statement, view: View, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.open();
        statement::with_distributed_hooks(|| self.execute_as_set(statement, view, values))
    }

    /// Executes a statement on a shard of this node. No part of it goes to other nodes.
    pub fn run_here(&self, statement: &Statement, values: impl IntoIterator<Item = Value>) -> Rows<'_> {
        self.execute_as_set(statement, View::Statement, values)
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
        assert!(self.is_innermost(), "a connection is used inside of another one");
        open_waiting();
    }

    fn is_innermost(&self) -> bool {
        self.level == CONNECTIONS.with_borrow(Vec::len)
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
        // SAFETY: reads backend variables.
        unsafe {
            Rows {
                table: pg_sys::SPI_tuptable,
                count: usize::try_from(pg_sys::SPI_processed).unwrap_or(0),
                level: self.level,
                connected_in: connected_in(self.level),
                read_in: pg_sys::GetCurrentSubTransactionId(),
                rollbacks: ROLLED_BACK.with_borrow(Vec::len),
                connection: PhantomData,
            }
        }
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

/// The rows of a statement. They are freed with this value or, after an error, with the connection.
pub struct Rows<'c> {
    table: *mut pg_sys::SPITupleTable,
    count: usize,
    level: usize,
    /// The subtransaction in which a statement had connected SPI, if one had to.
    connected_in: Option<pg_sys::SubTransactionId>,
    /// The subtransaction that has read the rows, and the number of rolled-back subtransactions by then.
    read_in: pg_sys::SubTransactionId,
    rollbacks: usize,
    connection: PhantomData<&'c Connection>,
}

impl Rows<'_> {
    /// Returns the number of rows that were returned or written.
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn map<T>(&self, convert: impl FnMut(Row) -> T) -> Vec<T> {
        (0..self.count).map(|index| Row { rows: self, index }).map(convert).collect()
    }

    pub fn first<T>(&self, convert: impl FnOnce(Row) -> T) -> Option<T> {
        (self.count > 0).then(|| convert(Row { rows: self, index: 0 }))
    }

    /// Calls `each` for every row until it returns Break.
    pub(super) fn try_each(&self, mut each: impl FnMut(Row) -> ControlFlow<()>) -> ControlFlow<()> {
        (0..self.count).try_for_each(|index| each(Row { rows: self, index }))
    }

    /// Returns whether the rows still exist. The rollback of a subtransaction frees the rows that it and its own
    /// subtransactions have read, which all have higher numbers. So does the end of the one in which SPI was connected.
    fn are_there(&self) -> bool {
        connected_in(self.level) == self.connected_in
            && ROLLED_BACK
                .with_borrow(|all| all.iter().skip(self.rollbacks).all(|subtransaction| *subtransaction > self.read_in))
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // While unwinding, the end of the (sub)transaction has freed the table or will free it. If another connection
        // is open inside this one, the end of this one frees it.
        if !self.table.is_null()
            && !std::thread::panicking()
            && self.level == CONNECTIONS.with_borrow(Vec::len)
            && self.are_there()
        {
            // SAFETY: the table is the one that SPI handed out.
            unsafe { pg_sys::SPI_freetuptable(self.table) };
        }
    }
}

pub struct Row<'r> {
    rows: &'r Rows<'r>,
    index: usize,
}

impl Row<'_> {
    /// Returns a column, counted from 1; `None` is NULL. Raises an error if the column does not exist or has another
    /// type.
    pub fn get<T: Column>(&self, column: i32) -> Option<T> {
        // SAFETY: the type is one that T reads.
        unsafe { self.read::<T, T>(column, |datum| T::read(datum)) }
    }

    /// Like [`Self::get`] of a text, which is not read where it has more than `most_bytes`.
    pub fn get_bounded(&self, column: i32, most_bytes: usize) -> Option<BoundedText> {
        // SAFETY: the type is that of a text.
        unsafe { self.read::<String, _>(column, |datum| stored::bounded(datum, most_bytes)) }
    }

    /// # Safety
    /// `read` reads values that are not NULL, of types that `T` reads.
    unsafe fn read<T: Column, R>(&self, column: i32, read: impl FnOnce(pg_sys::Datum) -> Option<R>) -> Option<R> {
        assert!(self.rows.are_there(), "rows are read that were rolled back");
        let number = usize::try_from(column).unwrap_or(0);
        // SAFETY: the table exists, `index` is below the number of its rows, and the column exists with a type that T
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
            if is_null { None } else { read(datum) }
        }
    }

    /// Returns a column that cannot be NULL.
    pub fn must<T: Column>(&self, column: i32) -> T {
        self.get(column).unwrap_or_else(|| altered::raise(Altered::Null { name: self.name(column) }))
    }

    fn name(&self, column: i32) -> String {
        let number = usize::try_from(column).unwrap_or(0);
        // SAFETY: the table and the column exist, because `get` has read them.
        unsafe { self.rows.table.as_ref().map_or(String::new(), |table| name_of(attribute(table.tupdesc, number))) }
    }
}
