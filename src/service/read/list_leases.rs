//! `list_leases`: returns the outstanding leases in pages, oldest first. Recovery uses it.

use claims_model::BadInput;
use claims_model::cursor::{Cursor, LeaseCursor};
use uuid::Uuid;

use super::page_size;
use crate::arguments;
use crate::error::ClaimsError;
use crate::kernel::access;
use crate::kernel::call::Call;
use crate::service::low_water;
use crate::tables::rows::leases::ListedLease;
use crate::tables::shared::leases;
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::prelude::*;
use pg::uuid::pg_uuid;
use pg::xid8::Xid8;

#[pg_extern(schema = "claims", security_definer, stable, parallel_safe)]
#[search_path(pg_catalog, pg_temp)]
fn list_leases(
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
            None => leases::page(call.connection, cell_id, &after, created_after.unwrap_or(Moment::MIN), limit),
        };
        Ok::<_, ClaimsError>(leases.into_iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(TableIterator::new(rows))
}

/// Reads the first page from the low-water mark, to skip the index entries of leases that were settled long ago.
fn first_page(call: &Call, cell_id: i64, limit: i64) -> Vec<ListedLease> {
    let from = low_water::of_caller(call, cell_id);
    let leases = leases::page(call.connection, Some(cell_id), &BEFORE_ALL, from, limit);
    low_water::listed(call, cell_id, from, leases.first().map(|lease| lease.created_at));
    leases
}

const BEFORE_ALL: LeaseCursor = LeaseCursor { created_at: Moment::MIN.0, lease_uuid: Uuid::nil() };

type LeaseRow = (PgUuid, i64, TimestampWithTimeZone, TimestampWithTimeZone, JsonText, String, Option<Xid8>);

fn row(lease: ListedLease) -> LeaseRow {
    let cursor = LeaseCursor { created_at: lease.created_at.0, lease_uuid: lease.uuid }.encode();
    let (created_at, updated_at) = (lease.created_at.into(), lease.updated_at.into());
    (pg_uuid(lease.uuid), lease.creator_id, created_at, updated_at, JsonText(lease.payload), cursor, lease.cell_xid)
}
