//! `batch_limit`: how many records a cell may send in one batch.

use crate::kernel::call::CellCall;
use crate::kernel::catalog::Catalog;
use crate::kernel::settings;
use pg::prelude::*;

::pgrx::extension_sql_file!(
    "../../../sql/install/service/batch_limit.sql",
    name = "batch_limit",
    requires = ["admin", service::lease::limit::batch_limit]
);

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn batch_limit(cell_id: Option<i64>) -> Result<i32, ErrorReport> {
    Ok(CellCall::run(cell_id, |call| Ok(of_cell(&call.catalog, call.cell_id)))?)
}

/// Returns how many records a cell may send in one batch.
pub fn of_cell(catalog: &Catalog, cell_id: i64) -> i32 {
    let of_cell = catalog.limits.get(&cell_id).and_then(|limits| limits.max_batch_size);
    let of_all = i32::try_from(settings::max_batch_size()).unwrap_or(i32::MAX);
    of_cell.map_or(of_all, |limit| limit.min(of_all)).max(1)
}
