//! `is_available`, `first_available` and `look_up`: ask the service about names.

use std::collections::HashMap;
use std::time::Instant;

use claims_model::limits::bucket_value_excess;
use claims_model::routes::{Route, Routes};
use claims_model::{BadInput, Problem, Profile};

use super::availability;
use super::capture::errors::CaptureError;
use super::capture::pins;
use super::claimed::attributes;
use super::client::Service;
use super::client::names::{NameHolder, Record};
use super::errors::{AvailabilityError, CellError, notice_of_none_available, notice_of_silence};
use crate::cell::claimed::expected::{self, ShareLock};
use crate::kernel::call::Call;
use crate::kernel::catalog::{self, same_source_type};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, settings};
use crate::service::verify::holder::{FormerOwner, name_holders_for};
use pg::jsonb::Jsonb;
use pg::name::{Name, Relation};
use pg::prelude::*;
use pg::roles;
use pg::spi::{self, Connection};
use pg::uuid::pg_uuid;

::pgrx::extension_sql_file!(
    "../../sql/install/cell/look_up.sql",
    name = "look_up",
    requires = [
        "admin",
        cell::look_up::is_available,
        cell::look_up::first_available,
        cell::look_up::look_up,
        service::verify::holder::name_holders
    ]
);

/// A column with a claimed name: the types of its names, and of their subjects and sources.
struct NamedColumn {
    table: pg_sys::Oid,
    quoted_column: String,
    bucket_type: String,
    subject_type: String,
    source_type: String,
}

impl NamedColumn {
    /// Returns the subject of a row, which may have names again that it gave up.
    fn former_owner(&self, connection: &Connection, cell_id: i64, source_id: &str) -> Option<FormerOwner> {
        let attributes = expected::of_bucket(connection, &self.bucket_type).into_iter();
        let mut own =
            attributes.filter(|attribute| attribute.is_column(self.table, &self.quoted_column)).filter(|attribute| {
                attribute.source_type == self.source_type && attribute.subject_type == self.subject_type
            });
        let rows = own.next()?.with_ids(connection, &[source_id], ShareLock::None);
        let subject_id = rows.into_iter().next()?.subject_id?;
        Some(FormerOwner { cell_id, subject_type: self.subject_type.clone(), subject_id })
    }
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
        let Some(value) = value else { return Ok(Some(Some(0))) };
        let routes = availability::routes(connection).ok_or(AvailabilityError::NoService)?;
        let asked = AskedNames { cell_id: routes.cell_id, values: &[value], source_id };
        unless_silent(asked.first_available(connection, &routes, &columns))
    })?;
    Ok(available.map(|first| first.is_some()))
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn first_available(
    table_name: Option<Relation>,
    attribute: Option<Name>,
    candidates: Option<Vec<Option<String>>>,
    source_id: default!(Option<String>, "NULL"),
) -> Result<Option<String>, ErrorReport> {
    access::refuse_restricted()?;
    let Relation(table) = arguments::required(table_name, "table_name")?;
    let Name(attribute) = arguments::required(attribute, "attribute")?;
    let candidates = candidate_names(candidates)?;
    let first = spi::connect(|connection| {
        let columns = columns(connection, table, &attribute)?;
        let routes = availability::routes(connection).ok_or(AvailabilityError::NoService)?;
        let asked = AskedNames { cell_id: routes.cell_id, values: &candidates, source_id };
        unless_silent(asked.first_available(connection, &routes, &columns))
    })?;
    // Sending a NOTICE checks for interrupts, so it is sent when SPI is closed.
    match first {
        Some(Some(at)) => return Ok(candidates.into_iter().nth(at)),
        Some(None) => notice_of_none_available(candidates.len()),
        None => notice_of_silence(settings::observe_timeout()),
    }
    Ok(None)
}

/// The most names that one call asks about.
const MAX_CANDIDATES: usize = 100;

fn candidate_names(candidates: Option<Vec<Option<String>>>) -> Result<Vec<String>, ClaimsError> {
    let candidates = arguments::required(candidates, "candidates")?;
    if candidates.len() > MAX_CANDIDATES {
        let problem = Problem::TooMany { what: "names", got: candidates.len(), limit: MAX_CANDIDATES };
        return Err(BadInput::new("candidates", problem).into());
    }
    let name = |(index, name): (usize, Option<String>)| arguments::required(name, &format!("candidates[{index}]"));
    candidates.into_iter().enumerate().map(name).collect()
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
            table: captured.declared.table.into(),
            quoted_column: captured.declared.quoted_column.clone(),
            subject_type: captured.subject_type.to_string(),
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
fn unless_silent<T>(available: Result<T, ClaimsError>) -> Result<Option<T>, ClaimsError> {
    match available {
        Err(error) if error.of().is_some_and(CellError::is_without_answer) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Names that may be free, for a row or for none.
struct AskedNames<'a> {
    cell_id: i64,
    values: &'a [String],
    source_id: Option<String>,
}

impl AskedNames<'_> {
    /// Returns the position of the first name that is free, in one call for each bucket type of the column.
    fn first_available(
        &self,
        connection: &Connection,
        routes: &Routes,
        columns: &[NamedColumn],
    ) -> Result<Option<usize>, ClaimsError> {
        let types = catalog::current(connection);
        let limit = settings::observe_timeout();
        let deadline = Instant::now() + limit;
        let mut open: Vec<usize> = (0..self.values.len()).collect();
        for column in columns {
            let place = routes.of(&column.bucket_type).ok_or(AvailabilityError::NoService)?;
            let profile = types.types.profile_of(&column.bucket_type);
            open.retain(|at| can_be_claimed(&self.values[*at], profile));
            if open.is_empty() {
                return Ok(None);
            }
            let former = self.source_id.as_deref();
            let former = former.and_then(|source_id| column.former_owner(connection, self.cell_id, source_id));
            let names: Vec<&str> = open.iter().map(|at| self.values[*at].as_str()).collect();
            let held: HashMap<usize, NameHolder> = match place {
                Route::Service(server) => {
                    let service = Service::new(connection, &server, self.cell_id)?.until(deadline);
                    service.name_holders(&column.bucket_type, names, former.as_ref(), limit)?
                }
                Route::Here => {
                    let call = Call::over(connection);
                    let held = name_holders_for(&call, &column.bucket_type, &names, former.as_ref())?;
                    held.into_iter().enumerate().filter_map(|(at, holder)| Some((at, holder?.into()))).collect()
                }
            };
            let is_own = |holder: &NameHolder| self.is_own(connection, holder, &column.source_type);
            let is_free = |at: usize| held.get(&at).is_none_or(is_own);
            open = open.into_iter().enumerate().filter(|(at, _)| is_free(*at)).map(|(_, name)| name).collect();
        }
        Ok(open.into_iter().next())
    }

    /// Returns whether the claim is that of the row itself.
    fn is_own(&self, connection: &Connection, holder: &NameHolder, source_type: &str) -> bool {
        self.source_id.is_some()
            && holder.source_id == self.source_id
            && holder.cell_id == Some(self.cell_id)
            && holder.source_type.as_deref().is_some_and(|of| same_source_type(connection, of, source_type))
    }
}

/// Returns whether a name can be claimed at all.
fn can_be_claimed(name: &str, profile: Profile) -> bool {
    !name.is_empty() && bucket_value_excess(name).is_none() && profile.canonical(name).is_ok()
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
