//! `batch_limit`: how many records a cell may send in one batch.

use crate::error::ClaimsError;
use crate::store::catalog::{self, Catalog};
use crate::{access, arguments, settings};
use pg::prelude::*;
use pg::spi;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn batch_limit(cell_id: Option<i64>) -> Result<i32, ErrorReport> {
    let limit = spi::connect(|connection| {
        let cell_id = arguments::required(cell_id, "cell_id")?;
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        Ok::<_, ClaimsError>(of_cell(&catalog, cell_id))
    })?;
    Ok(limit)
}

/// Returns how many records a cell may send in one batch.
pub fn of_cell(catalog: &Catalog, cell_id: i64) -> i32 {
    let of_cell = catalog.limits.get(&cell_id).and_then(|limits| limits.max_batch_size);
    let of_all = i32::try_from(settings::max_batch_size()).unwrap_or(i32::MAX);
    of_cell.map_or(of_all, |limit| limit.min(of_all)).max(1)
}
