//! The enforcement of declarations that the current transaction has used. It stays for the whole transaction, because one that is
//! changed meanwhile is for later transactions: claims of one row must not be captured in one way and given up in another.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use claims_model::enforcement::Enforcement;
use claims_model::origin::Declared;
use pgrx::pg_sys::Oid;

use crate::cell::claimed::attributes::{self, Captured};

thread_local! {
    /// The tables that the transaction has written, with their declarations as it has used them first.
    static PINNED: RefCell<Vec<(Oid, Rc<Captured>)>> = const { RefCell::new(Vec::new()) };
    /// Whether a declaration has changed since its enforcement was pinned.
    static HAS_DIFFERED: Cell<bool> = const { Cell::new(false) };
}

/// Pins the enforcement of a table's declarations, unless the transaction has pinned it before.
pub fn pin(table: Oid, captured: &Rc<Captured>) {
    PINNED.with_borrow_mut(|pinned| {
        if !pinned.iter().any(|(of, _)| *of == table) {
            pinned.push((table, captured.clone()));
        }
    });
}

/// Returns the pinned enforcement of a declaration, which all partitions of its table share.
pub fn enforcement(declared: &Declared) -> Option<Enforcement> {
    let is_same = |other: &&Rc<Declared>| {
        (other.table, &other.column_name, &other.name) == (declared.table, &declared.column_name, &declared.name)
    };
    let enforcement = PINNED.with_borrow(|pinned| {
        let mut all = pinned.iter().flat_map(|(_, captured)| &captured.declared);
        all.find(is_same).map(|pinned| pinned.enforcement)
    })?;
    if enforcement != declared.enforcement {
        HAS_DIFFERED.set(true);
    }
    Some(enforcement)
}

/// Calls `each` for the observed declarations of the tables that the transaction has written.
pub fn each_observed(mut each: impl FnMut(&Declared)) {
    PINNED.with_borrow(|pinned| {
        let columns = pinned.iter().flat_map(|(_, captured)| &captured.observed);
        columns.flat_map(|columns| &columns.attributes).for_each(|attribute| each(&attribute.declared));
    });
}

/// Ends all pins. The session caches no declaration with an enforcement that has ended.
pub fn end() {
    let pinned = PINNED.take();
    if HAS_DIFFERED.take() {
        pinned.iter().for_each(|(table, _)| attributes::forget_captured(*table));
    }
}
