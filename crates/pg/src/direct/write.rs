//! Writes rows of a table, with their index entries.

use pgrx::pg_sys;

use super::indexes::{self, Entries};
use super::scan::Position;
use super::sequence;
use super::table::{Row, Table};
use crate::memory;
use crate::value::Value;

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

impl Table {
    /// Inserts a row with these values, in the order of the layout's columns. Where another row has the key of a unique index, even
    /// one of a transaction that is still open, the row and some of its index entries are in the table all the same: the caller must
    /// roll back the (sub)transaction. Returns the row's position.
    pub fn insert_if_free(&self, values: &[Value]) -> Result<Position, Conflict> {
        self.insert_row(values, &Entries::IfFree).ok_or(Conflict { row: 0 })
    }

    /// Draws the next number of the identity column, as an INSERT without a value for the column does.
    pub fn next_identity(&self) -> i64 {
        self.must_be_writable();
        let Some(sequence) = self.shape.sequence else { panic!("{:?} has no identity column", self.layout.name) };
        // SAFETY: the sequence belongs to the column, and the lock on the table keeps it from being dropped.
        unsafe { sequence::next(sequence) }
    }

    /// Inserts a row with these values, in the order of the layout's columns. Another row with the key of a unique index is a unique
    /// violation. If an open transaction has written it, waits for that up to the lock timeout.
    pub fn insert(&self, values: &[Value]) {
        self.insert_row(values, &Entries::OrRaise);
    }

    /// Returns `None` if another row has the key.
    fn insert_row(&self, values: &[Value], entries: &Entries) -> Option<Position> {
        self.must_be_writable();
        let slot = self.written_slot();
        self.fill(slot, values);
        // SAFETY: the slot holds a row of the table. Its values live until the end of the call, as do the index entries.
        unsafe {
            let command = pg_sys::GetCurrentCommandId(true);
            pg_sys::table_tuple_insert(self.relation, slot, command, 0, std::ptr::null_mut());
            let position = self.enter(slot, entries).then(|| Position((*slot).tts_tid));
            pg_sys::ExecClearTuple(slot);
            position
        }
    }

    /// Like [`Table::insert_if_free`], but leaves nothing behind where another row has the key: no subtransaction is needed. It inserts as
    /// INSERT … ON CONFLICT does.
    pub fn insert_or_leave(&self, values: &[Value]) -> Result<(), Conflict> {
        self.must_be_writable();
        let slot = self.written_slot();
        self.fill(slot, values);
        // SAFETY: the slot holds a row of the table. Its values live until the end of the call, as do the index entries. An error ends the
        // (sub)transaction, and with it the row and the lock.
        let entered = unsafe {
            let xid = pg_sys::GetCurrentTransactionId();
            let token = pg_sys::SpeculativeInsertionLockAcquire(xid);
            let command = pg_sys::GetCurrentCommandId(true);
            pg_sys::table_tuple_insert_speculative(self.relation, slot, command, 0, std::ptr::null_mut(), token);
            let entered = self.enter(slot, &Entries::IfFree);
            pg_sys::table_tuple_complete_speculative(self.relation, slot, token, entered);
            pg_sys::SpeculativeInsertionLockRelease(xid);
            pg_sys::ExecClearTuple(slot);
            entered
        };
        if entered { Ok(()) } else { Err(Conflict { row: 0 }) }
    }

    /// Like [`Table::insert_if_free`], for many rows. Stops at the first one whose key exists. Returns their positions. What a part of the rows
    /// needs is freed before the next one is made: memory that a process uses for the first time takes longer than memory that it has used.
    pub fn insert_all_if_free<R: AsRef<[Value]>>(
        &self,
        mut rows: impl ExactSizeIterator<Item = R>,
    ) -> Result<Vec<Position>, Conflict> {
        self.must_be_writable();
        let batch = SlotBatch::new(self, rows.len().min(ROWS_AT_ONCE));
        let (mut positions, mut part) = (Vec::with_capacity(rows.len()), Vec::with_capacity(batch.slots.len()));
        while rows.len() > 0 {
            part.clear();
            part.extend(rows.by_ref().take(ROWS_AT_ONCE));
            let slots = &batch.slots[..part.len()];
            slots.iter().zip(&part).for_each(|(slot, row)| self.fill(*slot, row.as_ref()));
            if let Some(row) = memory::in_temporary(|| self.insert_slots(slots)) {
                return Err(Conflict { row: positions.len() + row });
            }
            // SAFETY: the slots hold rows that were inserted.
            positions.extend(slots.iter().map(|slot| Position(unsafe { (**slot).tts_tid })));
        }
        Ok(positions)
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

    /// Returns a new slot for a row to write. The caller drops it.
    fn empty_slot(&self) -> *mut pg_sys::TupleTableSlot {
        // SAFETY: the relation is open.
        self.with_memory(|| unsafe {
            pg_sys::MakeSingleTupleTableSlot((*self.relation).rd_att, &raw const pg_sys::TTSOpsVirtual)
        })
    }

    /// Returns the table's own slot for a row to write.
    fn written_slot(&self) -> *mut pg_sys::TupleTableSlot {
        *self.written.get_or_init(|| self.empty_slot())
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
        self.must_be_writable();
        self.must_have(row);
        let mode = match lock {
            RowLock::NoKeyUpdate => pg_sys::LockTupleMode::LockTupleNoKeyExclusive,
            RowLock::Update => pg_sys::LockTupleMode::LockTupleExclusive,
        };
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: the slot of the locked version is of the table's kind.
        unsafe {
            let locked = *self
                .locked
                .get_or_init(|| self.with_memory(|| pg_sys::table_slot_create(self.relation, std::ptr::null_mut())));
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

    /// Deletes a row, if nobody has locked it, this transaction included, and nobody else has written it. Never waits.
    pub fn delete_if_free(&self, row: &Row) -> Changed {
        self.delete_row(row, false)
    }

    /// Deletes a row. The caller has locked it, or knows that no other transaction writes it: otherwise this waits up to the
    /// lock timeout.
    pub fn delete(&self, row: &Row) -> Changed {
        self.delete_row(row, true)
    }

    fn delete_row(&self, row: &Row, waits: bool) -> Changed {
        self.must_be_writable();
        self.must_have(row);
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
                waits,
                &raw mut failure,
                false,
            ))
        }
    }

    /// Changes columns of a row, by their positions in the layout. Waits as [`Table::delete`].
    pub fn update(&self, row: &Row, changes: &[(usize, Value)]) -> Changed {
        match self.update_to(row, changes) {
            Ok(_) => Changed::Done,
            Err(other) => other,
        }
    }

    /// Like [`Table::update`]. Returns the position of the new version, or why there is none.
    pub fn update_to(&self, row: &Row, changes: &[(usize, Value)]) -> Result<Position, Changed> {
        self.must_be_writable();
        self.must_have(row);
        let slot = self.written_slot();
        let mut failure = pg_sys::TM_FailureData::default();
        let mut lock_mode = pg_sys::LockTupleMode::LockTupleNoKeyExclusive;
        // SAFETY: the new row has the values of the old one, which its slot holds, and those of the caller; all of them live
        // until the end of the call.
        unsafe {
            pg_sys::CheckCmdReplicaIdentity(self.relation, pg_sys::CmdType::CMD_UPDATE);
            pg_sys::slot_getallattrs(row.slot);
            pg_sys::ExecClearTuple(slot);
            let width = crate::tuple::width((*slot).tts_tupleDescriptor);
            std::ptr::copy_nonoverlapping((*row.slot).tts_values, (*slot).tts_values, width);
            std::ptr::copy_nonoverlapping((*row.slot).tts_isnull, (*slot).tts_isnull, width);
            for (column, value) in changes {
                self.set(slot, *column, value);
            }
            pg_sys::ExecStoreVirtualTuple(slot);
            let mut tid = (*row.slot).tts_tid;
            let mut needs_entries = Default::default();
            let result = outcome(pg_sys::table_tuple_update(
                self.relation,
                &raw mut tid,
                slot,
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
                self.enter(slot, &Entries::OfNewVersion { changed: &changed });
            }
            let position = Position((*slot).tts_tid);
            pg_sys::ExecClearTuple(slot);
            if result == Changed::Done { Ok(position) } else { Err(result) }
        }
    }
}

/// The rows that one call of the table access method inserts, at most. With as many as COPY inserts, 1000, the slots and rows are not in the
/// processor's cache any more when their index entries are inserted.
const ROWS_AT_ONCE: usize = 250;

/// Slots for the rows of a table. They share a description of their own: a slot with the table's description registers a reference to it with the
/// resource owner, which takes as long as filling the slot.
struct SlotBatch {
    slots: Vec<*mut pg_sys::TupleTableSlot>,
    description: pg_sys::TupleDesc,
}

impl SlotBatch {
    fn new(table: &Table, count: usize) -> Self {
        // SAFETY: the relation is open. The copy counts no references, and lives as long as the slots.
        table.with_memory(|| unsafe {
            let description = pg_sys::CreateTupleDescCopy((*table.relation).rd_att);
            let slot = |_| pg_sys::MakeSingleTupleTableSlot(description, &raw const pg_sys::TTSOpsVirtual);
            SlotBatch { slots: (0..count).map(slot).collect(), description }
        })
    }
}

impl Drop for SlotBatch {
    fn drop(&mut self) {
        // After an error the memory ends with the (sub)transaction, and freeing it must not raise another one.
        if std::thread::panicking() {
            return;
        }
        // SAFETY: both were made in `new`, and nothing else refers to them.
        unsafe {
            self.slots.iter().for_each(|slot| pg_sys::ExecDropSingleTupleTableSlot(*slot));
            pg_sys::FreeTupleDesc(self.description);
        }
    }
}

fn outcome(result: pg_sys::TM_Result::Type) -> Changed {
    match result {
        pg_sys::TM_Result::TM_Ok => Changed::Done,
        pg_sys::TM_Result::TM_Updated | pg_sys::TM_Result::TM_Deleted => Changed::Since,
        pg_sys::TM_Result::TM_SelfModified | pg_sys::TM_Result::TM_Invisible => Changed::ByUs,
        _ => Changed::Busy,
    }
}
