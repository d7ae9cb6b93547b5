//! Prepared statements whose text is known only at run time.

use pgrx::pg_sys;

use super::spi::{Connection, Rows, StatementArguments, Value};
use super::statement::prepare_for_session;

/// A prepared statement that only reads.
pub struct Prepared {
    plan: pg_sys::SPIPlanPtr,
    text: String,
    argument_types: Vec<pg_sys::Oid>,
}

impl Prepared {
    /// Parses the statement under the current search_path.
    pub fn new(connection: &Connection, text: String, argument_types: &[pg_sys::Oid]) -> Self {
        connection.open();
        Prepared { plan: prepare_for_session(&text, argument_types), text, argument_types: argument_types.to_vec() }
    }

    /// Runs it with the snapshot of the calling query. Raises an error if the number or types of the values do not fit.
    pub fn run<'c>(&self, connection: &'c Connection, values: impl IntoIterator<Item = Value>) -> Rows<'c> {
        connection.open();
        let mut arguments = StatementArguments::new(values);
        arguments.must_be(&self.argument_types, &self.text);
        // SAFETY: the plan is kept until this is dropped; the arrays have as many elements as it has arguments, of
        // their types.
        unsafe {
            let (datums, nulls) = (arguments.datums.as_mut_ptr(), arguments.nulls.as_ptr());
            let status = pg_sys::SPI_execute_plan(self.plan, datums, nulls, true, 0);
            connection.rows_of(status, &self.text)
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the plan any more; rows have been copied out of the executor. While the process
        // exits, its memory may be gone already, and the plan need not be freed.
        unsafe {
            if !pg_sys::proc_exit_inprogress {
                pg_sys::SPI_freeplan(self.plan);
            }
        }
    }
}
