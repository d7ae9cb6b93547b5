//! Reads tables of schema `claims` without a statement. It reads small ones completely: in a session's first call
//! planning a statement takes longer than reading all rows.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;

use pgrx::pg_sys;

use super::altered::{self, Altered};
use super::cache::{self, Freshness};
use super::compatibility;
use super::text::{c_text, char_byte};
use super::tuple::{attribute, is_named, width};
use super::value::Column;

pub struct TableRow {
    slot: *mut pg_sys::TupleTableSlot,
    /// The column after the last one that was read. Columns are usually read in the table's order.
    next: Cell<usize>,
}

impl TableRow {
    /// # Safety
    /// The slot holds a row for as long as this value lives.
    pub(super) unsafe fn of(slot: *mut pg_sys::TupleTableSlot) -> Self {
        TableRow { slot, next: Cell::new(0) }
    }

    /// Returns a column by its name; `None` is NULL. Raises an error if the table has no such column of this type.
    pub fn get<T: Column>(&self, column: &CStr) -> Option<T> {
        // SAFETY: the slot holds a row with the descriptor's columns, which are deformed up to the requested one. Its
        // type is one that T reads.
        unsafe {
            let descriptor = (*self.slot).tts_tupleDescriptor;
            let columns = width(descriptor);
            let from = self.next.get();
            let found = (from..columns).chain(0..from).find(|at| is_named(attribute(descriptor, at + 1), column));
            let Some(at) = found.filter(|at| T::fits(attribute(descriptor, at + 1).atttypid)) else {
                altered::raise(Altered::Column { name: column.to_string_lossy().into_owned() });
            };
            self.next.set(at + 1);
            if usize::try_from((*self.slot).tts_nvalid).unwrap_or(0) <= at {
                pg_sys::slot_getsomeattrs_int(self.slot, std::ffi::c_int::try_from(at + 1).unwrap_or(0));
            }
            if *(*self.slot).tts_isnull.add(at) { None } else { T::read(*(*self.slot).tts_values.add(at)) }
        }
    }

    /// Returns a column that is declared NOT NULL.
    pub fn must<T: Column>(&self, column: &CStr) -> T {
        let name = || column.to_string_lossy().into_owned();
        self.get(column).unwrap_or_else(|| altered::raise(Altered::Null { name: name() }))
    }

    /// Returns the version of the row, or `None` if the table's access method does not have one.
    pub fn version(&self) -> Option<RowStamp> {
        // SAFETY: a slot of this kind has a tuple with a readable header, whose xmin never changes.
        unsafe {
            if !std::ptr::eq((*self.slot).tts_ops, &raw const pg_sys::TTSOpsBufferHeapTuple) {
                return None;
            }
            let header = (*(*self.slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).base.tuple).t_data;
            let tid = (*self.slot).tts_tid;
            let block = (u32::from(tid.ip_blkid.bi_hi) << 16) | u32::from(tid.ip_blkid.bi_lo);
            Some(RowStamp { block, offset: tid.ip_posid, writer: (*header).t_choice.t_heap.t_xmin.into() })
        }
    }

    /// Returns the slot, for queries of the stored tuple.
    pub(super) fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        self.slot
    }
}

/// A version of a row: its position in the table, and the transaction that wrote it. The transaction never stores
/// another row in this position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowStamp {
    block: u32,
    offset: u16,
    writer: u32,
}

impl RowStamp {
    fn tid(&self) -> pg_sys::ItemPointerData {
        let ip_blkid = pg_sys::BlockIdData { bi_hi: (self.block >> 16) as u16, bi_lo: self.block as u16 };
        pg_sys::ItemPointerData { ip_blkid, ip_posid: self.offset }
    }
}

/// Like [are_shown], without reading a row. Returns true if all versions were written before the oldest transaction that runs in the
/// snapshot of the calling query, and nobody has replaced them since. Whoever does must lock the table EXCLUSIVE: PostgreSQL releases
/// that lock after it has told all sessions about the commit. On a standby there is no such lock.
pub fn are_older<'v>(table: &'static CStr, mut versions: impl Iterator<Item = &'v RowStamp>, read_at: u64) -> bool {
    // SAFETY: a query is running, so there is a snapshot. It locks and unlocks a number, which need not be a table any more.
    unsafe {
        let snapshot = &*pg_sys::GetActiveSnapshot();
        let is_older = |version: &RowStamp| version.writer.wrapping_sub(snapshot.xmin.into_inner()).cast_signed() < 0;
        let is_unlocked = |table| {
            let lock = pg_sys::ConditionalLockRelationOid(table, pg_sys::RowShareLock as _);
            lock.then(|| pg_sys::UnlockRelationOid(table, pg_sys::RowShareLock as _)).is_some()
        };
        let can_be_told = !snapshot.takenDuringRecovery && versions.all(is_older);
        can_be_told && known_number(table).is_some_and(is_unlocked) && cache::version() == read_at
    }
}

/// Returns whether the snapshot of the calling query shows these versions of rows of a table of schema `claims`, and so
/// neither older nor newer ones. The versions were read when [cache::version] of the watched table was `read_at`. If
/// the table has changed since, the function returns false, because the positions may not exist any more. Locks the
/// table ACCESS SHARE while it reads, and executes no statement.
pub fn are_shown<'v>(table: &CStr, versions: impl IntoIterator<Item = &'v RowStamp>, read_at: u64) -> bool {
    // SAFETY: relations and scans are closed here, or at the end of the (sub)transaction after an error. A query is
    // running, so there is a snapshot. The lock has processed the messages about every truncation, which is a change.
    // So the positions in an unchanged table exist.
    unsafe {
        let table = open_table(table);
        if table.is_null() {
            return false;
        }
        compatibility::require();
        let is_unchanged = cache::version() == read_at;
        let slot = pg_sys::table_slot_create(table, std::ptr::null_mut());
        let fetch = (*(*table).rd_tableam).tuple_fetch_row_version.filter(|_| is_unchanged);
        let is_shown = |version: &RowStamp| {
            let mut tid = version.tid();
            let is_there = fetch.is_some_and(|fetch| fetch(table, &raw mut tid, pg_sys::GetActiveSnapshot(), slot));
            is_there && TableRow::of(slot).version() == Some(*version)
        };
        let are_shown = versions.into_iter().all(is_shown);
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        pg_sys::relation_close(table, LOCK);
        are_shown
    }
}

/// The lock for reading a table.
pub(super) const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;

/// Returns the number of a table of schema `claims`, or `None` if there is none. Must be called in a query.
pub fn number(table: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: looks names up; a query is running, so there is a transaction.
    let number = unsafe {
        let schema = pg_sys::get_namespace_oid(c"claims".as_ptr(), true);
        pg_sys::get_relname_relid(table.as_ptr(), schema)
    };
    (number != pg_sys::InvalidOid).then_some(number)
}

thread_local! {
    /// The results of [`known_number`], each for as long as its table does not change.
    static NUMBERS: RefCell<Vec<(&'static CStr, pg_sys::Oid, Freshness)>> = const { RefCell::new(Vec::new()) };
}

/// Like [`number`], for the tables that every begin and every settlement locks. It remembers them: looking up both names takes longer than
/// taking the lock.
pub(super) fn known_number(table: &'static CStr) -> Option<pg_sys::Oid> {
    NUMBERS.with_borrow_mut(|numbers| {
        // Dropping or renaming a table is a change.
        numbers.retain(|(_, _, fresh)| fresh.is_fresh());
        let known = numbers.iter().find(|(name, ..)| *name == table).map(|(_, number, _)| *number);
        known.or_else(|| {
            let found = number(table)?;
            let fresh = Freshness::of(found);
            // A change that arrived before the flag was there has not cleared it.
            if number(table) == Some(found) {
                numbers.push((table, found, fresh));
            }
            Some(found)
        })
    })
}

/// Returns the number of a table of schema `claims` whose name is known only at run time, or `None` if there is none.
pub fn by_name(name: &str) -> Option<pg_sys::Oid> {
    number(&c_text(name))
}

/// Opens an ordinary table of schema `claims` and locks it ACCESS SHARE. Returns NULL if there is none.
///
/// # Safety
/// Called in a transaction.
pub(super) unsafe fn open_table(name: &CStr) -> pg_sys::Relation {
    // SAFETY: looks names up; a relation that was dropped meanwhile is NULL.
    unsafe {
        let number = number(name).unwrap_or(pg_sys::InvalidOid);
        let table = pg_sys::try_relation_open(number, LOCK);
        if !table.is_null() && char_byte((*(*table).rd_rel).relkind) != pg_sys::RELKIND_RELATION {
            pg_sys::relation_close(table, LOCK);
            return std::ptr::null_mut();
        }
        table
    }
}

/// Converts all rows of an ordinary table of schema `claims`, as they are committed now or left by this transaction, in
/// any order. Locks the table ACCESS SHARE while it reads. Returns `None` if there is no such table.
pub fn rows<T>(table: &CStr, convert: impl FnMut(&TableRow) -> T) -> Option<Vec<T>> {
    // SAFETY: a scan without a snapshot takes the newest one.
    unsafe { rows_in(table, std::ptr::null_mut(), convert) }
}

/// Like [rows], with the snapshot of the calling query.
pub fn rows_in_snapshot<T>(table: &CStr, convert: impl FnMut(&TableRow) -> T) -> Option<Vec<T>> {
    // SAFETY: a query is running, so there is a snapshot, and it outlives the scan.
    unsafe { rows_in(table, pg_sys::GetActiveSnapshot(), convert) }
}

/// # Safety
/// The snapshot is NULL, or outlives the scan.
unsafe fn rows_in<T>(
    table: &CStr,
    snapshot: pg_sys::Snapshot,
    mut convert: impl FnMut(&TableRow) -> T,
) -> Option<Vec<T>> {
    // SAFETY: relations and scans are closed here, or at the end of the (sub)transaction after an error. The slot of a
    // scan has the last row.
    unsafe {
        let table = open_table(table);
        if table.is_null() {
            return None;
        }
        // The lock has processed the invalidation messages about the table. If the table is distributed now, its rows
        // are on other nodes.
        compatibility::require();
        let scan = pg_sys::systable_beginscan(table, pg_sys::InvalidOid, false, snapshot, 0, std::ptr::null_mut());
        let mut rows = Vec::new();
        while !pg_sys::systable_getnext(scan).is_null() {
            rows.push(convert(&TableRow::of((*scan).slot)));
        }
        pg_sys::systable_endscan(scan);
        pg_sys::relation_close(table, LOCK);
        Some(rows)
    }
}
