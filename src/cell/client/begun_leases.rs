//! Settles leases at the end of the local transaction that has begun them.
//!
//! In automatic mode the session sends the commit of leases after the local COMMIT. In every mode it sends their rollback after an
//! abort, also of a savepoint. It does not wait for the answer, but reads it before its next call. At that moment code must not
//! fail, wait, or allocate much. Recovery settles the leases whose settlement cannot be written to the socket at once, and all leases
//! of a broken connection. The commands that follow a COMMIT are prepared before it.

use std::cell::RefCell;
use std::collections::HashSet;

use claims_model::nesting;
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use uuid::Uuid;

use super::confirmed;
use super::connection_cache::{self, Unread};
use super::presented::Presented;
use super::settlement::Settlement;
use pg::libpq::Command;
use pg::roles;
use pg::transaction_end::{Hooks, current_subtransaction};

/// Maximum number of leases settled at the end of one transaction. Recovery settles the others.
const AT_ONCE: usize = 1000;

pub const HOOKS: Hooks = Hooks { before_commit, committed, aborted, end, rolled_back, ..Hooks::NONE };

/// A lease that the current transaction has begun.
#[derive(Debug, Clone)]
struct OwnLease {
    server: String,
    user: Oid,
    cell_id: i64,
    lease: Uuid,
    /// The epoch with which it began, and with which it is settled: at the end of a transaction no table can be read. If a pass of this
    /// database has replaced the epoch meanwhile, the service refuses the settlement, and recovery settles the lease.
    presented: Presented,
    /// Number of its records.
    records: usize,
    /// The subtransaction in which it began.
    owner: u32,
    /// Whether it is committed after the local COMMIT.
    automatic: bool,
    /// Whether its subtransaction was rolled back.
    undone: bool,
}

/// A settlement that is ready to be sent.
struct Ready {
    server: String,
    user: Oid,
    cell_id: i64,
    settlement: Settlement,
    command: Command,
}

/// Maximum number of unread answers on a connection.
const UNREAD: usize = 100;

thread_local! {
    /// The leases of subtransactions that were not rolled back, by subtransaction ([`nesting`]).
    static BEGUN: RefCell<Vec<OwnLease>> = const { RefCell::new(Vec::new()) };
    /// The leases of subtransactions that were rolled back, if that could not be sent at once.
    static UNDONE: RefCell<Vec<OwnLease>> = const { RefCell::new(Vec::new()) };
    static READY: RefCell<Vec<Ready>> = const { RefCell::new(Vec::new()) };
}

/// Registers a lease that the current transaction has begun with an epoch, and the number of its records. With `automatic`, it is committed
/// after the local COMMIT.
pub fn begun(server: &str, cell_id: i64, (lease, records): (Uuid, usize), presented: Presented, automatic: bool) {
    let (server, user, owner) = (server.to_owned(), roles::current(), current_subtransaction());
    let begun = OwnLease { server, user, cell_id, lease, presented, records, owner, automatic, undone: false };
    BEGUN.with_borrow_mut(|all| all.push(begun));
}

fn before_commit() -> Result<(), ErrorReport> {
    let due = BEGUN.with_borrow(|begun| {
        UNDONE.with_borrow(|undone| settlements(begun.iter().filter(|begun| begun.automatic).chain(undone), false))
    });
    READY.set(due);
    Ok(())
}

fn committed() {
    confirmed::committed();
    READY.take().into_iter().for_each(|ready| drop(send(ready)));
}

fn aborted() {
    let due = BEGUN.with_borrow(|begun| UNDONE.with_borrow(|undone| settlements(begun.iter().chain(undone), true)));
    due.into_iter().for_each(|ready| drop(send(ready)));
}

fn end() {
    BEGUN.with_borrow_mut(Vec::clear);
    UNDONE.with_borrow_mut(Vec::clear);
    READY.with_borrow_mut(Vec::clear);
    confirmed::end();
    connection_cache::end();
}

fn rolled_back(own: u32) {
    let mut undone = BEGUN.with_borrow_mut(|all| all.split_off(nesting::first_since(all, own, |begun| begun.owner)));
    if undone.is_empty() {
        return;
    }
    let due = settlements(undone.iter(), true);
    let sent: HashSet<_> = due.into_iter().filter_map(send).flat_map(|settlement| settlement.rollbacks).collect();
    undone.retain(|begun| !sent.contains(&begun.lease));
    undone.iter_mut().for_each(|begun| begun.undone = true);
    UNDONE.with_borrow_mut(|all| all.extend(undone));
}

/// Builds the settlements for leases, one for each service, user and cell. With `all_undone`, it rolls back all of them.
fn settlements<'b>(leases: impl Iterator<Item = &'b OwnLease>, all_undone: bool) -> Vec<Ready> {
    let mut all: Vec<(&OwnLease, Settlement)> = Vec::new();
    for begun in leases.take(AT_ONCE) {
        let is_same = |other: &OwnLease| {
            other.server == begun.server && other.user == begun.user && other.cell_id == begun.cell_id
        };
        let index = all.iter().position(|(other, _)| is_same(other)).unwrap_or_else(|| {
            all.push((begun, Settlement::default()));
            all.len() - 1
        });
        let settlement = &mut all[index].1;
        let list = if all_undone || begun.undone { &mut settlement.rollbacks } else { &mut settlement.commits };
        list.push(begun.lease);
        settlement.records += begun.records;
        // The service follows the newest epoch.
        all[index].0 = begun;
    }
    let ready = |(OwnLease { server, user, cell_id, presented, .. }, settlement): (&OwnLease, Settlement)| {
        let records = settlement.records;
        let settlement = match (settlement.commits.as_slice(), settlement.rollbacks.as_slice()) {
            ([lease], []) => Settlement { records, ..confirmed::to_commit(server, *cell_id, *lease) },
            _ => settlement,
        };
        let command = settlement.command(*cell_id, *presented);
        Ready { server: server.clone(), user: *user, cell_id: *cell_id, settlement, command }
    };
    all.into_iter().map(ready).collect()
}

/// Sends a settlement. Returns it if that succeeded.
fn send(Ready { server, user, cell_id, settlement, command }: Ready) -> Option<Settlement> {
    let mut cached = connection_cache::take_of(&server, user)?;
    // With too many unread answers the service's send buffer fills, and it stops responding.
    let is_sent = cached.unread.len() < UNREAD && cached.link.send(&[command]);
    if is_sent {
        confirmed::sent(&server, cell_id, &settlement);
        cached.unread.push_back(Unread::Settlement(cell_id, settlement.clone()));
    }
    connection_cache::put_back(cached);
    is_sent.then_some(settlement)
}
