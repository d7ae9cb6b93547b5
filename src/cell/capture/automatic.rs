//! Automatic mode: sends the batch of each transaction that changed claimed columns at its end.
//!
//! The first change of a transaction inserts a row into `claims.automatic_queue`, whose deferred trigger Postgres calls when
//! the transaction is about to commit. It lets all other deferred triggers run first, by queueing itself again until
//! nothing changes any more: their changes belong to the batch, and what they refuse should not
//! be leased.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::{log, send};
use crate::access;
use crate::cell::client;
use crate::error::{ClaimsError, raise};
use crate::pg::spi::{self, Connection};
use crate::pg::trigger::{PlainValue, RowChange};
use crate::store::catalog;
use crate::store::cell::attributes;

/// Called after a captured change.
pub fn see_to_sending(connection: &Connection) {
    let is_automatic = attributes::automatic(connection).is_some();
    if log::must_be_sent(is_automatic) {
        attributes::enqueue(connection);
    }
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
            log::must_be_sent(false);
            Ok(())
        }
    }
}
