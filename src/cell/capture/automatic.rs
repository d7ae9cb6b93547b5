//! Automatic mode: sends the batch of each transaction that changed claimed columns at its end.
//!
//! A callback before the COMMIT does that. PostgreSQL calls it when every deferred trigger has run: their changes belong to the
//! batch, and a transaction that one of them refuses needs no lease.
//!
//! SET CONSTRAINTS … IMMEDIATE runs deferred triggers earlier, and has to send the changes made so far. Only for this command
//! there is a deferred trigger: after it, the first change of a transaction inserts a row into `claims.automatic_queue`, for
//! which PostgreSQL calls the trigger. The trigger lets all other deferred triggers run first, by queueing itself again until
//! nothing changes any more.

use std::rc::Rc;

use claims_model::routes::{Route, Routes};
use pgrx::PgTrigger;

use super::{log, send, slow_search};
use crate::cell::claimed::attributes;
use crate::cell::routes;
use crate::kernel::error::{ClaimsError, raise};
use crate::kernel::{access, arguments, catalog};
use pg::error_context;
use pg::memory;
use pg::owner::{as_owner_of, as_role};
use pg::prelude::*;
use pg::roles;
use pg::spi::{self, Connection};
use pg::subtransaction::{Stopped, attempt};
use pg::transaction_end::Hooks;
use pg::trigger::{PlainValue, RowChange, RowVersion};
use pg::xact;

/// The hooks. They must run before those of the log, which check that everything was sent.
pub const HOOKS: Hooks = Hooks { before_commit: send_at_end, ..Hooks::NONE };

/// Returns the routes of automatic mode for a captured change. `None` if it is off.
pub fn routes_of(change: &RowChange) -> Option<Rc<Routes>> {
    let look_up = || as_owner_of(change.function(), || spi::connect(routes::automatic));
    routes::automatic_if_cached().or_else(look_up).flatten()
}

/// Makes sure that a captured change will be sent in automatic mode.
pub fn see_to_sending(change: &RowChange) {
    log::must_be_sent(routes_of(change).map(|_| change.function()));
    queue();
}

/// Sends the changes of this transaction now: what follows ends the generations of tables.
pub fn send_now() -> Result<(), ClaimsError> {
    let Some(function) = log::unsent() else { return Ok(()) };
    let sent = as_owner_of(function, || spi::connect(send_all)).unwrap_or(Ok(()));
    slow_search::warn();
    sent
}

/// Sends the changes of this transaction, if they are so many that the log will not store them all. A statement that moves values from row to row has
/// conflicts that end when it has changed the last row: the first conflicts are ignored, and the changes stay until they are sent again.
pub fn send_if_many(change: &RowChange) -> Result<(), ClaimsError> {
    if !log::has_grown(MANY) || !is_here(change) {
        return Ok(());
    }
    match attempt(send_now) {
        Ok(()) => Ok(()),
        Err(Stopped::ByBody(error)) if log::buckets() >= MOST => Err(error),
        Err(Stopped::ByBody(_)) => Ok(()),
        Err(Stopped::ByError(error)) => error.rethrow(),
    }
}

/// The number of buckets by which the stored changes grow until they are sent before the end of their transaction.
const MANY: usize = 50_000;
/// The number of buckets from which on conflicts of such changes are errors. The log stores a quarter more.
const MOST: usize = 3 * MANY;

fn is_here(change: &RowChange) -> bool {
    routes_of(change).is_some_and(|routes| routes.others == Some(Route::Here) && routes.by_type.is_empty())
}

/// Switches to the deferred trigger, because SET CONSTRAINTS is about to run.
pub fn before_constraints() {
    log::use_queue();
    queue();
}

/// Queues the deferred trigger if it has to send.
fn queue() {
    if let Some(function) = log::to_be_queued() {
        // After SET CONSTRAINTS the statement sends at once, and may raise the service's error.
        error_context::keeping_completion(|| as_owner_of(function, || spi::connect(attributes::enqueue)));
    }
}

fn send_at_end() -> Result<(), ErrorReport> {
    let Some(function) = log::unsent() else { return Ok(()) };
    // Most transactions are sent without a statement. The first one sets up a connection and a search_path.
    let send = |owner| memory::in_temporary(|| as_role(owner, || spi::connect_as_owner(send_all)));
    // If the function is gone, the log reports what was not sent.
    let sent = xact::with_snapshot(|| roles::owner_of_function(function).map(send)).unwrap_or(Ok(()));
    slow_search::warn();
    sent.map_err(ErrorReport::from)
}

/// Raises an error unless the caller may act for a cell. For SQL functions.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_cell(cell_id: Option<i64>) -> Result<(), ErrorReport> {
    spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)
    })
    .map_err(ErrorReport::from)
}

/// Handles the deferred trigger of claims.automatic_queue, which sql/install/cell/capture.sql declares.
pub fn send_automatically(trigger: &PgTrigger) {
    if let Some(row) = RowChange::of(trigger).and_then(|change| change.after()) {
        let sent = spi::connect(|connection| {
            let changes = log::changes();
            if row.plain_value(attributes::CHANGES, 0) != PlainValue::Number(changes)
                && requeue(connection, &row, changes)
            {
                return Ok(());
            }
            attributes::dequeue(connection, row.ctid());
            log::mark_dequeued();
            // A condition wrote this row while changes were sent. The sender repeats until nothing is pending.
            if log::is_sending() { Ok(()) } else { send_all(connection) }
        });
        slow_search::warn();
        raise(sent);
    }
}

/// Queues the deferred trigger again. After SET CONSTRAINTS the statement sends at once, and may raise the service's error.
fn requeue(connection: &Connection, row: &RowVersion, changes: i64) -> bool {
    error_context::keeping_completion(|| attributes::requeue(connection, row.ctid(), changes))
}

fn send_all(connection: &Connection) -> Result<(), ClaimsError> {
    match routes::automatic(connection) {
        Some(routes) => send::send_all_pending(connection, &routes),
        // Automatic mode has been turned off meanwhile.
        None => {
            log::must_be_sent(None);
            Ok(())
        }
    }
}
