//! Tables that are open for reading and writing without statements.

use std::cell::OnceCell;
use std::marker::PhantomData;
use std::rc::Rc;

use pgrx::pg_sys;

use super::indexes::{self, Entries, Index};
use super::layout::{Layout, Shape, compare, known};
use crate::statement::{self, Reach};
use crate::value::{Column, Value};
use crate::{compatibility, table};

/// Locks until the end of the transaction, as those of INSERT, UPDATE and DELETE.
const LOCK: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

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
    slot: *mut pg_sys::TupleTableSlot,
    /// A slot for the version of a row that was locked.
    locked: OnceCell<*mut pg_sys::TupleTableSlot>,
    /// The memory in which the slots are.
    context: pg_sys::MemoryContext,
    subtransaction: pg_sys::SubTransactionId,
    not_send: PhantomData<*mut ()>,
}

/// Another row has the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The position among the rows of one call.
    pub row: usize,
}

/// The strength of a row lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLock {
    /// For updates that change no key.
    NoKeyUpdate,
    /// For deletes.
    Update,
}

/// The result of locking or changing a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Done,
    /// Another open transaction has locked or written the row.
    Busy,
    /// Another transaction has updated or deleted the row since the snapshot.
    Since,
    /// This transaction has changed it since the snapshot, or inserted it.
    ByUs,
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
    let mut tables: Vec<Table> = Vec::with_capacity(N);
    for layout in layouts {
        match Table::open(layout) {
            Some(table) => tables.push(table),
            None => break,
        }
    }
    let result = (tables.len() == N).then(|| body(std::array::from_fn(|at| &tables[at])));
    // SAFETY: what comes after in this transaction sees what was written, as after a statement.
    unsafe { pg_sys::CommandCounterIncrement() };
    // After an error, the end of the (sub)transaction closes them.
    tables.into_iter().for_each(Table::close);
    result
}

impl Table {
    fn open(layout: &'static Layout) -> Option<Table> {
        statement::require(Reach::Here);
        // SAFETY: relations that were opened are closed here or by `close`; those that were dropped are NULL. The comparison
        // uses a locked relation.
        unsafe {
            let mut oid = known(layout).map(|shape| shape.relation);
            let relation = loop {
                let number = oid.or_else(|| table::number(layout.name))?;
                let relation = pg_sys::try_relation_open(number, LOCK);
                // The lock has processed the invalidation messages: the table may have been replaced by another one.
                let is_current = known(layout).is_some_and(|shape| shape.relation == number)
                    || table::number(layout.name) == Some(number);
                match (relation.is_null(), is_current) {
                    (false, true) => break relation,
                    (false, false) => pg_sys::relation_close(relation, LOCK),
                    (true, _) if oid.is_none() => return None,
                    (true, _) => {}
                }
                oid = None;
            };
            // If the table is distributed now, its rows are on other nodes.
            compatibility::require();
            statement::require(Reach::Here);
            let unique = compare(layout, relation).ok().and_then(|shape| {
                let index = pg_sys::index_open(*shape.indexes.first()?, LOCK);
                if crate::index::is_too_new(index) {
                    pg_sys::index_close(index, NO_LOCK);
                    return None;
                }
                Some((shape, index))
            });
            let Some((shape, unique)) = unique else {
                pg_sys::relation_close(relation, NO_LOCK);
                return None;
            };
            Some(Table {
                relation,
                layout,
                shape,
                unique,
                indexes: OnceCell::new(),
                slot: pg_sys::MakeSingleTupleTableSlot((*relation).rd_att, &raw const pg_sys::TTSOpsVirtual),
                locked: OnceCell::new(),
                context: pg_sys::CurrentMemoryContext,
                subtransaction: pg_sys::GetCurrentSubTransactionId(),
                not_send: PhantomData,
            })
        }
    }

    fn close(self) {
        self.must_be_usable();
        // SAFETY: all were opened in this subtransaction. The locks stay.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            if let Some(locked) = self.locked.get() {
                pg_sys::ExecDropSingleTupleTableSlot(*locked);
            }
            for index in self.indexes.into_inner().into_iter().flatten().skip(1) {
                pg_sys::index_close(index.relation, NO_LOCK);
            }
            pg_sys::index_close(self.unique, NO_LOCK);
            pg_sys::relation_close(self.relation, NO_LOCK);
        }
    }

    /// The relations and slots belong to the subtransaction in which they were opened, and only a call in the same one may
    /// use them or open more.
    pub(super) fn must_be_usable(&self) {
        // SAFETY: reads a backend variable.
        let now = unsafe { pg_sys::GetCurrentSubTransactionId() };
        assert!(now == self.subtransaction, "table is used in another subtransaction");
    }

    /// Returns all indexes, in the order of the layout.
    fn indexes(&self) -> &[Index] {
        self.indexes.get_or_init(|| {
            let others = self.shape.indexes.iter().skip(1);
            // SAFETY: the lock on the table keeps its indexes from being dropped. The memory is that of the slots.
            unsafe {
                let outer = pg_sys::MemoryContextSwitchTo(self.context);
                let others = others.map(|index| pg_sys::index_open(*index, LOCK));
                let all = std::iter::once(self.unique).chain(others).map(|index| Index::of(index)).collect();
                pg_sys::MemoryContextSwitchTo(outer);
                all
            }
        })
    }

    /// Inserts a row with these values, in the order of the layout's columns. Where another row has the key of a unique index, even
    /// one of a transaction that is still open, the row and some of its index entries are in the table all the same: the caller must
    /// roll back the (sub)transaction.
    pub fn insert_if_free(&self, values: &[Value]) -> Result<(), Conflict> {
        if self.insert_row(values, &Entries::IfFree) { Ok(()) } else { Err(Conflict { row: 0 }) }
    }

    /// Inserts a row with these values, in the order of the layout's columns. Another row with the key of a unique index is a unique
    /// violation. If an open transaction has written it, waits for that up to the lock timeout.
    pub fn insert(&self, values: &[Value]) {
        self.insert_row(values, &Entries::OrRaise);
    }

    fn insert_row(&self, values: &[Value], entries: &Entries) -> bool {
        self.must_be_usable();
        self.fill(self.slot, values);
        // SAFETY: the slot holds a row of the table. Its values live until the end of the call, as do the index entries.
        unsafe {
            let command = pg_sys::GetCurrentCommandId(true);
            pg_sys::table_tuple_insert(self.relation, self.slot, command, 0, std::ptr::null_mut());
            let entered = self.enter(self.slot, entries);
            pg_sys::ExecClearTuple(self.slot);
            entered
        }
    }

    /// Like [`Table::insert_if_free`], for many rows. Stops at the first one whose key exists.
    pub fn insert_all_if_free(&self, rows: &[Vec<Value>]) -> Result<(), Conflict> {
        self.must_be_usable();
        for (part, rows) in rows.chunks(ROWS_AT_ONCE).enumerate() {
            let slots: Vec<_> = rows.iter().map(|row| self.new_slot(row)).collect();
            let conflict = self.insert_slots(&slots);
            for slot in slots {
                // SAFETY: they were made here.
                unsafe { pg_sys::ExecDropSingleTupleTableSlot(slot) };
            }
            if let Some(row) = conflict {
                return Err(Conflict { row: part * ROWS_AT_ONCE + row });
            }
        }
        Ok(())
    }

    /// Returns the position of the first row whose key exists.
    fn insert_slots(&self, slots: &[*mut pg_sys::TupleTableSlot]) -> Option<usize> {
        let mut list = slots.to_vec();
        // SAFETY: the slots hold rows of the table, whose values outlive this call.
        unsafe {
            let command = pg_sys::GetCurrentCommandId(true);
            let count = i32::try_from(list.len()).unwrap_or(0);
            pg_sys::table_multi_insert(self.relation, list.as_mut_ptr(), count, command, 0, std::ptr::null_mut());
            slots.iter().position(|slot| {
                pg_sys::check_for_interrupts!();
                !self.enter(*slot, &Entries::IfFree)
            })
        }
    }

    fn new_slot(&self, values: &[Value]) -> *mut pg_sys::TupleTableSlot {
        // SAFETY: in the memory that lives as long as this table.
        let slot = unsafe {
            let outer = pg_sys::MemoryContextSwitchTo(self.context);
            let slot = pg_sys::MakeSingleTupleTableSlot((*self.relation).rd_att, &raw const pg_sys::TTSOpsVirtual);
            pg_sys::MemoryContextSwitchTo(outer);
            slot
        };
        self.fill(slot, values);
        slot
    }

    /// Lets a slot of this table hold a row with these values.
    fn fill(&self, slot: *mut pg_sys::TupleTableSlot, values: &[Value]) {
        assert!(values.len() == self.layout.columns.len(), "a row needs a value for each column");
        // SAFETY: the slot has as many places as the table has columns, and the numbers are those of its columns. The types
        // are compared, so each value is one of its column's type.
        unsafe {
            pg_sys::ExecClearTuple(slot);
            let width = crate::tuple::width((*slot).tts_tupleDescriptor);
            std::slice::from_raw_parts_mut((*slot).tts_isnull, width).fill(true);
            for (at, value) in values.iter().enumerate() {
                self.set(slot, at, value);
            }
            pg_sys::ExecStoreVirtualTuple(slot);
        }
    }

    /// # Safety
    /// A virtual slot of this table.
    unsafe fn set(&self, slot: *mut pg_sys::TupleTableSlot, column: usize, value: &Value) {
        let wanted = &self.layout.columns[column];
        assert!(value.type_oid() == wanted.type_oid, "value of another type for {:?}", wanted.name);
        let (datum, null) = value.parts();
        let is_null = null == b'n' as std::ffi::c_char;
        assert!(!(is_null && wanted.is_not_null), "no value for {:?}", wanted.name);
        // SAFETY: guaranteed by the caller.
        unsafe {
            *(*slot).tts_values.add(self.shape.columns[column] - 1) = datum;
            *(*slot).tts_isnull.add(self.shape.columns[column] - 1) = is_null;
        }
    }

    /// Inserts the entries of the row in a slot into the indexes. Returns false if another row has the key of a unique index.
    ///
    /// # Safety
    /// The slot holds a row of the table, with its position.
    unsafe fn enter(&self, slot: *mut pg_sys::TupleTableSlot, entries: &Entries) -> bool {
        self.indexes().iter().zip(self.layout.indexes).all(|(index, layout)| {
            // SAFETY: guaranteed by the caller; the index belongs to the table, and has its layout.
            unsafe { indexes::insert(self.relation, *index, layout, &self.shape.columns, slot, entries) }
        })
    }

    /// Locks a row until the end of the transaction, if nobody else has locked or written it. Never waits.
    pub fn lock(&self, row: &Row, lock: RowLock) -> Changed {
        self.must_be_usable();
        let mode = match lock {
            RowLock::NoKeyUpdate => pg_sys::LockTupleMode::LockTupleNoKeyExclusive,
            RowLock::Update => pg_sys::LockTupleMode::LockTupleExclusive,
        };
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: the slot of the locked version is of the table's kind.
        unsafe {
            let locked = *self.locked.get_or_init(|| {
                let outer = pg_sys::MemoryContextSwitchTo(self.context);
                let slot = pg_sys::table_slot_create(self.relation, std::ptr::null_mut());
                pg_sys::MemoryContextSwitchTo(outer);
                slot
            });
            let mut tid = (*row.slot).tts_tid;
            let result = pg_sys::table_tuple_lock(
                self.relation,
                &raw mut tid,
                pg_sys::GetActiveSnapshot(),
                locked,
                pg_sys::GetCurrentCommandId(true),
                mode,
                pg_sys::LockWaitPolicy::LockWaitSkip,
                0,
                &raw mut failure,
            );
            pg_sys::ExecClearTuple(locked);
            outcome(result)
        }
    }

    /// Deletes a row. The caller has locked it, or knows that no other transaction writes it: otherwise this waits up to the
    /// lock timeout.
    pub fn delete(&self, row: &Row) -> Changed {
        self.must_be_usable();
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: the position is that of a row of the table.
        unsafe {
            pg_sys::CheckCmdReplicaIdentity(self.relation, pg_sys::CmdType::CMD_DELETE);
            let mut tid = (*row.slot).tts_tid;
            outcome(pg_sys::table_tuple_delete(
                self.relation,
                &raw mut tid,
                pg_sys::GetCurrentCommandId(true),
                pg_sys::GetActiveSnapshot(),
                std::ptr::null_mut(),
                true,
                &raw mut failure,
                false,
            ))
        }
    }

    /// Changes columns of a row, by their positions in the layout. Waits as [`Table::delete`].
    pub fn update(&self, row: &Row, changes: &[(usize, Value)]) -> Changed {
        self.must_be_usable();
        let mut failure = pg_sys::TM_FailureData::default();
        let mut lock_mode = pg_sys::LockTupleMode::LockTupleNoKeyExclusive;
        // SAFETY: the new row has the values of the old one, which its slot holds, and those of the caller; all of them live
        // until the end of the call.
        unsafe {
            pg_sys::CheckCmdReplicaIdentity(self.relation, pg_sys::CmdType::CMD_UPDATE);
            pg_sys::slot_getallattrs(row.slot);
            pg_sys::ExecClearTuple(self.slot);
            let width = crate::tuple::width((*self.slot).tts_tupleDescriptor);
            std::ptr::copy_nonoverlapping((*row.slot).tts_values, (*self.slot).tts_values, width);
            std::ptr::copy_nonoverlapping((*row.slot).tts_isnull, (*self.slot).tts_isnull, width);
            for (column, value) in changes {
                self.set(self.slot, *column, value);
            }
            pg_sys::ExecStoreVirtualTuple(self.slot);
            let mut tid = (*row.slot).tts_tid;
            let mut needs_entries = Default::default();
            let result = outcome(pg_sys::table_tuple_update(
                self.relation,
                &raw mut tid,
                self.slot,
                pg_sys::GetCurrentCommandId(true),
                pg_sys::GetActiveSnapshot(),
                std::ptr::null_mut(),
                true,
                &raw mut failure,
                &raw mut lock_mode,
                &raw mut needs_entries,
            ));
            if result == Changed::Done && indexes::are_needed(needs_entries) {
                let changed: Vec<usize> = changes.iter().map(|(column, _)| *column).collect();
                self.enter(self.slot, &Entries::OfNewVersion { changed: &changed });
            }
            pg_sys::ExecClearTuple(self.slot);
            result
        }
    }
}

/// The rows that one call of the table access method inserts, at most. COPY inserts as many.
const ROWS_AT_ONCE: usize = 1000;

fn outcome(result: pg_sys::TM_Result::Type) -> Changed {
    match result {
        pg_sys::TM_Result::TM_Ok => Changed::Done,
        pg_sys::TM_Result::TM_Updated | pg_sys::TM_Result::TM_Deleted => Changed::Since,
        pg_sys::TM_Result::TM_SelfModified | pg_sys::TM_Result::TM_Invisible => Changed::ByUs,
        _ => Changed::Busy,
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
        // SAFETY: the slot holds a row of the table, whose column has the type of the layout. It is deformed up to the column.
        unsafe {
            if usize::try_from((*self.slot).tts_nvalid).unwrap_or(0) < number {
                pg_sys::slot_getsomeattrs_int(self.slot, std::ffi::c_int::try_from(number).unwrap_or(0));
            }
            if *(*self.slot).tts_isnull.add(number - 1) {
                None
            } else {
                T::read(*(*self.slot).tts_values.add(number - 1))
            }
        }
    }
}
