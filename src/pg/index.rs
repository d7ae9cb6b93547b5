//! One key of one index, looked up without a statement: where the executor would cost more than the look itself.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::{FromDatum, IntoDatum, Uuid};

/// One column of a key.
pub enum KeyPart<'k> {
    Text(&'k str),
    Int4(i32),
    Uuid(Uuid),
}

impl KeyPart<'_> {
    /// The operator's function by which the column is compared, and the value.
    fn comparison(&self) -> (u32, Option<pg_sys::Datum>) {
        match self {
            KeyPart::Text(value) => (pg_sys::F_TEXTEQ, value.into_datum()),
            KeyPart::Int4(value) => (pg_sys::F_INT4EQ, value.into_datum()),
            KeyPart::Uuid(value) => (pg_sys::F_UUID_EQ, value.into_datum()),
        }
    }
}

/// A row of the index's table.
pub struct IndexedRow {
    slot: *mut pg_sys::TupleTableSlot,
}

impl IndexedRow {
    /// A column, counted from 1; `None` is NULL, or a column that the table does not have.
    pub fn get<T: FromDatum>(&self, column: usize) -> Option<T> {
        // SAFETY: the slot holds a row, whose first columns are made readable up to the one that is asked for; T is its
        // type by the table's definition.
        unsafe {
            let wanted = i16::try_from(column).unwrap_or(0);
            if i32::from(wanted) > (*(*self.slot).tts_tupleDescriptor).natts || wanted < 1 {
                return None;
            }
            if (*self.slot).tts_nvalid < wanted {
                pg_sys::slot_getsomeattrs_int(self.slot, wanted.into());
            }
            let at = column - 1;
            T::from_datum(*(*self.slot).tts_values.add(at), *(*self.slot).tts_isnull.add(at))
        }
    }

    /// For what is asked of the row as it is stored.
    pub(super) fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        self.slot
    }
}

/// The row with this key of the unique index `claims.<index>` as the calling query sees it. Locks nothing but the
/// definitions of table and index. An index that is gone has no rows.
pub fn find<T>(index: &CStr, key: &[KeyPart], convert: impl FnOnce(&IndexedRow) -> T) -> Option<T> {
    let mut convert = Some(convert);
    let mut found = None;
    // SAFETY: a query is running, so there is a snapshot, and it outlives the scan.
    unsafe {
        scan(index, key, pg_sys::GetActiveSnapshot(), |row| {
            found = convert.take().map(|convert| convert(row));
            false
        });
    }
    found
}

/// Hands over the rows with a key until `each` says `false`. The name is looked up each time, because REINDEX
/// CONCURRENTLY gives it to another index.
///
/// # Safety
/// The snapshot must be one to scan with, and outlive the scan.
pub(super) unsafe fn scan(
    index: &CStr,
    key: &[KeyPart],
    snapshot: pg_sys::Snapshot,
    mut each: impl FnMut(&IndexedRow) -> bool,
) {
    const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    let columns = i32::try_from(key.len()).unwrap_or(0);
    // SAFETY: everything opened here is closed here, or by the end of the (sub)transaction after an error. The keys outlive
    // the scan.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"claims".as_ptr(), true);
        let index = pg_sys::try_relation_open(pg_sys::get_relname_relid(index.as_ptr(), schema), LOCK);
        if index.is_null() {
            return;
        }
        let table = pg_sys::table_open((*(*index).rd_index).indrelid, LOCK);
        let slot = pg_sys::table_slot_create(table, std::ptr::null_mut());
        let mut keys = vec![pg_sys::ScanKeyData::default(); key.len()];
        for ((at, part), column) in keys.iter_mut().zip(key).zip(1..) {
            let (equals, value) = part.comparison();
            let value = value.unwrap_or_else(|| pg_sys::Datum::from(0));
            pg_sys::ScanKeyInit(at, column, pg_sys::BTEqualStrategyNumber as _, equals.into(), value);
        }
        let scan = begin_scan(table, index, snapshot, columns);
        pg_sys::index_rescan(scan, keys.as_mut_ptr(), columns, std::ptr::null_mut(), 0);
        while pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, slot)
            && each(&IndexedRow { slot })
        {}
        pg_sys::index_endscan(scan);
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        pg_sys::relation_close(table, LOCK);
        pg_sys::relation_close(index, LOCK);
    }
}

/// `index_beginscan`, which has an argument more since PostgreSQL 18.
unsafe fn begin_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    columns: i32,
) -> pg_sys::IndexScanDesc {
    #[cfg(not(feature = "pg18"))]
    return unsafe { pg_sys::index_beginscan(table, index, snapshot, columns, 0) };
    #[cfg(feature = "pg18")]
    return unsafe { pg_sys::index_beginscan(table, index, snapshot, std::ptr::null_mut(), columns, 0) };
}
