//! `attend`: chooses the cells that the background worker attends to.

use super::{attended_cells, services, wakeup};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, catalog};
use pg::prelude::*;
use pg::spi;

::pgrx::extension_sql_file!(
    "../../sql/install/cell/worker.sql",
    name = "worker",
    requires = ["admin", cell::attend::attend]
);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn attend(cell_id: Option<i64>, service: Option<String>) -> Result<(), ErrorReport> {
    Ok(attend_to(cell_id, service)?)
}

pub fn attend_to(cell_id: Option<i64>, service: Option<String>) -> Result<(), ClaimsError> {
    let cell_id = arguments::required(cell_id, "cell_id")?;
    spi::connect(|connection| access::act_here_for(&catalog::current(connection), cell_id))?;
    if let Some(service) = &service {
        services::admit(service)?;
    }
    spi::connect(|connection| attended_cells::attend(connection, cell_id, service.as_deref()));
    wakeup::has_work();
    Ok(())
}
