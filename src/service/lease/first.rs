//! `begin_first`: of several batches the first that can be had. Names for bots and imports: what took a call for each name that
//! was tried is one.
//!
//! What is in the way of most of them can be seen: one look at all their buckets, instead of an attempt for each, passes over
//! those. Nothing is decided by that look but what is not tried.

use std::time::Instant;

use claims_model::conflict::{self, StandingClaim, reason_for};
use claims_model::payload::{compared_text, request_digest};
use claims_model::{Batch, Conflict, Op};
use pgrx::Uuid as PgUuid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use super::acquire::{self, Acquired};
use super::begin;
use super::payload::payload;
use super::request::{Begun, Request};
use crate::access;
use crate::error::ClaimsError;
use crate::pg::clock::Moment;
use crate::pg::jsonb::{JsonText, Jsonb};
use crate::pg::spi::{self, Connection};
use crate::pg::uuid::{from_pg_uuid, pg_uuid};
use crate::pg::xid8::Xid8;
use crate::service::naming;
use crate::service::{admission, engine};
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::store::service::leases::NewLease;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn begin_first(
    cell_id: Option<i64>,
    alternatives: Option<Jsonb>,
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    cell_xid: default!(Option<Xid8>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (name!(lease_uuid, Option<PgUuid>), name!(chosen, Option<i32>), name!(conflicts, Option<JsonText>)),
    >,
    ErrorReport,
> {
    let row = spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        let alternatives = access::given(alternatives, "alternatives")?;
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        let given_uuid = lease_uuid.map(from_pg_uuid);
        admission::admit_begin(connection, &catalog, cell_id, given_uuid)?;
        let read = |catalog: &Catalog| {
            let mut tokens = alternatives.tokens();
            Ok(Batch::read_alternatives(&mut tokens, &catalog.types, settings::max_batch_size())?)
        };
        let can_change = |batches: &Vec<Batch>| batches.iter().any(begin::can_change);
        let (catalog, batches) = naming::settled(connection, catalog, read, can_change)?;
        batches.iter().try_for_each(|batch| admission::admit_batch(&catalog, cell_id, batch.records()))?;
        let wanted = Wanted {
            cell_id,
            uuid: given_uuid.unwrap_or_else(Uuid::now_v7),
            may_be_repeat: given_uuid.is_some(),
            digest: digest(&batches, &catalog, cell_xid)?,
            cell_xid,
            began: Instant::now(),
        };
        let acquired = first(connection, &catalog, &batches, &wanted)?;
        begin::note(cell_id, &acquired, wanted.began);
        match acquired {
            Acquired::Lease(Begun { lease, chosen, .. }) => {
                begin::confirm(connection, cell_id)?;
                Ok::<_, ClaimsError>((Some(pg_uuid(lease)), chosen.map(i32::from), None))
            }
            Acquired::Conflicts(conflicts) => {
                Ok((None, None, Some(JsonText(conflict::to_json(&conflicts, &catalog.types)?))))
            }
        }
    })?;
    Ok(TableIterator::once(row))
}

/// What all batches of one call have in common.
struct Wanted {
    cell_id: i64,
    uuid: Uuid,
    may_be_repeat: bool,
    digest: [u8; 32],
    cell_xid: Option<Xid8>,
    began: Instant,
}

/// Two requests are the same when all their batches are.
fn digest(batches: &[Batch], catalog: &Catalog, cell_xid: Option<Xid8>) -> Result<[u8; 32], ClaimsError> {
    let texts: Result<Vec<_>, _> = batches.iter().map(|batch| compared_text(batch, catalog.lasting_types())).collect();
    Ok(request_digest(&format!("[{}]", texts?.join(",")), cell_xid.map(|xid| xid.0)))
}

/// Takes the first batch that can be had; the conflicts are those of the last one.
fn first<'b>(
    connection: &Connection,
    catalog: &Catalog,
    batches: &'b [Batch<'b>],
    wanted: &Wanted,
) -> Result<Acquired<'b>, ClaimsError> {
    let mut conflicts: Vec<Conflict<'b>> = Vec::new();
    let is_visibly_taken = visibly_taken(connection, batches, wanted.cell_id);
    for (number, (batch, is_taken)) in (1_u8..).zip(batches.iter().zip(is_visibly_taken)) {
        // The last one is tried in any case: it says why.
        if is_taken && usize::from(number) < batches.len() {
            continue;
        }
        let lease = NewLease {
            uuid: wanted.uuid,
            cell_id: wanted.cell_id,
            made_at: Moment::now(),
            payload: payload(batch, &catalog.types),
            digest: wanted.digest,
            cell_xid: wanted.cell_xid,
            chosen: Some(number),
        };
        let request = Request::new(batch, lease, wanted.may_be_repeat, &catalog.types);
        match acquire::acquire(connection, &request, wanted.began)? {
            Acquired::Conflicts(found) => conflicts = found,
            lease => return Ok(lease),
        }
    }
    Ok(Acquired::Conflicts(conflicts))
}

/// For each batch: a claim that is committed stands in its way.
fn visibly_taken(connection: &Connection, batches: &[Batch], cell_id: i64) -> Vec<bool> {
    let [_, _, ..] = batches else { return vec![false; batches.len()] };
    let buckets: Vec<_> = batches.iter().flat_map(|batch| batch.wishes().map(|(_, bucket)| bucket)).collect();
    let found = engine::current().standing(connection, &buckets);
    let is_in_the_way = |(op, bucket)| {
        // What a destroy names beside the bucket is for the attempt to compare.
        let standing = found.get(bucket).map(|found| StandingClaim {
            holder_cell_id: found.holder_cell_id,
            active: found.active,
            is_meant: true,
            in_transfer: found.is_in_transfer_of(cell_id),
        });
        reason_for(op, cell_id, standing).is_some()
    };
    batches.iter().map(|batch| batch.wishes().any(|wish: (Op, _)| is_in_the_way(wish))).collect()
}
