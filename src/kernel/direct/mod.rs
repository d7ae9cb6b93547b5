//! Opens tables for reading and writing without statements.

pub mod layouts;

use std::cell::RefCell;

use self::layouts::{AUDIT_LOG, CHANGE_SETS, CLAIMS, EPOCHS, FENCES, LEASES, OUTCOMES, REQUESTS, TRACKED_LEASES};
use super::error::notice_of_altered_table;
use pg::direct::{self, Layout, Table};
use pg::prelude::*;

/// The tables that begins, settlements, automatic saves and takes of requests read or write without statements.
const DIRECT: [&Layout; 9] =
    [&CLAIMS, &LEASES, &OUTCOMES, &EPOCHS, &CHANGE_SETS, &AUDIT_LOG, &TRACKED_LEASES, &FENCES, &REQUESTS];

thread_local! {
    /// The tables of which this session has told that they were altered.
    static TOLD: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// As [`pg::direct::open`]. The first time that a table differs from its layout, notifies the client.
pub fn open<const N: usize, T>(layouts: [&'static Layout; N], body: impl FnOnce([&Table; N]) -> T) -> Option<T> {
    let result = direct::open(layouts, body);
    if result.is_none() {
        layouts.into_iter().for_each(tell);
    }
    result
}

fn tell(layout: &'static Layout) {
    let table = name_of(layout);
    if TOLD.with_borrow(|told| told.contains(&table)) {
        return;
    }
    if let Some(difference) = direct::difference(layout) {
        TOLD.with_borrow_mut(|told| told.push(table));
        notice_of_altered_table(table, &difference);
    }
}

/// Returns the tables that differ from their layout, and in what. Calls read and write them with statements, which respect what was added.
#[pg_extern(schema = "claims", stable)]
fn find_altered_tables() -> TableIterator<'static, (name!(table_name, String), name!(difference, String))> {
    let altered = |layout: &&Layout| Some((name_of(layout).to_owned(), direct::difference(layout)?));
    TableIterator::new(DIRECT.iter().filter_map(altered).collect::<Vec<_>>())
}

/// Returns the name of a table in schema `claims`.
fn name_of(layout: &Layout) -> &'static str {
    layout.name.to_str().unwrap_or_default()
}
