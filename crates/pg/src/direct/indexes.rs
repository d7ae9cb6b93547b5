//! Index entries of rows that are written directly.

use pgrx::{IntoDatum, pg_sys};

use super::layout::{IndexKey, IndexLayout};

/// The entries to insert.
pub(super) enum Entries<'e> {
    /// Those of a row that is new, where another row may have its key.
    IfFree,
    /// Those of a row that is new. Another row with its key is a unique violation.
    OrRaise,
    /// Those of a new version of a row. Lists the columns that differ from the version before.
    OfNewVersion { changed: &'e [usize] },
}

thread_local! {
    /// The description of every btree index. The access method reads nothing of it, and making one for each takes as long as a tenth of an entry.
    static OF_BTREE: *mut pg_sys::IndexInfo = Box::into_raw(Box::new(pg_sys::IndexInfo {
        type_: pg_sys::NodeTag::T_IndexInfo,
        ii_ReadyForInserts: true,
        ..Default::default()
    }));
}

/// An index that is open, and the description of its entries for the access method.
#[derive(Clone, Copy)]
pub(super) struct Index {
    pub relation: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
}

impl Index {
    /// # Safety
    /// The index is open, and stays open.
    pub(super) unsafe fn of(relation: pg_sys::Relation) -> Self {
        // SAFETY: guaranteed by the caller.
        let info = unsafe {
            match (*(*relation).rd_rel).relam {
                pg_sys::BTREE_AM_OID => OF_BTREE.with(|info| *info),
                _ => pg_sys::BuildIndexInfo(relation),
            }
        };
        Index { relation, info }
    }
}

/// Inserts the entry of the row in a slot into an index. Returns false if the index is unique and another row has the key, which
/// may be one of a transaction that is still open. The entry is inserted all the same.
///
/// # Safety
/// Table and index are open and locked, the index has this layout, and the slot holds a row of the table, with its position.
pub(super) unsafe fn insert(
    table: pg_sys::Relation,
    index: Index,
    layout: &IndexLayout,
    columns: &[usize],
    slot: *mut pg_sys::TupleTableSlot,
    entries: &Entries,
) -> bool {
    let mut values = [pg_sys::Datum::from(0); pg_sys::INDEX_MAX_KEYS as usize];
    let mut nulls = [false; pg_sys::INDEX_MAX_KEYS as usize];
    let check = match entries {
        _ if !layout.is_unique => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
        // A partial check finds rows of transactions that are still open, and waits for none.
        Entries::IfFree => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_PARTIAL,
        // The version before has the key, too, but this transaction has replaced it.
        Entries::OrRaise | Entries::OfNewVersion { .. } => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
    };
    let is_same = match entries {
        Entries::OfNewVersion { changed } => !layout.keys.iter().any(|key| changed.contains(&key.column())),
        Entries::IfFree | Entries::OrRaise => false,
    };
    // SAFETY: guaranteed by the caller. A virtual slot has all values. The entry is copied.
    unsafe {
        for (at, key) in layout.keys.iter().enumerate() {
            let number = columns[key.column()] - 1;
            let (value, is_null) = (*(*slot).tts_values.add(number), *(*slot).tts_isnull.add(number));
            nulls[at] = is_null;
            values[at] = match key {
                IndexKey::Column(_) | IndexKey::Elements(_) => value,
                IndexKey::LengthOf(_) if is_null => value,
                IndexKey::LengthOf(_) => {
                    let length: Option<i32> = pgrx::direct_function_call(pg_sys::textlen, &[Some(value)]);
                    length.into_datum().unwrap_or_else(|| pg_sys::Datum::from(0))
                }
            };
        }
        let is_unique = pg_sys::index_insert(
            index.relation,
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            &raw mut (*slot).tts_tid,
            table,
            check,
            is_same,
            index.info,
        );
        is_unique || check != pg_sys::IndexUniqueCheck::UNIQUE_CHECK_PARTIAL
    }
}

/// Returns whether a new version of a row needs index entries, because it is not on the page of the version before.
#[cfg(feature = "pg15")]
pub(super) fn are_needed(updated: bool) -> bool {
    updated
}

/// Returns whether a new version of a row needs index entries, because it is not on the page of the version before.
#[cfg(not(feature = "pg15"))]
pub(super) fn are_needed(updated: pg_sys::TU_UpdateIndexes::Type) -> bool {
    updated != pg_sys::TU_UpdateIndexes::TU_None
}
