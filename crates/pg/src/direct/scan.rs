//! Looks rows up by their keys.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use pgrx::pg_sys;

use super::layout::IndexKey;
use super::table::{Row, Table, column_of, released};
use crate::index::{KeyComparison, KeyValue, begin_scan, is_too_new};

/// The snapshot in which rows are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The snapshot of a separate statement: under READ COMMITTED a new one, with all changes of this transaction so far.
    Statement,
    /// The state that is committed now, whatever the isolation level.
    Latest,
    /// The snapshot of the calling query, for functions that only read.
    Caller,
}

/// The position at which a version of a row was written. Another row may be there later, or none.
#[derive(Debug, Clone, Copy)]
pub struct Position(pub(super) pg_sys::ItemPointerData);

/// A scan of the unique index of a table.
pub struct KeyScan<'t> {
    table: &'t Table,
    snapshot: pg_sys::Snapshot,
    /// Begun for the first key that is searched. Where all rows are at the positions that the caller remembers, that is none.
    scan: OnceCell<pg_sys::IndexScanDesc>,
    slot: *mut pg_sys::TupleTableSlot,
    /// The number of pages of the table when it was first asked for.
    pages: OnceCell<pg_sys::BlockNumber>,
}

/// Scans of the indexes of a table, all in one snapshot.
pub struct Scans<'t> {
    table: &'t Table,
    slot: *mut pg_sys::TupleTableSlot,
}

/// A condition on a key column of an index.
pub struct Bound<'b> {
    /// The position of the column in the index.
    pub at: usize,
    pub comparison: KeyComparison,
    pub value: KeyValue<'b>,
}

/// An index is newer than the snapshot, and may miss rows of it (`indcheckxmin`).
#[derive(Debug)]
pub struct TooNew;

impl Table {
    /// Calls `body` with a scan of the unique index. The snapshot is active meanwhile, so values that are stored outside of the
    /// row can be read.
    pub fn look_up<T>(&self, reading: Reading, body: impl FnOnce(&mut KeyScan) -> T) -> T {
        self.in_snapshot(reading, |slot| {
            // SAFETY: the snapshot is active until the scan has ended. After an error, the end of the (sub)transaction releases the scan.
            let snapshot = unsafe { pg_sys::GetActiveSnapshot() };
            let mut keys = KeyScan { table: self, snapshot, scan: OnceCell::new(), slot, pages: OnceCell::new() };
            let result = body(&mut keys);
            if let Some(scan) = keys.scan.into_inner() {
                // SAFETY: it was begun for a key.
                unsafe { pg_sys::index_endscan(scan) };
            }
            result
        })
    }

    /// Calls `body` with scans of all indexes. The snapshot is active meanwhile.
    pub fn scans<T>(&self, reading: Reading, body: impl FnOnce(&mut Scans) -> T) -> T {
        self.in_snapshot(reading, |slot| body(&mut Scans { table: self, slot }))
    }

    fn in_snapshot<T>(&self, reading: Reading, body: impl FnOnce(*mut pg_sys::TupleTableSlot) -> T) -> T {
        self.must_be_usable();
        // SAFETY: after an error, the end of the (sub)transaction releases slot and snapshot.
        unsafe {
            let snapshot = match reading {
                Reading::Statement => pg_sys::GetTransactionSnapshot(),
                Reading::Latest => pg_sys::GetLatestSnapshot(),
                Reading::Caller => {
                    assert!(pg_sys::ActiveSnapshotSet(), "no snapshot is active");
                    pg_sys::GetActiveSnapshot()
                }
            };
            pg_sys::PushActiveSnapshot(snapshot);
            let slot = pg_sys::table_slot_create(self.relation, std::ptr::null_mut());
            let result = body(slot);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            pg_sys::PopActiveSnapshot();
            result
        }
    }
}

impl Scans<'_> {
    /// Calls `each` for the rows of an index, by its position in the layout, that fulfil the conditions, in the order of the index,
    /// until it breaks. The conditions are on the first columns of the index. The rows of a partial index fulfil its predicate.
    pub fn walk<B>(
        &mut self,
        index: usize,
        bounds: &[Bound],
        mut each: impl FnMut(&Row) -> ControlFlow<B>,
    ) -> Result<Option<B>, TooNew> {
        self.table.must_be_usable();
        let mut conditions: Vec<_> = bounds.iter().map(|bound| self.condition(index, bound)).collect();
        let lock = self.table.lock;
        // SAFETY: the snapshot is active, the slot is of the table's kind, and the values of the conditions are in memory that lives as long
        // as the caller's. The table's lock keeps its indexes. After an error, the end of the (sub)transaction releases all.
        unsafe {
            let relation = pg_sys::index_open(self.table.shape.indexes[index], lock);
            if is_too_new(relation) {
                pg_sys::index_close(relation, released(lock));
                return Err(TooNew);
            }
            let count = i32::try_from(conditions.len()).unwrap_or(0);
            let scan = begin_scan(self.table.relation, relation, pg_sys::GetActiveSnapshot(), count);
            pg_sys::index_rescan(scan, conditions.as_mut_ptr(), count, std::ptr::null_mut(), 0);
            let row = Row { slot: self.slot, table: self.table };
            let mut found = None;
            while found.is_none()
                && pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, self.slot)
            {
                pg_sys::check_for_interrupts!();
                found = each(&row).break_value();
            }
            pg_sys::index_endscan(scan);
            pg_sys::ExecClearTuple(self.slot);
            pg_sys::index_close(relation, released(lock));
            Ok(found)
        }
    }

    fn condition(&self, index: usize, bound: &Bound) -> pg_sys::ScanKeyData {
        let layout = self.table.layout;
        let IndexKey::Column(column) = layout.indexes[index].keys[bound.at] else {
            panic!("a condition is on a column of the table");
        };
        let column = &layout.columns[column];
        assert!(bound.value.type_oid() == column.type_oid, "value of another type for {:?}", column.name);
        bound.value.compared(bound.at, bound.comparison)
    }
}

impl KeyScan<'_> {
    /// Returns the row with a key that passes a test. The values of the key are in the order of the index.
    ///
    /// An old snapshot may show two rows with one key: one that another transaction has deleted since, and one that this transaction
    /// has inserted then.
    pub fn find<const N: usize>(&mut self, key: [KeyValue; N], is_wanted: impl FnMut(&Row) -> bool) -> Option<Row<'_>> {
        self.find_from(None, key, is_wanted)
    }

    /// Like [`KeyScan::find`], but looks at a position first. The index is searched only if the row is not there.
    pub fn find_from<const N: usize>(
        &mut self,
        position: Option<Position>,
        key: [KeyValue; N],
        mut is_wanted: impl FnMut(&Row) -> bool,
    ) -> Option<Row<'_>> {
        self.table.must_be_usable();
        pg_sys::check_for_interrupts!();
        let mut conditions = self.conditions(key);
        let row = Row { slot: self.slot, table: self.table };
        if position.is_some_and(|at| self.read(at) && self.has_key(&mut conditions) && is_wanted(&row)) {
            return Some(row);
        }
        let (scan, count) = (self.scan(), i32::try_from(N).unwrap_or(0));
        // SAFETY: the conditions are copied; their values are in memory that lives as long as the caller's.
        unsafe { pg_sys::index_rescan(scan, conditions.as_mut_ptr(), count, std::ptr::null_mut(), 0) };
        // SAFETY: the scan is open, and the slot is of the table's kind.
        while unsafe { pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, self.slot) } {
            if is_wanted(&row) {
                return Some(row);
            }
        }
        None
    }

    /// Returns the scan of the index.
    fn scan(&self) -> pg_sys::IndexScanDesc {
        let Table { relation, unique, layout, .. } = *self.table;
        let columns = i32::try_from(layout.indexes[0].keys.len()).unwrap_or(0);
        // SAFETY: table and index are open, and the snapshot is active until the scan has ended. The memory is that of the slots.
        let begin = || self.table.with_memory(|| unsafe { begin_scan(relation, unique, self.snapshot, columns) });
        *self.scan.get_or_init(begin)
    }

    /// Returns the conditions that the columns of the index are equal to the values of a key.
    fn conditions<const N: usize>(&self, key: [KeyValue; N]) -> [pg_sys::ScanKeyData; N] {
        let layout = &self.table.layout.indexes[0];
        assert!(N == layout.keys.len(), "a key has a value for each column of the index");
        let mut conditions = [pg_sys::ScanKeyData::default(); N];
        for (at, (condition, value)) in conditions.iter_mut().zip(key).enumerate() {
            let column = &self.table.layout.columns[layout.keys[at].column()];
            assert!(value.type_oid() == column.type_oid, "key of another type for {:?}", column.name);
            *condition = value.condition(at);
        }
        conditions
    }

    /// Reads the row at a position into the slot. Returns false if the snapshot shows none there.
    fn read(&self, Position(mut tid): Position) -> bool {
        // SAFETY: the relation is open and locked. The slot is of the table's kind, and the snapshot is active.
        unsafe {
            // The table may have been truncated or rewritten since. Its lock keeps that from happening now.
            let pages = *self.pages.get_or_init(|| {
                pg_sys::RelationGetNumberOfBlocksInFork(self.table.relation, pg_sys::ForkNumber::MAIN_FORKNUM)
            });
            pg_sys::ExecClearTuple(self.slot);
            pgrx::itemptr::item_pointer_get_block_number(&raw const tid) < pages
                && pg_sys::table_tuple_fetch_row_version(self.table.relation, &raw mut tid, self.snapshot, self.slot)
        }
    }

    /// Returns whether the row in the slot fulfils the conditions.
    fn has_key(&self, conditions: &mut [pg_sys::ScanKeyData]) -> bool {
        let keys = self.table.layout.indexes[0].keys;
        conditions.iter_mut().zip(keys).all(|(condition, key)| {
            let number = self.table.shape.columns[key.column()];
            // SAFETY: the slot holds a row of the table. The function of the condition compares values of the column's type.
            unsafe {
                column_of(self.slot, number).is_some_and(|value| {
                    let (function, wanted) = (&raw mut condition.sk_func, condition.sk_argument);
                    pg_sys::FunctionCall2Coll(function, condition.sk_collation, value, wanted).value() != 0
                })
            }
        })
    }
}
