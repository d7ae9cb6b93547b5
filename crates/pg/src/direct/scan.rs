//! Looks rows up by their keys.

use std::cell::OnceCell;

use pgrx::pg_sys;

use super::table::{Row, Table, column_of};
use crate::index::{KeyValue, begin_scan};

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

impl Table {
    /// Calls `body` with a scan of the unique index. The snapshot is active meanwhile, so values that are stored outside of the
    /// row can be read.
    pub fn look_up<T>(&self, reading: Reading, body: impl FnOnce(&mut KeyScan) -> T) -> T {
        self.must_be_usable();
        // SAFETY: the snapshot is active until the scan has ended. After an error, the end of the (sub)transaction releases scan,
        // slot and snapshot.
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
            let snapshot = pg_sys::GetActiveSnapshot();
            let mut keys = KeyScan { table: self, snapshot, scan: OnceCell::new(), slot, pages: OnceCell::new() };
            let result = body(&mut keys);
            if let Some(scan) = keys.scan.into_inner() {
                pg_sys::index_endscan(scan);
            }
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            pg_sys::PopActiveSnapshot();
            result
        }
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
