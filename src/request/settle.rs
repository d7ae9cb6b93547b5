//! `settle_requests` and `extend_requests`: the end of work, or more time for it.

use std::collections::BTreeMap;

use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::{enqueue, hands, hints, unblock};
use crate::access;
use crate::arguments;
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::spi::{self, Connection};
use crate::settings;
use crate::store::leases::from_pg_uuid;
use crate::store::requests::{self, Settled};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn settle_requests(
    process_id: Option<PgUuid>,
    error: default!(Option<String>, "NULL"),
) -> Result<i64, ErrorReport> {
    let now = Moment::now();
    let process = access::given(process_id, "process_id")?;
    let error = error.map(|error| arguments::at_most(error, "error", arguments::ERROR_CHARS)).transpose()?;
    Ok(spi::connect(|connection| {
        let mut settled = Vec::new();
        for (queue, ids) in hands::of(process) {
            settled.extend(requests::settle(connection, &queue, &ids, process, error.as_deref(), now));
        }
        hands::settled(process);
        settled.extend(requests::settle_held(connection, process, error.as_deref(), now));
        if settled.is_empty() {
            return Err(ClaimsError::NothingInHand { process: from_pg_uuid(process) });
        }
        hints::touch();
        what_follows(connection, &settled, error.is_none());
        Ok(settled.len() as i64)
    })?)
}

/// A complete create opens the way for its updates; and whoever has more to do is announced.
fn what_follows(connection: &Connection, settled: &[Settled], complete: bool) {
    let mut entities = BTreeMap::new();
    for request in settled {
        *entities.entry((&*request.queue, &*request.entity)).or_insert(false) |= request.is_create;
    }
    for ((queue, entity), is_create) in entities {
        if is_create && complete {
            unblock::open_updates(connection, queue, entity);
        }
        if settings::notify_requests() && requests::has_more(connection, queue, entity) {
            enqueue::announce(connection, queue);
        }
    }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn extend_requests(process_id: Option<PgUuid>, hold_for: Option<Interval>) -> Result<i64, ErrorReport> {
    let now = Moment::now();
    let process = access::given(process_id, "process_id")?;
    let until = arguments::deadline(hold_for, "hold_for", now)?;
    match spi::connect(|connection| requests::extend(connection, process, now, until)) {
        0 => Err(ClaimsError::NothingInHand { process: from_pg_uuid(process) }.into()),
        extended => Ok(extended as i64),
    }
}
