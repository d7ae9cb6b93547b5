//! Statements whose text is only known at run time, and whose plans are kept all the same.

use pgrx::pg_sys;

use super::spi::{Connection, Rows, Value, rows_of};
use super::statement::kept_plan;

/// A prepared statement that only reads.
pub struct Prepared {
    plan: pg_sys::SPIPlanPtr,
    text: String,
}

impl Prepared {
    /// Parses it, under the search_path in force.
    pub fn new(_: &Connection, text: String, argument_types: &[pg_sys::Oid]) -> Self {
        Prepared { plan: kept_plan(&text, argument_types), text }
    }

    /// Runs it with what the calling query sees. There must be a value for each argument.
    pub fn run(&self, _: &Connection, values: impl IntoIterator<Item = Value>) -> Rows {
        let (mut datums, nulls): (Vec<_>, Vec<_>) = values.into_iter().map(Value::into_parts).unzip();
        // SAFETY: the plan is kept until this is dropped; the arrays have as many elements as it has arguments.
        unsafe {
            let status = pg_sys::SPI_execute_plan(self.plan, datums.as_mut_ptr(), nulls.as_ptr(), true, 0);
            rows_of(status, &self.text)
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the plan any more; rows have been copied out of the executor.
        unsafe { pg_sys::SPI_freeplan(self.plan) };
    }
}
