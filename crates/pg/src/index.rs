//! Look-up of a key in a unique index without a statement, for cases in which the executor would cost more than the
//! scan.
//!
//! The index is found as the planner finds one: the table is locked first, then its list of indexes is read, and an
//! index is chosen by its definition, not by its name. The lock on the table prevents dropping the index, because
//! REINDEX CONCURRENTLY and DROP INDEX CONCURRENTLY wait for it before they make an index unusable. So locks are taken
//! in the order of every statement, the table before its index.

use std::ffi::CStr;

use pgrx::{IntoDatum, pg_sys};
use uuid::Uuid;

use super::clock::Moment;
use super::compatibility;
use super::statement::{self, Reach};
use super::table::{LOCK, TableRow, open_table};
use super::tuple::{attribute, is_named};
use super::uuid::pg_uuid;
use super::xid8::Xid8;

/// A column of a key, with its value.
pub struct KeyPart<'k> {
    pub column: &'static CStr,
    pub value: KeyValue<'k>,
}

#[derive(Clone, Copy)]
pub enum KeyValue<'k> {
    Text(&'k str),
    Int4(i32),
    Int8(i64),
    Uuid(Uuid),
    Time(Moment),
    Xid8(Xid8),
}

/// How a column of an index is compared with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyComparison {
    Equal,
    AtLeast,
    LessThan,
}

/// The order by which an index compares a column.
#[derive(PartialEq, Eq)]
pub(super) struct KeyOrder {
    type_oid: pg_sys::Oid,
    /// The btree operator family.
    family: pg_sys::Oid,
    collation: pg_sys::Oid,
}

impl KeyOrder {
    /// Returns the order of the extension's indexes for a type, or `None` if none of them has such a column.
    fn of(type_oid: pg_sys::Oid) -> Option<KeyOrder> {
        // The operator families of built-in types have fixed oids. int2, int4 and int8 share one.
        let (family, collation) = match type_oid {
            pg_sys::TEXTOID => (1994, pg_sys::C_COLLATION_OID),
            pg_sys::INT4OID | pg_sys::INT8OID => (1976, pg_sys::InvalidOid),
            pg_sys::UUIDOID => (2968, pg_sys::InvalidOid),
            pg_sys::TIMESTAMPTZOID => (434, pg_sys::InvalidOid),
            pg_sys::XID8OID => (5067, pg_sys::InvalidOid),
            _ => return None,
        };
        Some(KeyOrder { type_oid, family: pg_sys::Oid::from(family), collation })
    }

    /// Returns whether the extension's indexes have this order for the type.
    pub(super) fn is_usual(&self) -> bool {
        KeyOrder::of(self.type_oid).as_ref() == Some(self)
    }

    /// Returns the order of a key column of an index, by its position from 0.
    ///
    /// # Safety
    /// The index is open, and has that many key columns.
    pub(super) unsafe fn of_column(index: pg_sys::Relation, at: usize) -> KeyOrder {
        // SAFETY: guaranteed by the caller.
        unsafe {
            KeyOrder {
                type_oid: attribute((*index).rd_att, at + 1).atttypid,
                family: *(*index).rd_opfamily.add(at),
                collation: *(*index).rd_indcollation.add(at),
            }
        }
    }
}

impl KeyValue<'_> {
    pub(super) fn type_oid(self) -> pg_sys::Oid {
        match self {
            KeyValue::Text(_) => pg_sys::TEXTOID,
            KeyValue::Int4(_) => pg_sys::INT4OID,
            KeyValue::Int8(_) => pg_sys::INT8OID,
            KeyValue::Uuid(_) => pg_sys::UUIDOID,
            KeyValue::Time(_) => pg_sys::TIMESTAMPTZOID,
            KeyValue::Xid8(_) => pg_sys::XID8OID,
        }
    }

    fn datum(self) -> pg_sys::Datum {
        let datum = match self {
            KeyValue::Text(value) => value.into_datum(),
            KeyValue::Int4(value) => value.into_datum(),
            KeyValue::Int8(value) => value.into_datum(),
            KeyValue::Uuid(value) => pg_uuid(value).into_datum(),
            KeyValue::Time(value) => value.into_datum(),
            KeyValue::Xid8(value) => value.into_datum(),
        };
        datum.unwrap_or_else(|| pg_sys::Datum::from(0))
    }

    /// Returns the condition that a key column of an index, by its position from 0, has this value, which the condition refers to.
    pub(super) fn condition(self, at: usize) -> pg_sys::ScanKeyData {
        self.compared(at, KeyComparison::Equal)
    }

    /// Returns the condition that a key column of an index, by its position from 0, compares like this with this value, which the condition
    /// refers to.
    pub(super) fn compared(self, at: usize, comparison: KeyComparison) -> pg_sys::ScanKeyData {
        let function = match (self, comparison) {
            (KeyValue::Text(_), KeyComparison::Equal) => pg_sys::F_TEXTEQ,
            (KeyValue::Int4(_), KeyComparison::Equal) => pg_sys::F_INT4EQ,
            (KeyValue::Int8(_), KeyComparison::Equal) => pg_sys::F_INT8EQ,
            (KeyValue::Int8(_), KeyComparison::AtLeast) => pg_sys::F_INT8GE,
            (KeyValue::Int8(_), KeyComparison::LessThan) => pg_sys::F_INT8LT,
            (KeyValue::Uuid(_), KeyComparison::Equal) => pg_sys::F_UUID_EQ,
            (KeyValue::Time(_), KeyComparison::AtLeast) => pg_sys::F_TIMESTAMPTZ_GE,
            (KeyValue::Xid8(_), KeyComparison::Equal) => pg_sys::F_XID8EQ,
            (KeyValue::Xid8(_), KeyComparison::AtLeast) => pg_sys::F_XID8GE,
            (KeyValue::Xid8(_), KeyComparison::LessThan) => pg_sys::F_XID8LT,
            (_, comparison) => panic!("no condition {comparison:?} for type {:?}", self.type_oid()),
        };
        let strategy = match comparison {
            KeyComparison::Equal => pg_sys::BTEqualStrategyNumber,
            KeyComparison::AtLeast => pg_sys::BTGreaterEqualStrategyNumber,
            KeyComparison::LessThan => pg_sys::BTLessStrategyNumber,
        };
        let number = pg_sys::AttrNumber::try_from(at + 1).unwrap_or(0);
        let mut condition = pg_sys::ScanKeyData::default();
        // SAFETY: the function compares two values of the column's type.
        unsafe { pg_sys::ScanKeyInit(&mut condition, number, strategy as _, function.into(), self.datum()) };
        condition
    }
}

/// The columns of an index that a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyColumns {
    /// All columns: at most one row has the key.
    All,
    /// The first columns: many rows may have the key.
    First,
}

/// The reason why a key cannot be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// There is no such table, or it has no valid unique index on these columns.
    Missing,
    /// The index is newer than the calling query's snapshot and has broken HOT chains, so it may miss rows
    /// (`indcheckxmin`).
    TooNew,
    /// The table is distributed, perhaps since the call has chosen where to look: its rows are on other nodes.
    Distributed,
}

/// Returns the row of table `claims.<table>` with this key, in the snapshot of the calling query. Uses a unique index.
/// Locks table and index ACCESS SHARE while it reads.
pub fn find<T>(table: &CStr, key: &[KeyPart], convert: impl FnOnce(&TableRow) -> T) -> Result<Option<T>, Unusable> {
    let mut convert = Some(convert);
    let mut found = None;
    // SAFETY: a query is running, so there is a snapshot, and it outlives the scan.
    unsafe {
        scan((table, Reach::Here), key, KeyColumns::All, pg_sys::GetActiveSnapshot(), |row| {
            found = convert.take().map(|convert| convert(row));
            false
        })?;
    }
    Ok(found)
}

/// The number of attempts to find the index. While REINDEX CONCURRENTLY exchanges the index, the new one may be visible
/// before it is valid, and the old one when it no longer is.
const ATTEMPTS: usize = 5;

/// Calls `each` for the rows with a key until it returns false. Releases its locks. The table comes with where its rows are.
///
/// # Safety
/// The snapshot can be used for a scan, and outlives it.
pub(super) unsafe fn scan(
    (table, reach): (&CStr, Reach),
    key: &[KeyPart],
    named: KeyColumns,
    snapshot: pg_sys::Snapshot,
    mut each: impl FnMut(&TableRow) -> bool,
) -> Result<(), Unusable> {
    // SAFETY: relations and scans are closed here, or at the end of the (sub)transaction after an error. The keys
    // outlive the scan.
    unsafe {
        // A dirty snapshot reads rows that are being written, and every index has entries for these.
        let is_of_the_past = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC;
        let must_be_here = reach == Reach::Here && !is_shard(table);
        if reach != Reach::Here {
            statement::require(reach);
        }
        let mut attempts_left = ATTEMPTS;
        loop {
            let table = open_table(table);
            // The lock has processed the invalidation messages about the table since the call began.
            compatibility::require();
            let found = match table.is_null() {
                true => Err(Unusable::Missing),
                false if must_be_here && statement::are_distributed() => Err(Unusable::Distributed),
                false => open_index(table, key, named, is_of_the_past),
            };
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

/// Returns whether a table is a shard of another one. No other table of the extension has a name that ends in a digit.
fn is_shard(table: &CStr) -> bool {
    table.to_bytes().last().is_some_and(u8::is_ascii_digit)
}

/// Opens and locks a unique index on exactly the key's columns, or one that begins with them, in any order. Returns its
/// scan keys, too.
///
/// # Safety
/// The table is open and locked.
unsafe fn open_index(
    table: pg_sys::Relation,
    key: &[KeyPart],
    named: KeyColumns,
    is_of_the_past: bool,
) -> Result<(pg_sys::Relation, Vec<pg_sys::ScanKeyData>), Unusable> {
    let mut unusable = Unusable::Missing;
    // SAFETY: an index that was dropped meanwhile is NULL.
    unsafe {
        for index in indexes_of(table) {
            let index = pg_sys::try_relation_open(index, LOCK);
            if index.is_null() {
                continue;
            }
            match is_usable(index).then(|| scan_keys(table, index, key, named)).flatten() {
                Some(_) if is_of_the_past && is_too_new(index) => unusable = Unusable::TooNew,
                Some(keys) => return Ok((index, keys)),
                None => {}
            }
            pg_sys::relation_close(index, LOCK);
        }
    }
    Err(unusable)
}

/// Returns the indexes of a table.
///
/// # Safety
/// The table is open and locked.
pub(super) unsafe fn indexes_of(table: pg_sys::Relation) -> Vec<pg_sys::Oid> {
    // SAFETY: guaranteed by the caller; the list is a copy.
    unsafe {
        let list = pg_sys::RelationGetIndexList(table);
        let count = if list.is_null() { 0 } else { (*list).length };
        let indexes = (0..count).map(|at| pg_sys::list_nth_oid(list, at)).collect();
        pg_sys::list_free(list);
        indexes
    }
}

/// Returns whether an index is unique, valid, immediate and not partial.
///
/// # Safety
/// The index is open.
unsafe fn is_usable(index: pg_sys::Relation) -> bool {
    // SAFETY: guaranteed by the caller.
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

/// Returns whether broken HOT chains forbid using an index with this transaction's oldest snapshot. It is the planner's
/// test of `indcheckxmin` (get_relation_info).
///
/// # Safety
/// The index is open.
pub(super) unsafe fn is_too_new(index: pg_sys::Relation) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe {
        (*(*index).rd_index).indcheckxmin
            && !pg_sys::TransactionIdPrecedes(
                // Called by its path, because PostgreSQL 18 has another function of this name.
                pg_sys::submodules::htup::HeapTupleHeaderGetXmin((*(*index).rd_indextuple).t_data),
                pg_sys::TransactionXmin,
            )
    }
}

/// Returns the scan keys for a key. Returns `None` if the index is not on the key's columns, or does not begin with
/// them, or does not compare them bytewise.
///
/// # Safety
/// Table and index are open, and the index belongs to the table.
unsafe fn scan_keys(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    key: &[KeyPart],
    named: KeyColumns,
) -> Option<Vec<pg_sys::ScanKeyData>> {
    // SAFETY: an index has a number of the table's column, a family and a collation for each of its key columns.
    unsafe {
        let form = &*(*index).rd_index;
        let width = usize::try_from(form.indnkeyatts).ok()?;
        let fits = match named {
            KeyColumns::All => width == key.len(),
            KeyColumns::First => width >= key.len(),
        };
        if !fits {
            return None;
        }
        let numbers = form.indkey.values.as_slice(key.len());
        let mut keys = vec![pg_sys::ScanKeyData::default(); key.len()];
        let mut used = 0usize;
        for (at, entry) in keys.iter_mut().enumerate() {
            let column = usize::try_from(numbers[at]).ok()?;
            // An expression column has no number.
            let is_of = |part: &KeyPart| column > 0 && is_named(attribute((*table).rd_att, column), part.column);
            let part = key.iter().position(is_of)?;
            used |= 1 << part;
            let value = key[part].value;
            if KeyOrder::of(value.type_oid()) != Some(KeyOrder::of_column(index, at)) {
                return None;
            }
            *entry = value.condition(at);
        }
        (used == (1 << key.len()) - 1).then_some(keys)
    }
}

/// Calls `index_beginscan`, which has one more argument since PostgreSQL 18.
pub(super) unsafe fn begin_scan(
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
