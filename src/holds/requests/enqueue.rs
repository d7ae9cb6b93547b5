//! Records requests, retries failed ones, and purges old ones.

use claims_model::limits::{KEY_CHARS, KIND_CHARS, PAYLOAD_BYTES, PAYLOAD_DEPTH};
use claims_model::{BadInput, Problem};

use super::{hints, statements as requests};
use crate::holds::errors::HoldError;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, settings};
use pg::clock::Moment;
use pg::jsonb::{Extent, Jsonb};
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::xact;

/// The number of requests that one statement deletes.
const PURGE_BATCH: i64 = 10_000;

/// The size below which no jsonb is too large: at worst every 12 bytes are a number of 147,459 digits.
const SMALL_PAYLOAD: usize = 4096;
const LARGEST_PAYLOAD: Extent = Extent { bytes: PAYLOAD_BYTES, depth: PAYLOAD_DEPTH };

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn enqueue_request(
    queue: Option<String>,
    entity: Option<String>,
    request_type: Option<String>,
    payload: default!(Option<Jsonb>, "NULL"),
) -> Result<i64, ErrorReport> {
    Ok(spi::connect(|connection| record(connection, queue, entity, request_type, payload))?)
}

/// Records a request and returns its id.
pub fn record(
    connection: &Connection,
    queue: Option<String>,
    entity: Option<String>,
    request_type: Option<String>,
    payload: Option<Jsonb>,
) -> Result<i64, ClaimsError> {
    let queue = arguments::text(queue, "queue", KIND_CHARS)?;
    let entity = arguments::text(entity, "entity", KEY_CHARS)?;
    let request_type = arguments::required(request_type, "request_type")?;
    if !["create", "update"].contains(&&*request_type) {
        let problem = Problem::OutOfRange { allowed: "create or update" };
        return Err(BadInput::new("request_type", problem).into());
    }
    let payload = within_limits(payload, &queue, &entity)?;
    let create = requests::create_status(connection, &queue, &entity);
    let is_create = request_type == "create";
    let blocked =
        !is_create && create.as_deref().is_some_and(is_unfinished) && wait_for_create(connection, &queue, &entity);
    // A visible create is reported here, because the INSERT would wait for a transaction that is settling it.
    let id = match create {
        Some(_) if is_create => None,
        _ => requests::enqueue(connection, &queue, &entity, &request_type, payload, blocked),
    };
    let id = id.ok_or(HoldError::CreateExists { queue: queue.clone(), entity })?;
    announce(connection, &queue);
    Ok(id)
}

fn is_unfinished(status: &str) -> bool {
    status != "complete"
}

/// Returns whether an update can be marked as blocked until the entity's create is complete. The create's row is
/// locked, so that it cannot become complete unnoticed, and must not have been complete before. Otherwise the update is
/// not blocked, and the search tests it.
fn wait_for_create(connection: &Connection, queue: &str, entity: &str) -> bool {
    !xact::uses_transaction_snapshot()
        && requests::lock_create(connection, queue, entity)
        && requests::latest_create_status(connection, queue, entity).as_deref().is_some_and(is_unfinished)
}

/// Notifies the backends of a queue. PostgreSQL sends equal notifications of a transaction only once.
pub fn announce(connection: &Connection, queue: &str) {
    if settings::notify_requests() {
        requests::notify(connection, queue);
    }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn retry_requests(queue: Option<String>, entity: Option<String>) -> Result<i64, ErrorReport> {
    Ok(spi::connect(|connection| {
        let queue = arguments::text(queue, "queue", KIND_CHARS)?;
        let entity = arguments::text(entity, "entity", KEY_CHARS)?;
        let ids = requests::retry(connection, &queue, &entity);
        if let Some(first) = ids.iter().min() {
            hints::touch();
            hints::lower(&queue, *first);
            announce(connection, &queue);
        }
        Ok::<_, ClaimsError>(ids.len() as i64)
    })?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
pub fn purge_requests(queue: Option<String>, older_than: Option<Interval>) -> Result<i64, ErrorReport> {
    Ok(spi::connect(|connection| {
        arguments::require!(queue, older_than);
        access::administer()?;
        let queue = arguments::text(Some(queue), "queue", KIND_CHARS)?;
        let before = arguments::before(older_than, "older_than", Moment::now())?;
        requests::purge_lost_holds(connection, &queue, before);
        let mut total = 0;
        let mut after = i64::MIN;
        loop {
            let dropped = requests::purge(connection, &queue, before, PURGE_BATCH, after);
            total += dropped.len() as i64;
            match dropped.iter().max() {
                Some(last) if dropped.len() as i64 == PURGE_BATCH => after = *last,
                _ => return Ok::<_, ClaimsError>(total),
            }
            check_for_interrupts!();
        }
    })?)
}

/// Returns a payload within its limits.
fn within_limits(payload: Option<Jsonb>, queue: &str, entity: &str) -> Result<Option<Jsonb>, ClaimsError> {
    let is_too_large = |payload: &Jsonb| {
        let Extent { bytes, depth } = payload.extent(SMALL_PAYLOAD, LARGEST_PAYLOAD);
        bytes > PAYLOAD_BYTES || depth > PAYLOAD_DEPTH
    };
    match payload {
        Some(large) if is_too_large(&large) => {
            Err(HoldError::PayloadTooLarge { queue: queue.to_owned(), entity: entity.to_owned() }.into())
        }
        payload => Ok(payload),
    }
}
