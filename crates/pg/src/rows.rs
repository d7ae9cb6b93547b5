//! The rows that a statement has returned through SPI.

use std::cell::Cell;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::ops::{ControlFlow, RangeFrom};

use super::altered::{self, Altered};
use super::connections;
use super::stored::{self, BoundedText};
use super::tuple::{attribute, name_of, width};
use super::value::Column;
use pgrx::pg_sys;

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
    /// Whether the columns are in the order of the fields that have named them. `None` before the first row is read by names.
    is_in_order: Cell<Option<bool>>,
    /// Borrows the connection.
    connection: PhantomData<&'c ()>,
}

impl Rows<'_> {
    /// Returns the last result of SPI, for the connection of a level.
    ///
    /// # Safety
    /// Nothing else has taken the result, and the lifetime is that of the connection.
    pub(super) unsafe fn fetched(level: usize) -> Self {
        // SAFETY: reads backend variables.
        unsafe {
            Rows {
                table: pg_sys::SPI_tuptable,
                count: usize::try_from(pg_sys::SPI_processed).unwrap_or(0),
                level,
                connected_in: connections::connected_in(level),
                read_in: pg_sys::GetCurrentSubTransactionId(),
                rollbacks: connections::rollbacks(),
                is_in_order: Cell::new(None),
                connection: PhantomData,
            }
        }
    }

    /// Returns the number of rows that were returned or written.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of columns.
    pub(super) fn width(&self) -> usize {
        // SAFETY: the table exists as long as this value. A statement without result has none.
        unsafe { self.table.as_ref().map_or(0, |table| width(table.tupdesc)) }
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
        connections::connected_in(self.level) == self.connected_in
            && connections::all_rolled_back_since(self.rollbacks, |subtransaction| subtransaction > self.read_in)
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // While unwinding, the end of the (sub)transaction has freed the table or will free it. If another connection
        // is open inside this one, the end of this one frees it.
        if !self.table.is_null()
            && !std::thread::panicking()
            && connections::is_innermost(self.level)
            && self.are_there()
        {
            // SAFETY: the table is the one that SPI handed out.
            unsafe { pg_sys::SPI_freetuptable(self.table) };
        }
    }
}

/// A field of a struct that `record!` declares. A column that can be NULL is an `Option`.
pub trait RowField: Sized {
    #[doc(hidden)]
    fn of(row: &Row, column: i32) -> Self;
}

impl<T: Column> RowField for T {
    fn of(row: &Row, column: i32) -> Self {
        row.must(column)
    }
}

impl<T: Column> RowField for Option<T> {
    fn of(row: &Row, column: i32) -> Self {
        row.get(column)
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

    /// Returns the column of a name, which is expected at the next of `columns`: for `record!`. The names are compared for the
    /// first row, and for the others only if they were in another order.
    #[doc(hidden)]
    pub fn field<T: RowField>(&self, name: &str, columns: &mut RangeFrom<i32>) -> T {
        let expected = columns.next().unwrap_or(1);
        let is_named = |column: i32| self.name(column).is_some_and(|bytes| bytes == name.as_bytes());
        let is_in_order = &self.rows.is_in_order;
        let column = if self.index > 0 && is_in_order.get() == Some(true) {
            Some(expected)
        } else if is_named(expected) {
            is_in_order.set(is_in_order.get().or(Some(true)));
            Some(expected)
        } else {
            is_in_order.set(Some(false));
            (1..).take(self.rows.width()).find(|&at| is_named(at))
        };
        T::of(self, column.unwrap_or_else(|| panic!("there is no column {name}")))
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
        let name = || String::from_utf8_lossy(self.name(column).unwrap_or_default()).into_owned();
        self.get(column).unwrap_or_else(|| altered::raise(Altered::Null { name: name() }))
    }

    /// Returns the name of a column, if the column exists.
    fn name(&self, column: i32) -> Option<&[u8]> {
        let number = usize::try_from(column).ok().filter(|number| (1..=self.rows.width()).contains(number))?;
        // SAFETY: the table and the column exist, and a name ends with a zero byte.
        unsafe {
            let table = self.rows.table.as_ref()?;
            Some(CStr::from_ptr(attribute(table.tupdesc, number).attname.data.as_ptr()).to_bytes())
        }
    }
}
