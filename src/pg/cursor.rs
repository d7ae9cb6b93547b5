//! Results of any size, a page of rows at a time.

use std::ffi::CString;

use pgrx::{PgMemoryContexts, pg_sys};

use super::spi::{Connection, Row, Rows, Value};

/// Rows that are in memory together.
const PAGE: std::ffi::c_long = 1000;

impl Connection {
    /// Runs a query whose text is only known now, planned for this one time, and hands its rows over one by one. With
    /// `as_caller` it sees what the calling query sees, and takes no transaction id; otherwise it has a snapshot of its own.
    pub fn stream(
        &self,
        text: &str,
        values: impl IntoIterator<Item = Value>,
        as_caller: bool,
        mut each: impl FnMut(Row),
    ) {
        let text = CString::new(text).unwrap_or_default();
        let values: Vec<_> = values.into_iter().map(|value| value.raw()).collect();
        let mut types: Vec<_> = values.iter().map(|(type_oid, _, _)| *type_oid).collect();
        let mut datums: Vec<_> = values.iter().map(|(_, datum, _)| *datum).collect();
        let nulls: Vec<_> = values.iter().map(|(_, _, null)| *null).collect();
        // SAFETY: the arrays have one element for each value and live as long as the call that copies them; SPI is
        // connected. The portal is closed here or, after an error, with the (sub)transaction.
        unsafe {
            let portal = pg_sys::SPI_cursor_open_with_args(
                std::ptr::null(),
                text.as_ptr(),
                i32::try_from(values.len()).unwrap_or(0),
                types.as_mut_ptr(),
                datums.as_mut_ptr(),
                nulls.as_ptr(),
                as_caller,
                0,
            );
            // What reading values allocates (long ones are compressed) goes with each page.
            let mut page = PgMemoryContexts::new("claims page");
            loop {
                pg_sys::check_for_interrupts!();
                pg_sys::SPI_cursor_fetch(portal, true, PAGE);
                if page.switch_to(|_| Rows::fetched(&mut each)) == 0 {
                    break;
                }
                page.reset();
            }
            pg_sys::SPI_cursor_close(portal);
        }
    }
}
