//! `automatic`: chooses the services at which transactions claim their names.

use claims_model::Kind;

use super::attribute::first_name_of;
use super::errors::CaptureError;
use crate::cell::{attend, attended_cells, routes, services, wakeup};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, catalog};
use claims_model::{BadInput, Problem};
use pg::prelude::*;
use pg::spi;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn automatic(
    cell_id: Option<i64>,
    service: Option<String>,
    bucket_types: default!(Option<Vec<Option<String>>>, "NULL"),
) -> Result<(), ErrorReport> {
    access::refuse_restricted()?;
    let types = bucket_types.map(first_names).transpose()?;
    Ok(match (cell_id, service) {
        (None, None) => turn_off(types),
        (Some(_), None) if types.is_some() => turn_off(types),
        (Some(cell_id), Some(service)) => turn_on(cell_id, &service, types),
        _ => Err(CaptureError::CellOrService.into()),
    }?)
}

/// Returns the first names of bucket types, by which they are found again after they were renamed.
fn first_names(bucket_types: Vec<Option<String>>) -> Result<Vec<String>, ClaimsError> {
    if bucket_types.is_empty() {
        return Err(CaptureError::NoTypesNamed.into());
    }
    let catalog = spi::connect(catalog::current);
    let first_name = |(index, name): (usize, Option<String>)| {
        let name = name.ok_or_else(|| BadInput::new(format!("bucket_types[{index}]"), Problem::Null))?;
        first_name_of(&catalog.types, Kind::Bucket, &name)
    };
    bucket_types.into_iter().enumerate().map(first_name).collect()
}

/// Raises an error unless the caller may act for the cells for which automatic mode is on.
fn may_change() -> Result<(), ClaimsError> {
    spi::connect(|connection| {
        for routes::AutomaticCell { cell_id, is_registered } in routes::cells(connection) {
            match is_registered {
                true => access::act_here_for(&catalog::current(connection), cell_id)?,
                false => access::administer()?,
            }
        }
        Ok(())
    })
}

fn turn_off(types: Option<Vec<String>>) -> Result<(), ClaimsError> {
    may_change()?;
    spi::connect(|connection| routes::forget(connection, types.as_deref()));
    Ok(())
}

fn turn_on(cell_id: i64, service: &str, types: Option<Vec<String>>) -> Result<(), ClaimsError> {
    // Two transactions that choose for different cells would not see each other's rows.
    spi::connect(routes::lock);
    may_change()?;
    if let Some(other) = spi::connect(|connection| routes::other_cell(connection, cell_id, types.as_deref())) {
        return Err(CaptureError::OtherCell { cell_id: other }.into());
    }
    // Both raise an error unless the caller may act for the cell, and may have this server called.
    match &types {
        None => attend::attend_to(Some(cell_id), Some(service.to_owned()))?,
        Some(_) => {
            spi::connect(|connection| access::act_here_for(&catalog::current(connection), cell_id))?;
            services::admit(service)?;
            spi::connect(|connection| attended_cells::attend_also(connection, cell_id, service));
            wakeup::has_work();
        }
    }
    spi::connect(|connection| routes::set(connection, cell_id, service, types.as_deref()));
    Ok(())
}
