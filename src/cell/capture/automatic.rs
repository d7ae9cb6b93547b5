//! Automatic mode: sends the batch of each transaction that changed claimed columns at its end.
//!
//! That is done by a callback before the COMMIT, which Postgres calls when every deferred trigger has run: their changes belong to
//! the batch, and what they refuse should not be leased.
//!
//! SET CONSTRAINTS … IMMEDIATE runs deferred triggers earlier, and sends what was changed by then. Only for that there is a deferred trigger:
//! from then on the first change of a transaction inserts a row into `claims.automatic_queue`, for which Postgres calls it. It lets
//! all other deferred triggers run first, by queueing itself again until nothing changes any more.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::{log, send};
use crate::access;
use crate::cell::client;
use crate::error::{ClaimsError, raise};
use crate::pg::owner::as_owner_of;
use crate::pg::spi::{self, Connection};
use crate::pg::transaction_end::Hooks;
use crate::pg::trigger::{PlainValue, RowChange};
use crate::pg::xact;
use crate::store::catalog;
use crate::store::cell::attributes;

/// To be called before those of the log, which looks whether everything was sent.
pub const HOOKS: Hooks = Hooks { before_commit: send_at_end, ..Hooks::NONE };

/// Called after a captured change.
pub fn see_to_sending(change: &RowChange) {
    let function = change.function();
    let is_automatic = attributes::is_automatic_as_known()
        .or_else(|| as_owner_of(function, || spi::connect(|connection| attributes::automatic(connection).is_some())));
    log::must_be_sent(is_automatic == Some(true), function);
    queue();
}

/// SET CONSTRAINTS is about to be executed.
pub fn before_constraints() {
    log::use_queue();
    queue();
}

/// Has the deferred trigger called, where that is to send.
fn queue() {
    if let Some(function) = log::to_be_queued() {
        as_owner_of(function, || spi::connect(attributes::enqueue));
    }
}

fn send_at_end() -> Result<(), ErrorReport> {
    let Some(function) = log::unsent() else { return Ok(()) };
    let send = || as_owner_of(function, || spi::connect(send_all));
    // Where the function is gone, the log says what was not sent.
    xact::with_snapshot(send).unwrap_or(Ok(())).map_err(ErrorReport::from)
}

/// For SQL functions: raises unless a foreign server leads to a Postgres database.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_service(service: Option<String>) -> Result<(), ErrorReport> {
    spi::connect(|connection| {
        let service = access::given(service, "service")?;
        client::must_be_one(connection, &service).map(|_| ())
    })
    .map_err(ErrorReport::from)
}

/// For SQL functions: raises unless the caller may act for a cell.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn require_cell(cell_id: Option<i64>) -> Result<(), ErrorReport> {
    spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)
    })
    .map_err(ErrorReport::from)
}

/// Deferred trigger of claims.automatic_queue; declared in sql/install/cell/capture.sql.
#[pg_trigger(sql = false)]
fn send_automatically<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, ErrorReport> {
    if let Some(row) = RowChange::of(trigger).and_then(|change| change.after()) {
        raise(spi::connect(|connection| {
            let changes = log::changes();
            if row.held(attributes::CHANGES) != PlainValue::Number(changes)
                && attributes::requeue(connection, row.place(), changes)
            {
                return Ok(());
            }
            attributes::dequeue(connection, row.place());
            log::mark_dequeued();
            send_all(connection)
        }));
    }
    Ok(None)
}

fn send_all(connection: &Connection) -> Result<(), ClaimsError> {
    match attributes::automatic(connection) {
        Some(automatic) => send::send_pending(connection, automatic.cell_id, &automatic.service, true).map(|_| ()),
        // Automatic mode was turned off meanwhile.
        None => {
            log::need_not_be_sent();
            Ok(())
        }
    }
}
