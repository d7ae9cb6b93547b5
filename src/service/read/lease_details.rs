//! `lease_details`: returns one outstanding lease with its names, for whoever has to decide about it.

use claims_model::types::Kind;
use claims_model::{BadInput, Bucket, Problem, Types, id};

use super::outstanding_lease::{self, LeaseDetails};
use crate::kernel::access;
use crate::kernel::call::Call;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::service::naming;
use crate::service::read::tables::RECORD_TABLES;
use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::name::Name;
use pg::prelude::*;
use pg::roles;
use pg::spi::View;
use pg::uuid::from_pg_uuid;
use pg::xid8::Xid8;

#[pg_extern(name = "lease_details", schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn lease_details_2(
    lease_uuid: default!(Option<PgUuid>, "NULL"),
    bucket_type: default!(Option<String>, "NULL"),
    bucket_value: default!(Option<String>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(lease_uuid, PgUuid),
            name!(cell_id, i64),
            name!(cell_name, Option<String>),
            name!(role_name, Option<Name>),
            name!(created_at, TimestampWithTimeZone),
            name!(age, Interval),
            name!(cell_xid, Option<Xid8>),
            name!(creates, JsonText),
            name!(destroys, JsonText),
            name!(context, Option<String>),
            name!(cell_role, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let row = Call::run(|call| {
        let catalog = call.current_catalog();
        let cells = access::cells_of_caller(&catalog)?;
        let Some(lease) = meant(call, &catalog, lease_uuid, bucket_type, bucket_value)? else {
            return Ok(None);
        };
        let details = outstanding_lease::details(call.connection, from_pg_uuid(lease), View::Caller);
        // Another cell's lease must look as if it did not exist. A transfer belongs to both cells.
        let details = match details {
            Some(details) => Some((details.creator_id, details)),
            None => {
                outstanding_lease::as_lease(call.connection, from_pg_uuid(lease)).map(|(details, to)| (to, details))
            }
        };
        let is_his = |(other, details): &(i64, LeaseDetails)| {
            cells.is_none_or(|cells| cells.contains(&details.creator_id) || cells.contains(other))
        };
        Ok::<_, ClaimsError>(details.filter(is_his).map(|(_, details)| (lease, details, catalog.clone())))
    })?;
    let row = row.map(|(lease, details, catalog)| {
        let cell = catalog.cells.get(&details.creator_id);
        let age = Interval::from_seconds(details.created_at.seconds_until(Moment::now()));
        let role = cell.map(|cell| Name(roles::name(cell.role)));
        let (creates, destroys) = (JsonText(details.creates), JsonText(details.destroys));
        let name = cell.and_then(|cell| cell.name.clone());
        let LeaseDetails { creator_id, created_at, cell_xid, context, cell_role, .. } = details;
        (lease, creator_id, name, role, created_at.into(), age, cell_xid, creates, destroys, context, cell_role)
    });
    Ok(TableIterator::new(row))
}

/// Returns the lease of the argument, or the one that holds the bucket of the arguments.
fn meant(
    call: &Call,
    catalog: &Catalog,
    lease: Option<PgUuid>,
    bucket_type: Option<String>,
    bucket_value: Option<String>,
) -> Result<Option<PgUuid>, ClaimsError> {
    match (lease, bucket_type, bucket_value) {
        (Some(lease), None, None) => Ok(Some(lease)),
        (None, Some(bucket_type), Some(bucket_value)) => {
            let bucket_type = id::type_from_text(&bucket_type, Kind::Bucket, &catalog.types)
                .map_err(|problem| BadInput::new("bucket_type", problem))?;
            let read = |types: &Types| {
                let value = types.canonical_for_lookup(bucket_type, &bucket_value);
                let value = value.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?;
                Ok(RECORD_TABLES.of(call).claims(call.connection, &[Bucket { bucket_type, value }]).pop())
            };
            let record = naming::in_snapshot(call.tables, catalog, Some(bucket_type), read, Option::is_some)?;
            Ok(record.and_then(|record| record.lease_uuid))
        }
        (None, Some(_), None) => Err(BadInput::new("bucket_value", Problem::Null).into()),
        (None, None, Some(_)) => Err(BadInput::new("bucket_type", Problem::Null).into()),
        (None, None, None) => Err(BadInput::new("lease_uuid", Problem::Null).into()),
        (Some(_), ..) => {
            let problem = Problem::OutOfRange { allowed: "a lease or a bucket, not both" };
            Err(BadInput::new("lease_uuid", problem).into())
        }
    }
}
