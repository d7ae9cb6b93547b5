//! Shards that move while a transaction uses them.
//!
//! Within a transaction Citus keeps to the connection in which it has used a shard. It knows the shard by the number of its placement,
//! which changes on the coordinator when the shard is moved, and stays the same on every other node. So there a transaction that has read from a shard
//! goes on, once that shard was moved, where it was before: what it writes there is lost with the old copy. (Tried with tables of
//! nobody's: BEGIN, a SELECT, the move, an INSERT, COMMIT; the row is gone.)
//!
//! A statement that writes locks its shards against being moved, to the end of the transaction. Those that only read do not. So
//! each statement but the first of a transaction is looked at, before and after it: if a shard has moved since the first,
//! the transaction is refused.

use std::cell::Cell;

use crate::distribution;
use crate::error::{DistributionError, raise};
use crate::pg::transaction_end::Hooks;
use crate::pg::{gate, spi, xact};
use crate::store::service::shards;

/// What was known before the first statement of a transaction.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    changes: u64,
    oldest: u64,
    /// It is not the only statement.
    goes_on: bool,
    /// A shard has moved since.
    is_lost: bool,
}

thread_local! {
    static BEGINNING: Cell<Option<Beginning>> = const { Cell::new(None) };
}

pub const HOOKS: Hooks = Hooks { end: || BEGINNING.set(None), ..Hooks::NONE };

/// Before each statement that may lead to other nodes. Raises an error where shards have moved.
pub fn before_statement() {
    match BEGINNING.get() {
        Some(beginning) => require_unmoved(Beginning { goes_on: true, ..beginning }),
        None if distribution::is_worker() => {
            // Where it is not known every move counts.
            let oldest = xact::oldest_running_now().unwrap_or(0);
            BEGINNING.set(Some(Beginning { changes: gate::changes(), oldest, goes_on: false, is_lost: false }));
        }
        None => (),
    }
}

/// After it. It may have waited for a shard that was being moved.
pub fn after_statement() {
    if let Some(beginning) = BEGINNING.get().filter(|beginning| beginning.goes_on) {
        require_unmoved(beginning);
    }
}

fn require_unmoved(beginning: Beginning) {
    let changes = gate::changes();
    let is_lost = beginning.is_lost
        || changes != beginning.changes && spi::connect(|connection| shards::have_moved(connection, beginning.oldest));
    BEGINNING.set(Some(Beginning { changes, is_lost, ..beginning }));
    if is_lost {
        raise::<()>(Err(DistributionError::Moved.into()));
    }
}
