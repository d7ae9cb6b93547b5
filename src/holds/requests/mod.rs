//! Requests: a hand-off table in which each entity is in the hands of one process at a time.
//!
//! What a process has in hand for the length of its transaction is what it has locked ([`hands`] remembers which rows);
//! what it holds longer is written into the rows. docs/holds/shorter-holds.md has the states and the locks.

mod capture;
mod declare;
mod enqueue;
mod hands;
mod hints;
mod portion;
mod settle;
mod take;
mod unblock;

use crate::pg::transaction_end::Hooks;

/// What a session remembers of requests does not outlive the transaction in which it was true.
pub const HOOKS: Hooks = Hooks {
    end: || {
        hands::forget_all();
        hints::transaction_ended();
    },
    rolled_back: hands::subtransaction_aborted,
    ..Hooks::NONE
};
