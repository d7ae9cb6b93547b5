//! Requests: a queue in which one process at a time has the requests of an entity.
//!
//! A request that is taken for a transaction is a locked row; [`hands`] has the list. Longer holds are written into the
//! rows. docs/internals/shorter-holds.md has the states and the locks.

pub mod capture;
mod captured_tables;
mod declare;
mod enqueue;
mod errors;
mod hands;
mod hints;
mod portion;
mod probes;
mod settle;
pub mod statements;
mod take;
mod unblock;

use pg::transaction_end::Hooks;

::pgrx::extension_sql_file!(
    "../../../sql/install/holds/requests.sql",
    name = "requests",
    requires = [
        "expiring",
        holds::requests::enqueue::enqueue_request,
        holds::requests::take::take_requests,
        holds::requests::settle::settle_requests,
        holds::requests::settle::extend_requests,
        holds::requests::enqueue::retry_requests,
        holds::requests::enqueue::purge_requests,
        holds::requests::declare::capture_requests_2,
        holds::requests::declare::uncapture_requests
    ]
);

/// Resets a session's data about requests at the end of the transaction.
pub const HOOKS: Hooks = Hooks {
    end: || {
        hands::forget_all();
        hints::transaction_ended();
    },
    rolled_back: hands::subtransaction_aborted,
    ..Hooks::NONE
};
