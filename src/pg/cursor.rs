//! Results of any size, a page of rows at a time.

use pgrx::{PgMemoryContexts, pg_sys};

use super::spi::{Arguments, Connection, Row, Value, c_text};

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
        self.must_be_innermost();
        let text = c_text(text);
        let mut arguments = Arguments::new(values);
        let (types, datums) = (arguments.types.as_mut_ptr(), arguments.datums.as_mut_ptr());
        let (count, nulls) = (arguments.count(), arguments.nulls.as_ptr());
        // SAFETY: the arrays have one element for each value and live as long as the call that copies them; SPI is
        // connected. The portal is closed here or, after an error, with the (sub)transaction.
        unsafe {
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
            // What reading values allocates (long ones are uncompressed) goes with each page.
            let mut page = PgMemoryContexts::new("claims page");
            loop {
                pg_sys::check_for_interrupts!();
                pg_sys::SPI_cursor_fetch(portal, true, PAGE);
                let rows = self.fetched_rows();
                if rows.count() == 0 {
                    break;
                }
                page.switch_to(|_| rows.each(&mut each));
                drop(rows);
                page.reset();
            }
            pg_sys::SPI_cursor_close(portal);
        }
    }
}
