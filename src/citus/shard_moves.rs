//! Refuses a transaction that continues after a shard it has read was moved.
//!
//! Within a transaction Citus keeps using the connection with which it has accessed a shard. It recognizes the shard by its
//! placement id. When a shard is moved, that id changes on the coordinator, but not on the other nodes. So a transaction on
//! another node that has read from a shard continues on the old node after the move, and its writes are lost with the old copy.
//! (Reproduced with plain tables: BEGIN, a SELECT, the move, an INSERT, COMMIT; the row is gone.)
//!
//! A statement that writes locks its shards against being moved until the end of the transaction, but a statement that only reads
//! does not. So each statement except the first of a transaction is checked before and after it runs: if a shard was moved since
//! the first statement, the transaction is refused.

use std::cell::Cell;

use super::errors::DistributionError;
use super::{layout, shards};
use crate::kernel::error::raise;
use pg::prelude::*;
use pg::subtransaction::Caught;
use pg::transaction_end::Hooks;
use pg::{compatibility, spi, xact};

/// The state before the first statement of a transaction.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    changes: u64,
    oldest: u64,
    /// A second statement has run in this transaction.
    has_several_statements: bool,
    /// Whether a shard was moved since.
    is_lost: bool,
}

thread_local! {
    static BEGINNING: Cell<Option<Beginning>> = const { Cell::new(None) };
}

pub const HOOKS: Hooks = Hooks { end: || BEGINNING.set(None), ..Hooks::NONE };

/// Runs before each statement that may access other nodes. Raises an error if shards were moved.
pub fn before_statement() {
    match BEGINNING.get() {
        Some(beginning) => require_unmoved(Beginning { has_several_statements: true, ..beginning }),
        None if layout::is_worker() => {
            // If the oldest running transaction is unknown, every move counts.
            let oldest = xact::oldest_running_now().unwrap_or(0);
            BEGINNING.set(Some(Beginning {
                changes: compatibility::changes(),
                oldest,
                has_several_statements: false,
                is_lost: false,
            }));
        }
        None => (),
    }
}

/// Runs after such a statement, which may have waited for a shard that was being moved.
pub fn after_statement() {
    if let Some(beginning) = BEGINNING.get().filter(|beginning| beginning.has_several_statements) {
        require_unmoved(beginning);
    }
}

/// Runs when such a statement has raised an error. One that only reads waits for no move, and may find that the shard has left its node: for the caller
/// that is a shard that was moved.
pub fn failed_statement(caught: &Caught) {
    if caught.is_of_postgres() && caught.code() == PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE {
        let message = caught.message();
        // Citus calls a shard by its table's name and its number. Languages quote it in their own ways.
        let is_quote = |c: char| !(c.is_alphanumeric() || c == '.' || c == '_');
        let names_shard = message.split(is_quote).any(|name| {
            let number = name.strip_prefix("claims.").and_then(|name| name.rsplit_once('_'));
            number.is_some_and(|(_, number)| number.parse::<i64>().is_ok())
        });
        if names_shard {
            raise::<()>(Err(DistributionError::ShardGone { message: message.to_owned() }.into()));
        }
    }
}

fn require_unmoved(beginning: Beginning) {
    let changes = compatibility::changes();
    let is_lost = beginning.is_lost
        || changes != beginning.changes && spi::connect(|connection| shards::have_moved(connection, beginning.oldest));
    BEGINNING.set(Some(Beginning { changes, is_lost, ..beginning }));
    if is_lost {
        raise::<()>(Err(DistributionError::Moved.into()));
    }
}
