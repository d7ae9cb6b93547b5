//! Tables that are open for reading and writing without statements.

use std::cell::OnceCell;
use std::marker::PhantomData;
use std::rc::Rc;

use pgrx::pg_sys;

use super::indexes::Index;
use super::layout::{Layout, Shape, compare, known};
use crate::altered::{self, Altered};
use crate::statement::{self, Reach};
use crate::value::Column;
use crate::{compatibility, table};

/// Locks until the end of the transaction, as those of INSERT, UPDATE and DELETE.
const WRITING: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
/// Locks for as long as the table is open, as those of [`crate::index::find`].
const READING: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

// The binding of pgrx prepares for an error, which this function never raises, and every use of a table calls it.
unsafe extern "C-unwind" {
    fn GetCurrentSubTransactionId() -> pg_sys::SubTransactionId;
}

/// A table that has its layout. It can be used in the subtransaction in which it was opened.
pub struct Table {
    pub(super) relation: pg_sys::Relation,
    pub(super) layout: &'static Layout,
    pub(super) shape: Rc<Shape>,
    /// The index in which rows are looked up.
    pub(super) unique: pg_sys::Relation,
    /// All indexes, in the order of the layout. The others are opened for the first row that needs entries in them.
    indexes: OnceCell<Vec<Index>>,
    /// A slot for the row to write. It points to values of the caller only during a call.
    pub(super) written: OnceCell<*mut pg_sys::TupleTableSlot>,
    /// A slot for the version of a row that was locked.
    pub(super) locked: OnceCell<*mut pg_sys::TupleTableSlot>,
    /// The memory in which the slots are.
    context: pg_sys::MemoryContext,
    subtransaction: pg_sys::SubTransactionId,
    pub(super) lock: pg_sys::LOCKMODE,
    not_send: PhantomData<*mut ()>,
}

/// Opens tables of schema `claims`, locks them ROW EXCLUSIVE until the end of the transaction, and calls `body`. Code after it sees
/// what `body` has written; `body` itself does not. Waits for the locks up to the lock timeout. Returns `None`, and calls nothing, if a table differs from its layout. Raises 25006 in a
/// read-only transaction, and 25000 in parallel mode.
pub fn open<const N: usize, T>(layouts: [&'static Layout; N], body: impl FnOnce([&Table; N]) -> T) -> Option<T> {
    // SAFETY: both only raise errors. The names are those that an INSERT would have in the message.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(c"INSERT".as_ptr());
        pg_sys::PreventCommandIfParallelMode(c"INSERT".as_ptr());
    }
    let result = with_tables(layouts, WRITING, body);
    // SAFETY: what comes after in this transaction sees what was written, as after a statement.
    unsafe { pg_sys::CommandCounterIncrement() };
    result
}

/// Opens tables of schema `claims` for reading, locks them ACCESS SHARE meanwhile, and calls `body`. Returns `None`, and calls nothing, if a
/// table differs from its layout, or is distributed.
pub fn read<const N: usize, T>(layouts: [&'static Layout; N], body: impl FnOnce([&Table; N]) -> T) -> Option<T> {
    with_tables(layouts, READING, body)
}

fn with_tables<const N: usize, T>(
    layouts: [&'static Layout; N],
    lock: pg_sys::LOCKMODE,
    body: impl FnOnce([&Table; N]) -> T,
) -> Option<T> {
    let mut tables: Vec<Table> = Vec::with_capacity(N);
    for layout in layouts {
        match Table::open(layout, lock) {
            Some(table) => tables.push(table),
            None => break,
        }
    }
    let result = (tables.len() == N).then(|| body(std::array::from_fn(|at| &tables[at])));
    // After an error, the end of the (sub)transaction closes them.
    tables.into_iter().for_each(Table::close);
    result
}

/// Returns the lock to release when a table is closed. The locks of a writer stay until the end of the transaction.
pub(super) fn released(lock: pg_sys::LOCKMODE) -> pg_sys::LOCKMODE {
    if lock == READING { READING } else { NO_LOCK }
}

impl Table {
    fn open(layout: &'static Layout, lock: pg_sys::LOCKMODE) -> Option<Table> {
        // SAFETY: relations that were opened are closed here or by `close`; those that were dropped are NULL. The comparison
        // uses a locked relation.
        unsafe {
            let mut oid = known(layout);
            let relation = loop {
                let number = oid.or_else(|| table::number(layout.name))?;
                let relation = pg_sys::try_relation_open(number, lock);
                // The lock has processed the invalidation messages: the table may have been replaced by another one.
                let is_current = known(layout) == Some(number) || table::number(layout.name) == Some(number);
                match (relation.is_null(), is_current) {
                    (false, true) => break relation,
                    (false, false) => pg_sys::relation_close(relation, lock),
                    (true, _) if oid.is_none() => return None,
                    (true, _) => {}
                }
                oid = None;
            };
            // If the table is distributed now, its rows are on other nodes. Whoever reads looks there.
            compatibility::require();
            if lock == WRITING {
                statement::require(Reach::Here);
            }
            let shape = if statement::are_distributed() { None } else { compare(layout, relation).ok() };
            let unique = shape.and_then(|shape| {
                let index = pg_sys::index_open(*shape.indexes.first()?, lock);
                if crate::index::is_too_new(index) {
                    pg_sys::index_close(index, released(lock));
                    return None;
                }
                Some((shape, index))
            });
            let Some((shape, unique)) = unique else {
                pg_sys::relation_close(relation, released(lock));
                return None;
            };
            Some(Table {
                relation,
                layout,
                shape,
                unique,
                indexes: OnceCell::new(),
                written: OnceCell::new(),
                locked: OnceCell::new(),
                context: pg_sys::CurrentMemoryContext,
                subtransaction: GetCurrentSubTransactionId(),
                lock,
                not_send: PhantomData,
            })
        }
    }

    fn close(self) {
        self.must_be_usable();
        let lock = released(self.lock);
        // SAFETY: all were opened in this subtransaction.
        unsafe {
            for slot in [self.written.get(), self.locked.get()].into_iter().flatten() {
                pg_sys::ExecDropSingleTupleTableSlot(*slot);
            }
            for index in self.indexes.into_inner().into_iter().flatten().skip(1) {
                pg_sys::index_close(index.relation, lock);
            }
            pg_sys::index_close(self.unique, lock);
            pg_sys::relation_close(self.relation, lock);
        }
    }

    /// The relations and slots belong to the subtransaction in which they were opened, and only a call in the same one may
    /// use them or open more.
    pub(super) fn must_be_usable(&self) {
        // SAFETY: reads a backend variable, and raises no error.
        let now = unsafe { GetCurrentSubTransactionId() };
        assert!(now == self.subtransaction, "table is used in another subtransaction");
    }

    pub(super) fn must_be_writable(&self) {
        self.must_be_usable();
        assert!(self.lock == WRITING, "table was opened for reading");
        // Whether a row belongs to a partial index is not tested here.
        let has_partial = self.layout.indexes.iter().any(|index| index.predicate.is_some());
        assert!(!has_partial, "table has partial indexes");
    }

    /// Its position means another row in another table.
    pub(super) fn must_have(&self, row: &Row) {
        assert!(std::ptr::eq(row.table, self), "row is of another table");
    }

    /// Runs a call that allocates memory for as long as this table is open.
    pub(super) fn with_memory<T>(&self, call: impl FnOnce() -> T) -> T {
        // SAFETY: the context was current when the table was opened, and the table is closed before it ends.
        unsafe {
            let outer = pg_sys::MemoryContextSwitchTo(self.context);
            let result = call();
            pg_sys::MemoryContextSwitchTo(outer);
            result
        }
    }

    /// Returns all indexes, in the order of the layout.
    pub(super) fn indexes(&self) -> &[Index] {
        self.indexes.get_or_init(|| {
            let others = self.shape.indexes.iter().skip(1);
            // SAFETY: the lock on the table keeps its indexes from being dropped. The memory is that of the slots.
            self.with_memory(|| unsafe {
                let others = others.map(|index| pg_sys::index_open(*index, self.lock));
                std::iter::once(self.unique).chain(others).map(|index| Index::of(index)).collect()
            })
        })
    }
}

/// A row that a scan has found. It is valid until the scan looks for the next one.
pub struct Row<'s> {
    pub(super) slot: *mut pg_sys::TupleTableSlot,
    pub(super) table: &'s Table,
}

impl Row<'_> {
    /// Returns a column by its position in the layout; `None` is NULL.
    pub fn get<T: Column>(&self, column: usize) -> Option<T> {
        let wanted = &self.table.layout.columns[column];
        assert!(T::fits(wanted.type_oid), "{:?} is read as another type", wanted.name);
        let number = self.table.shape.columns[column];
        // SAFETY: the slot holds a row of the table, whose column has the type of the layout.
        unsafe { column_of(self.slot, number).and_then(|value| T::read(value)) }
    }

    /// Returns a column that cannot be NULL.
    pub fn must<T: Column>(&self, column: usize) -> T {
        self.get(column).unwrap_or_else(|| {
            let name = self.table.layout.columns[column].name.to_string_lossy().into_owned();
            altered::raise(Altered::Null { name })
        })
    }
}

/// Returns a column of the row in a slot, by its number from 1; `None` is NULL. Deforms the whole row, because the next columns are read, too.
///
/// # Safety
/// The slot holds a row that has the column. The value lives as long as the row is there.
pub(super) unsafe fn column_of(slot: *mut pg_sys::TupleTableSlot, number: usize) -> Option<pg_sys::Datum> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if usize::try_from((*slot).tts_nvalid).unwrap_or(0) < number {
            pg_sys::slot_getsomeattrs_int(slot, (*(*slot).tts_tupleDescriptor).natts);
        }
        (!*(*slot).tts_isnull.add(number - 1)).then(|| *(*slot).tts_values.add(number - 1))
    }
}
