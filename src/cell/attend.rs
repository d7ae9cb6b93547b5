//! `attend`: the cells that the background worker attends to.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::cell::{client, wakeup};
use crate::error::ClaimsError;
use crate::pg::spi;
use crate::store::{catalog, worker};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn attend(cell_id: Option<i64>, service: Option<String>) -> Result<(), ErrorReport> {
    spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        access::act_here_for(&catalog::current(connection), cell_id)?;
        if let Some(service) = &service {
            client::must_be_one(connection, service)?;
        }
        worker::attend(connection, cell_id, service.as_deref());
        wakeup::has_work();
        Ok::<_, ClaimsError>(())
    })
    .map_err(ErrorReport::from)
}
