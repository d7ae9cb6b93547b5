//! `is_available` and `look_up`: ask the service about names.

use std::time::Instant;

use claims_model::limits::bucket_value_excess;
use claims_model::routes::{Route, Routes};

use super::availability;
use super::capture::errors::CaptureError;
use super::capture::pins;
use super::claimed::attributes;
use super::client::Service;
use super::client::names::{NameHolder, Record};
use super::errors::{AvailabilityError, CellError};
use crate::kernel::catalog::{self, same_source_type};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, settings};
use pg::jsonb::Jsonb;
use pg::name::{Name, Relation};
use pg::prelude::*;
use pg::roles;
use pg::spi::{self, Connection};
use pg::uuid::pg_uuid;

::pgrx::extension_sql_file!(
    "../../sql/install/cell/look_up.sql",
    name = "look_up",
    requires = ["admin", cell::look_up::is_available, cell::look_up::look_up, service::verify::holder::name_holder]
);

/// A column with a claimed name: the type of its names, and that of their sources.
struct NamedColumn {
    bucket_type: String,
    source_type: String,
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn is_available(
    table_name: Option<Relation>,
    attribute: Option<Name>,
    value: Option<String>,
    source_id: default!(Option<String>, "NULL"),
) -> Result<Option<bool>, ErrorReport> {
    access::refuse_restricted()?;
    let Relation(table) = arguments::required(table_name, "table_name")?;
    let Name(attribute) = arguments::required(attribute, "attribute")?;
    let available = spi::connect(|connection| {
        let columns = columns(connection, table, &attribute)?;
        // NULL values are not claimed.
        let Some(value) = value else { return Ok(Some(true)) };
        let routes = availability::routes(connection).ok_or(AvailabilityError::NoService)?;
        let asked = AskedName { cell_id: routes.cell_id, value, source_id };
        unless_silent(asked.is_available(connection, &routes, &columns))
    })?;
    Ok(available)
}

/// Returns the declarations of a column that the caller may write.
fn columns(connection: &Connection, table: pg_sys::Oid, attribute: &str) -> Result<Vec<NamedColumn>, ClaimsError> {
    let Some(column) = availability::column(connection, table, attribute, roles::caller()) else {
        return Err(CaptureError::NoTable { table }.into());
    };
    if !column.may_be_written {
        let (column, caller) = (attribute.to_owned(), roles::name(roles::caller()));
        return Err(AvailabilityError::MayNotWrite { column, caller }.into());
    }
    let captured = attributes::captured(connection, table, column.row_type, pins::enforcement);
    let captured = captured
        .map_err(|_| CaptureError::NoAttribute { table: column.table_name.clone(), attribute: attribute.to_owned() })?;
    let observed = captured.observed.iter().flat_map(|columns| &columns.attributes);
    let of_column = captured.enforced.attributes.iter().chain(observed);
    let columns: Vec<_> = of_column
        .filter(|captured| captured.columns[0].0 == attribute)
        .map(|captured| NamedColumn {
            bucket_type: captured.bucket_type.to_string(),
            source_type: captured.source_type.to_string(),
        })
        .collect();
    // Nothing prevents a save of a column whose declarations are off.
    if columns.is_empty() && captured.declared.iter().all(|declared| declared.column_name != attribute) {
        return Err(CaptureError::NotClaimed { table: column.table_name, attribute: attribute.to_owned() }.into());
    }
    Ok(columns)
}

/// Returns `None` if the service does not answer. An error that it has answered is raised.
fn unless_silent(available: Result<bool, ClaimsError>) -> Result<Option<bool>, ClaimsError> {
    match available {
        Err(error) if error.of().is_some_and(CellError::is_without_answer) => Ok(None),
        answer => answer.map(Some),
    }
}

/// A name that may be free, for a row or for none.
struct AskedName {
    cell_id: i64,
    value: String,
    source_id: Option<String>,
}

impl AskedName {
    fn is_available(
        &self,
        connection: &Connection,
        routes: &Routes,
        columns: &[NamedColumn],
    ) -> Result<bool, ClaimsError> {
        let types = catalog::current(connection);
        let limit = settings::observe_timeout();
        let deadline = Instant::now() + limit;
        for column in columns {
            let place = routes.of(&column.bucket_type).ok_or(AvailabilityError::NoService)?;
            // Such a name cannot be claimed.
            let is_impossible = self.value.is_empty() || bucket_value_excess(&self.value).is_some();
            if is_impossible || types.types.profile_of(&column.bucket_type).canonical(&self.value).is_err() {
                return Ok(false);
            }
            let holder = match place {
                Route::Service(server) => {
                    let service = Service::new(connection, &server, self.cell_id)?.until(deadline);
                    service.holder(&column.bucket_type, &self.value, limit)?
                }
                Route::Here => {
                    availability::holder_here(connection, &column.bucket_type, &self.value).map(NameHolder::from)
                }
            };
            if holder.is_some_and(|holder| !self.is_own(connection, &holder, &column.source_type)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether the claim is that of the row itself.
    fn is_own(&self, connection: &Connection, holder: &NameHolder, source_type: &str) -> bool {
        self.source_id.is_some()
            && holder.source_id == self.source_id
            && holder.cell_id == Some(self.cell_id)
            && holder.source_type.as_deref().is_some_and(|of| same_source_type(connection, of, source_type))
    }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn look_up(
    cell_id: Option<i64>,
    service: Option<String>,
    buckets: Option<Jsonb>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(uuid, PgUuid),
            name!(bucket_type, Option<String>),
            name!(bucket_value, String),
            name!(subject_type, Option<String>),
            name!(subject_id, String),
            name!(source_type, Option<String>),
            name!(source_id, String),
            name!(cell_id, i64),
            name!(status, String),
            name!(lease_uuid, Option<PgUuid>),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
            name!(cell_name, Option<String>),
            name!(cell_address, Option<String>),
            name!(display_value, Option<String>),
            name!(ordinal, i32),
        ),
    >,
    ErrorReport,
> {
    let records = spi::connect(|connection| {
        arguments::require!(cell_id, service, buckets);
        access::act_here_for(&catalog::current(connection), cell_id)?;
        let asked = availability::text(connection, buckets);
        let service = Service::new(connection, &service, cell_id)?;
        service.records(&asked, settings::service_timeout())
    })?;
    let row = |record: Record| {
        (
            pg_uuid(record.uuid),
            record.bucket_type,
            record.bucket_value,
            record.subject_type,
            record.subject_id,
            record.source_type,
            record.source_id,
            record.cell_id,
            record.status.0,
            record.lease_uuid.map(pg_uuid),
            record.created_at.into(),
            record.updated_at.into(),
            record.cell_name,
            record.cell_address,
            record.display_value,
            record.ordinal,
        )
    };
    Ok(TableIterator::new(records.into_iter().map(row)))
}
