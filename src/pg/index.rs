//! Look-up of one key in a unique index without a statement, where the executor would cost more than the scan.
//!
//! The index is found as the planner finds one: the table is locked first, then its list of indexes is read, and an index is
//! chosen by its definition, not by its name. The lock on the table keeps the index from being dropped: REINDEX
//! CONCURRENTLY and DROP INDEX CONCURRENTLY wait for it before they make an index unusable. So locks are taken in the order
//! of every statement, the table before its index.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::{IntoDatum, Uuid};

use super::gate;
use super::statement::{self, Reach};
use super::table::{LOCK, TableRow, open_table};
use super::tuple::{attribute, is_named};

/// One column of a key, and the value looked for.
pub struct KeyPart<'k> {
    pub column: &'static CStr,
    pub value: KeyValue<'k>,
}

/// A value of a key.
#[derive(Clone, Copy)]
pub enum KeyValue<'k> {
    Text(&'k str),
    Int4(i32),
    Uuid(Uuid),
}

/// How a column of an index compares.
#[derive(PartialEq, Eq)]
struct KeyOrder {
    type_oid: pg_sys::Oid,
    /// Its btree operator family.
    family: pg_sys::Oid,
    collation: pg_sys::Oid,
}

impl KeyValue<'_> {
    /// The operator family and collation that the index must have.
    fn order(self) -> KeyOrder {
        // The operator families of built-in types have fixed oids.
        let (type_oid, family, collation) = match self {
            KeyValue::Text(_) => (pg_sys::TEXTOID, 1994, pg_sys::C_COLLATION_OID),
            KeyValue::Int4(_) => (pg_sys::INT4OID, 1976, pg_sys::InvalidOid),
            KeyValue::Uuid(_) => (pg_sys::UUIDOID, 2968, pg_sys::InvalidOid),
        };
        KeyOrder { type_oid, family: pg_sys::Oid::from(family), collation }
    }

    /// The operator's function by which the column is compared, and the value.
    fn comparison(self) -> (u32, Option<pg_sys::Datum>) {
        match self {
            KeyValue::Text(value) => (pg_sys::F_TEXTEQ, value.into_datum()),
            KeyValue::Int4(value) => (pg_sys::F_INT4EQ, value.into_datum()),
            KeyValue::Uuid(value) => (pg_sys::F_UUID_EQ, value.into_datum()),
        }
    }
}

/// Why a key cannot be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// The table, or a unique index of it on these columns that is valid, is not there.
    Missing,
    /// The index is newer than the calling query's snapshot and has broken HOT chains: it may miss rows (`indcheckxmin`).
    TooNew,
}

/// The row of table `claims.<table>` with this key, by a unique index, in the snapshot of the calling query. Holds table
/// locks (ACCESS SHARE) on table and index while it reads.
pub fn find<T>(table: &CStr, key: &[KeyPart], convert: impl FnOnce(&TableRow) -> T) -> Result<Option<T>, Unusable> {
    let mut convert = Some(convert);
    let mut found = None;
    // SAFETY: a query is running, so there is a snapshot, and it outlives the scan.
    unsafe {
        scan(table, key, pg_sys::GetActiveSnapshot(), |row| {
            found = convert.take().map(|convert| convert(row));
            false
        })?;
    }
    Ok(found)
}

/// Whether there is a row with this key, committed right now, whatever the isolation level, or this transaction's own.
pub fn is_there_now(table: &CStr, key: &[KeyPart]) -> Result<bool, Unusable> {
    let mut found = false;
    // SAFETY: the snapshot is the active one while it is scanned with; after an error the end of the (sub)transaction takes it off.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let scanned = scan(table, key, pg_sys::GetActiveSnapshot(), |_| {
            found = true;
            false
        });
        pg_sys::PopActiveSnapshot();
        scanned?;
    }
    Ok(found)
}

/// How often to look for the index. While REINDEX CONCURRENTLY exchanges it, the
/// new one may be seen before it is valid, and the old one when it no longer is.
const ATTEMPTS: usize = 5;

/// Passes the rows with a key to `each` until that returns `false`. The locks are released.
///
/// # Safety
/// The snapshot must be one to scan with, and outlive the scan.
pub(super) unsafe fn scan(
    table: &CStr,
    key: &[KeyPart],
    snapshot: pg_sys::Snapshot,
    mut each: impl FnMut(&TableRow) -> bool,
) -> Result<(), Unusable> {
    // SAFETY: everything opened here is closed here, or by the end of the (sub)transaction after an error. The keys outlive
    // the scan.
    unsafe {
        // The dirty snapshot reads what is being written, which every index leads to.
        let is_of_the_past = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC;
        if !is_shard(table) {
            statement::require(Reach::Here);
        }
        let mut attempts_left = ATTEMPTS;
        loop {
            let table = open_table(table);
            // With the lock came word of what has become of the table since the call began: its rows may be elsewhere now.
            gate::pass();
            let found = if table.is_null() { Err(Unusable::Missing) } else { open_index(table, key, is_of_the_past) };
            let read = found.map(|(index, mut keys)| {
                let slot = pg_sys::table_slot_create(table, std::ptr::null_mut());
                let columns = i32::try_from(keys.len()).unwrap_or(0);
                let scan = begin_scan(table, index, snapshot, columns);
                pg_sys::index_rescan(scan, keys.as_mut_ptr(), columns, std::ptr::null_mut(), 0);
                while pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, slot)
                    && each(&TableRow::of(slot))
                {}
                pg_sys::index_endscan(scan);
                pg_sys::ExecDropSingleTupleTableSlot(slot);
                pg_sys::relation_close(index, LOCK);
            });
            if !table.is_null() {
                pg_sys::relation_close(table, LOCK);
            }
            match read {
                Err(Unusable::Missing) if attempts_left > 1 => pg_sys::AcceptInvalidationMessages(),
                read => return read,
            }
            attempts_left -= 1;
        }
    }
}

/// Whether a table is a shard of another one, by its name: no table of the extension ends in a number.
fn is_shard(table: &CStr) -> bool {
    table.to_bytes().last().is_some_and(u8::is_ascii_digit)
}

/// Opens and locks a unique index on exactly the key's columns, in any order, and returns its scan keys.
///
/// # Safety
/// An open table, locked.
unsafe fn open_index(
    table: pg_sys::Relation,
    key: &[KeyPart],
    is_of_the_past: bool,
) -> Result<(pg_sys::Relation, Vec<pg_sys::ScanKeyData>), Unusable> {
    let mut unusable = Unusable::Missing;
    // SAFETY: the list is a copy; an index that has gone in between is NULL.
    unsafe {
        let list = pg_sys::RelationGetIndexList(table);
        let count = if list.is_null() { 0 } else { (*list).length };
        for at in 0..count {
            let index = pg_sys::try_relation_open(pg_sys::list_nth_oid(list, at), LOCK);
            if index.is_null() {
                continue;
            }
            match is_usable(index).then(|| scan_keys(table, index, key)).flatten() {
                Some(_) if is_of_the_past && is_too_new(index) => unusable = Unusable::TooNew,
                Some(keys) => {
                    pg_sys::list_free(list);
                    return Ok((index, keys));
                }
                None => {}
            }
            pg_sys::relation_close(index, LOCK);
        }
        pg_sys::list_free(list);
    }
    Err(unusable)
}

/// Whether an index is unique, valid, immediate and not partial.
///
/// # Safety
/// An open index.
unsafe fn is_usable(index: pg_sys::Relation) -> bool {
    // SAFETY: by the caller.
    unsafe {
        let form = &*(*index).rd_index;
        form.indisunique
            && form.indimmediate
            && form.indisvalid
            && form.indisready
            && form.indislive
            && (*(*index).rd_rel).relam == pg_sys::BTREE_AM_OID
            && pg_sys::RelationGetIndexPredicate(index).is_null()
    }
}

/// Whether an index must not be used with this transaction's oldest snapshot because of broken HOT chains: the planner's
/// test of `indcheckxmin` (get_relation_info).
///
/// # Safety
/// An open index.
unsafe fn is_too_new(index: pg_sys::Relation) -> bool {
    // SAFETY: by the caller.
    unsafe {
        (*(*index).rd_index).indcheckxmin
            && !pg_sys::TransactionIdPrecedes(
                // By its path: PostgreSQL 18 has a function of this name as well.
                pg_sys::submodules::htup::HeapTupleHeaderGetXmin((*(*index).rd_indextuple).t_data),
                pg_sys::TransactionXmin,
            )
    }
}

/// The scan keys for a key; `None`: it is not an index on the key's columns that compares them bytewise.
///
/// # Safety
/// An open table and an index of it.
unsafe fn scan_keys(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    key: &[KeyPart],
) -> Option<Vec<pg_sys::ScanKeyData>> {
    // SAFETY: an index has a number of the table's column, a family and a collation for each of its key columns.
    unsafe {
        let form = &*(*index).rd_index;
        let columns = usize::try_from(form.indnkeyatts).ok().filter(|columns| *columns == key.len())?;
        let numbers = form.indkey.values.as_slice(columns);
        let mut keys = vec![pg_sys::ScanKeyData::default(); columns];
        let mut used = 0usize;
        for (at, entry) in keys.iter_mut().enumerate() {
            let column = usize::try_from(numbers[at]).ok()?;
            // An expression has no number.
            let is_of = |part: &KeyPart| column > 0 && is_named(attribute((*table).rd_att, column), part.column);
            let part = key.iter().position(is_of)?;
            used |= 1 << part;
            let order = KeyOrder {
                type_oid: attribute((*index).rd_att, at + 1).atttypid,
                family: *(*index).rd_opfamily.add(at),
                collation: *(*index).rd_indcollation.add(at),
            };
            let value = key[part].value;
            if order != value.order() {
                return None;
            }
            let (equals, value) = value.comparison();
            let value = value.unwrap_or_else(|| pg_sys::Datum::from(0));
            let number = pg_sys::AttrNumber::try_from(at + 1).ok()?;
            pg_sys::ScanKeyInit(entry, number, pg_sys::BTEqualStrategyNumber as _, equals.into(), value);
        }
        (used == (1 << key.len()) - 1).then_some(keys)
    }
}

/// `index_beginscan`, which has one more argument since PostgreSQL 18.
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
