//! The end of prepared transactions. The session that ends one has a transaction of its own for that command.

use std::cell::Cell;

thread_local! {
    /// Whether this transaction ends a prepared one.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the current command ends a prepared transaction.
pub(super) fn ends() {
    ENDS.set(true);
}

/// Returns whether a prepared transaction was ended since the last call.
pub fn has_ended() -> bool {
    ENDS.replace(false)
}
