//! The connections to SPI that are in use, and the subtransactions that were rolled back meanwhile.
//!
//! [`spi`](super::spi) makes connections, and [`rows`](super::rows) asks here whether what a statement has returned still exists.

use std::cell::RefCell;

use super::owner::{self, Rights};
use pgrx::pg_sys;

thread_local! {
    /// The connections that are in use, the innermost one last.
    static CONNECTIONS: RefCell<Vec<State>> = const { RefCell::new(Vec::new()) };
    /// The subtransactions that were rolled back since the outermost connection was made.
    static ROLLED_BACK: RefCell<Vec<pg_sys::SubTransactionId>> = const { RefCell::new(Vec::new()) };
}

/// Whether SPI is connected for a connection.
#[derive(Clone, Copy)]
enum State {
    Connected,
    /// The first statement connects.
    Waiting,
    /// A statement has connected, with the rights of the owner of the tables.
    AsOwner {
        within: pg_sys::SubTransactionId,
        rights: Rights,
    },
}

/// Connects SPI if the innermost connection waits for its first statement.
pub(super) fn open_waiting() {
    let level = CONNECTIONS.with_borrow(Vec::len);
    if !matches!(state(level), Some(State::Waiting)) {
        return;
    }
    let rights = owner::take_rights();
    // SAFETY: `close` finishes it or, after an error, the end of the (sub)transaction.
    let within = unsafe {
        pg_sys::SPI_connect();
        pg_sys::GetCurrentSubTransactionId()
    };
    set_state(level, State::AsOwner { within, rights });
}

/// Finishes SPI if a statement has connected it.
pub(super) fn close(level: usize) {
    if let Some(State::AsOwner { rights, .. }) = state(level) {
        // Rows of this connection can no longer be read.
        set_state(level, State::Waiting);
        // SAFETY: it is the innermost connection of SPI, because those that were made in it have been finished.
        unsafe { pg_sys::SPI_finish() };
        owner::give_rights_back(rights);
    }
}

/// Finishes SPI if a statement has connected it in this subtransaction, which is about to be committed.
pub(super) fn close_within(subtransaction: pg_sys::SubTransactionId) {
    let level = CONNECTIONS.with_borrow(Vec::len);
    if matches!(state(level), Some(State::AsOwner { within, .. }) if within == subtransaction) {
        close(level);
    }
}

fn state(level: usize) -> Option<State> {
    CONNECTIONS.with_borrow(|all| all.get(level.checked_sub(1)?).copied())
}

/// Returns the subtransaction in which a statement has connected SPI for a connection.
pub(super) fn connected_in(level: usize) -> Option<pg_sys::SubTransactionId> {
    match state(level) {
        Some(State::AsOwner { within, .. }) => Some(within),
        _ => None,
    }
}

fn set_state(level: usize, state: State) {
    CONNECTIONS.with_borrow_mut(|all| all[level - 1] = state);
}

/// Returns whether no connection was made since that of a level.
pub(super) fn is_innermost(level: usize) -> bool {
    level == CONNECTIONS.with_borrow(Vec::len)
}

/// Returns the number of subtransactions that were rolled back since the outermost connection was made.
pub(super) fn rollbacks() -> usize {
    ROLLED_BACK.with_borrow(Vec::len)
}

/// Returns whether `is_so` for all subtransactions that were rolled back after the first `rollbacks`.
pub(super) fn all_rolled_back_since(rollbacks: usize, is_so: impl Fn(pg_sys::SubTransactionId) -> bool) -> bool {
    ROLLED_BACK.with_borrow(|all| all.iter().skip(rollbacks).all(|subtransaction| is_so(*subtransaction)))
}

/// A guard that counts a connection.
pub(super) struct Counted {
    level: usize,
}

impl Counted {
    /// Counts a connection for which SPI is connected.
    pub(super) fn connected() -> Self {
        Counted::new(State::Connected)
    }

    /// Counts a connection whose first statement connects SPI.
    pub(super) fn waiting() -> Self {
        Counted::new(State::Waiting)
    }

    fn new(state: State) -> Self {
        let level = CONNECTIONS.with_borrow_mut(|all| {
            all.push(state);
            all.len()
        });
        if level == 1 {
            ROLLED_BACK.with_borrow_mut(Vec::clear);
        }
        Counted { level }
    }

    /// Returns the number of connections in use, up to this one.
    pub(super) fn level(&self) -> usize {
        self.level
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        CONNECTIONS.with_borrow_mut(|all| all.truncate(self.level - 1));
    }
}

/// Records the rollback of a subtransaction, which has freed its rows, and finished SPI if a statement in it had connected it.
/// Must be called after every rollback of a subtransaction that may have run statements.
pub(super) fn rolled_back(subtransaction: pg_sys::SubTransactionId) {
    let level = CONNECTIONS.with_borrow(Vec::len);
    match state(level) {
        None => return,
        Some(State::AsOwner { within, .. }) if within >= subtransaction => set_state(level, State::Waiting),
        Some(_) => {}
    }
    ROLLED_BACK.with_borrow_mut(|all| all.push(subtransaction));
}
