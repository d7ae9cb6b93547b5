//! Reads the rows of a batch, and locks them until their names are claimed.
//!
//! A row that changes or goes gives its name up at the service, or leaves that out if the name is not claimed. Without a lock, the
//! import could claim the name after that. A row that another transaction has locked is left for later: waiting for it while other
//! rows are locked could end in a deadlock with a save.

use std::collections::HashSet;
use std::rc::Rc;

use claims_model::source_range::SourceRange;
use pgrx::PgSqlErrorCode as Code;

use crate::cell::claimed::expected::{Attribute, ClaimedRow, ShareLock};
use crate::cell::verify::expected::Expected;
use pg::spi::Connection;
use pg::subtransaction::subtransaction;

/// Rows that are locked, each with the column that needs a claim, and the source ids of those that another transaction has locked.
#[derive(Default)]
pub struct LockedRows {
    pub rows: Vec<(Rc<Attribute>, ClaimedRow)>,
    pub locked_by_others: Vec<String>,
}

/// Reads and locks the rows of a range. It reads them once, unless another transaction has locked one of them.
pub fn of_range(connection: &Connection, expected: &Expected, range: &SourceRange) -> LockedRows {
    let read = |row_lock| each_attribute(expected, |attribute| attribute.in_range(connection, range, row_lock));
    let all = subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || Ok::<_, ()>(read(ShareLock::ShareOrError)));
    match all {
        Ok(rows) => LockedRows { rows, locked_by_others: Vec::new() },
        Err(_) => rest(read(ShareLock::Share), read(ShareLock::None)),
    }
}

/// Reads and locks rows by their source ids.
pub fn of_ids(connection: &Connection, expected: &Expected, ids: &[String]) -> LockedRows {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let read = |row_lock| each_attribute(expected, |attribute| attribute.with_ids(connection, &ids, row_lock));
    rest(read(ShareLock::Share), read(ShareLock::None))
}

/// Reads rows by their source ids, as committed now.
pub fn unlocked(connection: &Connection, expected: &Expected, ids: &[String]) -> Vec<(Rc<Attribute>, ClaimedRow)> {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    each_attribute(expected, |attribute| attribute.with_ids(connection, &ids, ShareLock::None))
}

fn each_attribute(
    expected: &Expected,
    read: impl Fn(&Attribute) -> Vec<ClaimedRow>,
) -> Vec<(Rc<Attribute>, ClaimedRow)> {
    let attributes = expected.attributes().iter();
    attributes.flat_map(|attribute| read(attribute).into_iter().map(move |row| (attribute.clone(), row))).collect()
}

/// Finds the rows that could not be locked. A row whose lock was released meanwhile counts as locked.
fn rest(rows: Vec<(Rc<Attribute>, ClaimedRow)>, all: Vec<(Rc<Attribute>, ClaimedRow)>) -> LockedRows {
    let key = |(attribute, row): &(Rc<Attribute>, ClaimedRow)| (Rc::as_ptr(attribute), row.source_id.clone());
    let locked: HashSet<_> = rows.iter().map(key).collect();
    let others = all.into_iter().filter(|row| !locked.contains(&key(row))).filter_map(|(_, row)| row.source_id);
    let locked_by_others = others.collect::<HashSet<_>>().into_iter().collect();
    LockedRows { rows, locked_by_others }
}
