//! Requests: a queue in which one process at a time has the requests of an entity.
//!
//! A request that is taken for a transaction is a locked row; [`hands`] has the list. Longer holds are written into the
//! rows. docs/holds/shorter-holds.md has the states and the locks.

pub mod capture;
mod captured_tables;
mod declare;
mod enqueue;
mod errors;
mod hands;
mod hints;
mod portion;
mod settle;
pub mod statements;
mod take;
mod unblock;

use pg::transaction_end::Hooks;

/// Resets a session's data about requests at the end of the transaction.
pub const HOOKS: Hooks = Hooks {
    end: || {
        hands::forget_all();
        hints::transaction_ended();
    },
    rolled_back: hands::subtransaction_aborted,
    ..Hooks::NONE
};
