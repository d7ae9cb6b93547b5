//! TRUNCATE of a table with unique columns.

use pgrx::pg_sys::Oid;

use crate::cell::capture::automatic;
use crate::cell::claimed::unique_tables;
use crate::kernel::arguments;
use crate::kernel::error::ClaimsError;
use pg::prelude::*;
use pg::spi;

/// Gives up all values of a table. Only the extension's owner may execute it.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn renew_generations(table_name: Option<Oid>) -> Result<(), ErrorReport> {
    let table = arguments::required(table_name, "table_name")?;
    // Values that the transaction has saved before are those of the generation that ends.
    automatic::send_now()?;
    spi::connect(|connection| {
        let types = unique_tables::types_of(connection, table);
        if !types.is_empty() {
            unique_tables::end_generations(connection, &[table]);
            for type_id in types {
                unique_tables::begin_generations(connection, type_id, &[table], true);
            }
        }
        Ok::<_, ClaimsError>(())
    })?;
    Ok(())
}
