//! Statements whose text is only known at run time, and whose plans are kept all the same.

use std::ffi::CString;

use pgrx::pg_sys;

use super::spi::{Connection, Rows, Value};

/// A prepared statement that only reads.
pub struct Prepared {
    plan: pg_sys::SPIPlanPtr,
    arguments: usize,
}

impl Prepared {
    /// Parses it, under the search_path in force.
    pub fn new(_: &Connection, text: &str, argument_types: &[pg_sys::Oid]) -> Self {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: text and types are valid for the call, which copies them; SPI is connected.
        unsafe {
            let plan = pg_sys::SPI_prepare_cursor(
                text.as_ptr(),
                i32::try_from(argument_types.len()).unwrap_or(0),
                argument_types.as_ptr().cast_mut(),
                pg_sys::CURSOR_OPT_GENERIC_PLAN as i32,
            );
            assert!(!plan.is_null(), "SPI_prepare_cursor failed: {text:?}");
            pg_sys::SPI_keepplan(plan);
            Prepared { plan, arguments: argument_types.len() }
        }
    }

    /// Runs it with what the calling query sees.
    pub fn run(&self, _: &Connection, values: impl IntoIterator<Item = Value>) -> Rows {
        let (mut datums, nulls): (Vec<_>, Vec<_>) = values.into_iter().map(Value::into_parts).unzip();
        assert_eq!(datums.len(), self.arguments, "wrong number of arguments");
        // SAFETY: the plan is kept until this is dropped; the arrays have as many elements as it has arguments.
        unsafe {
            let status = pg_sys::SPI_execute_plan(self.plan, datums.as_mut_ptr(), nulls.as_ptr(), true, 0);
            assert!(status > 0, "SPI failed with {status}");
            Rows::last()
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the plan any more; rows have been copied out of the executor.
        unsafe { pg_sys::SPI_freeplan(self.plan) };
    }
}
