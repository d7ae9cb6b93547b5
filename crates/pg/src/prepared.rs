//! Prepared statements whose text is known only at run time.

use pgrx::pg_sys;

use super::settings_dependence::depends_on_settings;
use super::spi::{Connection, Rows, StatementArguments, Value};
use super::statement::prepare_for_session;

/// A prepared statement that only reads.
pub struct Prepared {
    plan: pg_sys::SPIPlanPtr,
    text: String,
    argument_types: Vec<pg_sys::Oid>,
}

impl Prepared {
    /// Parses the statement under the current settings and search_path.
    pub fn new(connection: &Connection, text: String, argument_types: &[pg_sys::Oid]) -> Self {
        connection.open();
        Prepared { plan: prepare_for_session(&text, argument_types), text, argument_types: argument_types.to_vec() }
    }

    /// Returns whether the columns of its result may depend on settings of the session, whatever the rows are that it reads.
    pub fn depends_on_settings(&self) -> bool {
        // SAFETY: a plan that is kept has its sources, each with a list of analyzed queries.
        unsafe {
            let sources = pg_sys::SPI_plan_get_plan_sources(self.plan);
            elements(sources).any(|source| {
                let queries = (*source.cast::<pg_sys::CachedPlanSource>()).query_list;
                elements(queries).any(|query| depends_on_settings((*query.cast::<pg_sys::Query>()).targetList.cast()))
            })
        }
    }

    /// Runs it with the snapshot of the calling query. Raises an error if the number or types of the values do not fit.
    pub fn run<'c>(&self, connection: &'c Connection, values: impl IntoIterator<Item = Value>) -> Rows<'c> {
        connection.open();
        let mut arguments = StatementArguments::new(values);
        arguments.must_be(&[&self.argument_types], &self.text);
        // SAFETY: the plan is kept until this is dropped; the arrays have as many elements as it has arguments, of
        // their types.
        unsafe {
            let (datums, nulls) = (arguments.datums.as_mut_ptr(), arguments.nulls.as_ptr());
            let status = pg_sys::SPI_execute_plan(self.plan, datums, nulls, true, 0);
            connection.rows_of(status, &self.text)
        }
    }
}

/// Returns the pointers in a list.
///
/// # Safety
/// The list is NULL, which is the empty list, or a list of pointers that lives as long as the result.
unsafe fn elements(list: *mut pg_sys::List) -> impl Iterator<Item = *mut std::ffi::c_void> {
    // SAFETY: guaranteed by the caller.
    let length = if list.is_null() { 0 } else { unsafe { (*list).length } };
    // SAFETY: the position is within the list.
    (0..length).map(move |nth| unsafe { pg_sys::list_nth(list, nth) })
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
