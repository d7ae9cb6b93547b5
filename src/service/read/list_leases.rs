//! `list_leases`: returns the outstanding leases in pages, oldest first. Recovery uses it.

use std::ops::ControlFlow;

use claims_model::BadInput;
use claims_model::cursor::{Cursor, LeaseCursor};
use claims_model::limits::PAGE_BYTES;
use uuid::Uuid;

use super::page_size;
use super::tables::RECORD_TABLES;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments};
use crate::service::claims::ListedLease;
use crate::service::low_water;
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::prelude::*;
use pg::query::walk;
use pg::spi::Connection;
use pg::uuid::pg_uuid;
use pg::xid8::Xid8;

#[pg_extern(name = "list_leases", schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
fn list_leases_2(
    cell_id: Option<i64>,
    after: default!(Option<String>, "NULL"),
    max_results: default!(Option<i32>, 100),
    created_after: default!(Option<TimestampWithTimeZone>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(lease_uuid, PgUuid),
            name!(cell_id, i64),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
            name!(payload, JsonText),
            name!(cursor, String),
            name!(cell_xid, Option<Xid8>),
            name!(context, Option<String>),
            name!(cell_role, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let rows = Call::run(|call| {
        let max_results = arguments::required(max_results, "max_results")?;
        match cell_id {
            Some(cell_id) => access::act_for(&call.current_catalog(), cell_id)?,
            None => access::read_as_administrator()?,
        }
        let after = after.map(|text| LeaseCursor::decode(&text)).transpose();
        let after = after.map_err(|problem| BadInput::new("after", problem))?.unwrap_or(BEFORE_ALL);
        let limit = page_size(max_results)?;
        let created_after = created_after.map(Moment::from);
        let leases = match cell_id.filter(|_| after == BEFORE_ALL && created_after.is_none()) {
            Some(cell_id) => first_page(call, cell_id, limit),
            None => page(call.connection, cell_id, &after, created_after.unwrap_or(Moment::MIN), limit),
        };
        Ok::<_, ClaimsError>(leases.into_iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(TableIterator::new(rows))
}

/// Reads the first page from the low-water mark, to skip the index entries of leases that were settled long ago.
fn first_page(call: &Call, cell_id: i64, limit: i64) -> Vec<ListedLease> {
    let from = low_water::of_caller(call, cell_id);
    let leases = match RECORD_TABLES.of(call).may_have_leases(cell_id, from) {
        true => page(call.connection, Some(cell_id), &BEFORE_ALL, from, limit),
        // In most calls: whoever calls regularly finds nothing.
        false => Vec::new(),
    };
    low_water::listed(call, cell_id, from, leases.first().map(|lease| lease.created_at));
    leases
}

const BEFORE_ALL: LeaseCursor = LeaseCursor { created_at: Moment::MIN.0, lease_uuid: Uuid::nil() };

type LeaseRow = (
    PgUuid,
    i64,
    TimestampWithTimeZone,
    TimestampWithTimeZone,
    JsonText,
    String,
    Option<Xid8>,
    Option<String>,
    Option<String>,
);

fn row(lease: ListedLease) -> LeaseRow {
    let cursor = LeaseCursor { created_at: lease.created_at.0, lease_uuid: lease.uuid }.encode();
    let (created_at, updated_at) = (lease.created_at.into(), lease.updated_at.into());
    let ListedLease { uuid, creator_id, cell_xid, context, cell_role, payload, .. } = lease;
    (pg_uuid(uuid), creator_id, created_at, updated_at, JsonText(payload), cursor, cell_xid, context, cell_role)
}

/// At most the requested number of leases, oldest first, read in the order of the index. Only the payload of the row that is returned is
/// decompressed.
macro_rules! oldest {
    ($condition:literal) => {
        concat!(
            "SELECT uuid, creator_id, created_at, updated_at, payload::text AS payload, cell_xid, context, cell_role
               FROM (SELECT * FROM (SELECT * FROM claims.claim_leases WHERE ",
            $condition,
            " ORDER BY created_at FETCH FIRST (:most) ROWS WITH TIES) l
                      ORDER BY created_at, uuid LIMIT :most) page ORDER BY created_at, uuid"
        )
    };
}

walk! {
    /// Passes a cell's leases after the one that was created at `at`.
    fn of_cell(cell_id: i64, at: Moment, after: Uuid, created_after: Moment, most: i64) -> ListedLease = [Caller Anywhere]
        oldest!("creator_id = :cell_id AND created_at >= :at AND (created_at, uuid) > (:at, :after) AND created_at >= :created_after");
    /// Like [`of_cell`], of all cells.
    fn of_all(at: Moment, after: Uuid, created_after: Moment, most: i64) -> ListedLease = [Caller Anywhere]
        oldest!("(created_at, uuid) > (:at, :after) AND created_at >= :created_after");
}

/// Returns a page of leases after a cursor that are not older than a time, of one cell or all: at most `limit`, with at most
/// [`PAGE_BYTES`] of payload, and at least one.
fn page(
    connection: &Connection,
    cell_id: Option<i64>,
    after: &LeaseCursor,
    created_after: Moment,
    limit: i64,
) -> Vec<ListedLease> {
    let (at, uuid) = (Moment(after.created_at), after.lease_uuid);
    let (mut leases, mut bytes) = (Vec::new(), 0);
    let add = |lease: ListedLease| {
        bytes += lease.payload.len();
        leases.extend((bytes <= PAGE_BYTES || leases.is_empty()).then_some(lease));
        if bytes < PAGE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    match cell_id {
        Some(cell_id) => of_cell(connection, cell_id, at, uuid, created_after, limit, add),
        None => of_all(connection, at, uuid, created_after, limit, add),
    }
    leases
}
