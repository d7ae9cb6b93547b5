//! Query results of any size, which are read in pages.

use std::ffi::c_long;
use std::ops::ControlFlow;
use std::thread::LocalKey;

use pgrx::{PgMemoryContexts, pg_sys};

use super::spi::{Connection, Row, StatementArguments, Value};
use super::statement::{self, Reach, Statement};
use super::text::c_text;

/// The number of rows that are in memory together.
const PAGE: c_long = 1000;

impl Connection {
    /// Runs a query whose text is known only at run time, planned for this one execution, and calls `each` for every
    /// row. With `as_caller` it uses the calling query's snapshot and assigns no transaction id; otherwise it takes a
    /// new snapshot.
    pub fn stream(
        &self,
        text: &str,
        values: impl IntoIterator<Item = Value>,
        as_caller: bool,
        mut each: impl FnMut(Row),
    ) {
        self.open();
        statement::require(Reach::Anywhere);
        let text = c_text(text);
        let mut arguments = StatementArguments::new(values);
        let (types, datums) = (arguments.types.as_mut_ptr(), arguments.datums.as_mut_ptr());
        let (count, nulls) = (arguments.count(), arguments.nulls.as_ptr());
        // SAFETY: the arrays have one element for each value and live as long as the call that copies them; SPI is
        // connected. The portal is closed here or, after an error, with the (sub)transaction.
        statement::with_distributed_hooks(|| unsafe {
            let portal = pg_sys::SPI_cursor_open_with_args(
                std::ptr::null(),
                text.as_ptr(),
                count,
                types,
                datums,
                nulls,
                as_caller,
                0,
            );
            self.drain(portal, PAGE, |row| {
                each(row);
                ControlFlow::Continue(())
            });
        });
    }

    /// Runs a statement and calls `each` for every row, until it returns Break. Only one row is in memory at a time.
    /// With `as_caller` it uses the calling query's snapshot and assigns no transaction id.
    pub fn walk(
        &self,
        statement: &'static LocalKey<Statement>,
        values: impl IntoIterator<Item = Value>,
        as_caller: bool,
        each: impl FnMut(Row) -> ControlFlow<()>,
    ) {
        self.open();
        let mut arguments = StatementArguments::new(values);
        statement.with(|statement| {
            arguments.must_be(statement.argument_types(), statement.text());
            let (datums, nulls) = (arguments.datums.as_mut_ptr(), arguments.nulls.as_ptr());
            // SAFETY: the plan is valid and kept until the portal is closed; the arrays have as many elements as it has
            // arguments, of their types.
            let execute = |plan| unsafe {
                let portal = pg_sys::SPI_cursor_open(std::ptr::null(), plan, datums, nulls, as_caller);
                self.drain(portal, 1, each);
            };
            statement::with_distributed_hooks(|| statement.with_plan(execute));
        });
    }

    /// Fetches `at_once` rows at a time until there are no more, or `each` returns Break, and closes the portal.
    ///
    /// # Safety
    /// The portal is open, belongs to this connection, and nothing else uses it.
    unsafe fn drain(&self, portal: pg_sys::Portal, at_once: c_long, mut each: impl FnMut(Row) -> ControlFlow<()>) {
        // Freed with each page: reading values allocates memory, for example to decompress long ones.
        let mut memory = PgMemoryContexts::new("claims page");
        // SAFETY: guaranteed by the caller; the rows are dropped before others are fetched.
        unsafe {
            loop {
                pg_sys::check_for_interrupts!();
                pg_sys::SPI_cursor_fetch(portal, true, at_once);
                let rows = self.fetched_rows();
                let has_enough = rows.count() == 0 || memory.switch_to(|_| rows.try_each(&mut each)).is_break();
                drop(rows);
                memory.reset();
                if has_enough {
                    break;
                }
            }
            pg_sys::SPI_cursor_close(portal);
        }
    }
}
