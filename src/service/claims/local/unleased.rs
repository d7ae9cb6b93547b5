//! Changes claims at once, for the calling transaction: without a lease, without a statement, and without waiting.

use claims_model::{Claim, Destroy};

use super::rows::{EXTENSION_LOCK_TIMEOUT_MS, is_owned, key_of, new_row, replacement};
use crate::kernel::direct;
use crate::kernel::direct::layouts::CLAIMS;
use crate::service::claims::rows::ACTIVE;
use crate::service::claims::tables::KeyExists;
use pg::clock::Moment;
use pg::direct::{Changed, Conflict, Reading, RowLock, Table};
use pg::lock;
use pg::settings::LockWaits;
use pg::spi::Value;

/// Does [`ClaimTables::create_now`](super::super::tables::ClaimTables::create_now). While it waits for the table to be extended, the caller's own
/// `lock_timeout` applies, as to the application's row.
pub fn create(cell_id: i64, at: Moment, claim: &Claim) -> bool {
    let insert = |[claims]: [&Table; 1]| claims.insert_or_leave(&row(claim, cell_id, at)).is_ok();
    lock::for_writing(&[CLAIMS.name]) && direct::open([&CLAIMS], insert).unwrap_or(false)
}

/// Returns the row of a new ACTIVE claim.
fn row(claim: &Claim, cell_id: i64, at: Moment) -> [Value; 15] {
    new_row(claim, cell_id, (None, ACTIVE), at)
}

/// Does [`ClaimTables::change_now`](super::super::tables::ClaimTables::change_now). Returns `None` if the table is not as the extension has
/// created it.
pub fn change(
    cell_id: i64,
    at: Moment,
    creates: &[&Claim],
    changes: &[(&Destroy, Option<&Claim>)],
) -> Option<Result<usize, KeyExists>> {
    let change = |[claims]: [&Table; 1]| {
        insert(claims, cell_id, at, creates)?;
        Ok(creates.len() + change_existing(claims, cell_id, at, changes))
    };
    direct::open([&CLAIMS], change).map(|changed| changed.map_err(|_: Conflict| KeyExists))
}

fn insert(claims: &Table, cell_id: i64, at: Moment, creates: &[&Claim]) -> Result<(), Conflict> {
    let _waits = LockWaits::limit(EXTENSION_LOCK_TIMEOUT_MS);
    claims.insert_all_if_free(creates.iter().map(|claim| row(claim, cell_id, at))).map(drop)
}

/// Replaces and deletes claims. Returns their number.
fn change_existing(claims: &Table, cell_id: i64, at: Moment, changes: &[(&Destroy, Option<&Claim>)]) -> usize {
    if changes.is_empty() {
        return 0;
    }
    claims.look_up(Reading::Statement, |rows| {
        let mut changed = 0;
        for (destroy, by) in changes {
            let row = rows.find(key_of(&destroy.bucket), |row| is_owned(row, cell_id, destroy));
            let Some(row) = row else { continue };
            let lock = if by.is_some() { RowLock::NoKeyUpdate } else { RowLock::Update };
            if claims.lock(&row, lock) != Changed::Done {
                continue;
            }
            let _waits = LockWaits::limit(EXTENSION_LOCK_TIMEOUT_MS);
            let done = match by {
                Some(claim) => claims.update(&row, &replacement(claim, at)),
                None => claims.delete(&row),
            };
            changed += usize::from(done == Changed::Done);
        }
        changed
    })
}
