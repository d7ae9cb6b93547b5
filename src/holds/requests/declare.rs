//! `capture_requests` and `uncapture_requests`, which declare the tables whose changes become requests.

use claims_model::limits::KIND_CHARS;
use claims_model::{BadInput, Problem};
use pgrx::pg_sys::Oid;

use super::captured_tables::{self, Table};
use super::errors::CapturedTableError;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments};
use crate::triggers::{self, Purpose};
use pg::lock::{self, Strength};
use pg::name::{Name, Relation};
use pg::prelude::*;
use pg::spi::{self, Connection};

#[pg_extern(schema = "claims", name = "capture_requests", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn capture_requests_2(
    table_name: Option<Relation>,
    queue: Option<String>,
    entity_column: Option<Name>,
    payload_form: default!(Option<String>, "'row'"),
) -> Result<(), ErrorReport> {
    Ok(spi::connect(|connection| {
        let Relation(table) = arguments::required(table_name, "table_name")?;
        let queue = arguments::required(queue, "queue")?;
        let Name(column) = arguments::required(entity_column, "entity_column")?;
        let form = arguments::required(payload_form, "payload_form")?;
        if !matches!(form.as_str(), "row" | "change") {
            return Err(BadInput::new("payload_form", Problem::OutOfRange { allowed: "row and change" }).into());
        }
        own_table(connection, table)?;
        let queue = arguments::text(Some(queue), "queue", KIND_CHARS)?;
        // Locked, so that neither the table's owner nor its columns change from here on.
        lock::table(table, Strength::AgainstWriters);
        must_fit(connection, table, own_table(connection, table)?, &column)?;
        let purpose = Purpose::Requests { queue: queue.clone(), column: column.clone() };
        triggers::add(connection, table, &purpose)?;
        captured_tables::record(connection, table, &queue, &column, &form);
        Ok::<_, ClaimsError>(())
    })?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn uncapture_requests(table_name: Option<Relation>, queue: Option<String>) -> Result<(), ErrorReport> {
    Ok(spi::connect(|connection| {
        let Relation(table) = arguments::required(table_name, "table_name")?;
        let queue = arguments::required(queue, "queue")?;
        own_table(connection, table)?;
        let purpose = Purpose::Requests { queue: queue.clone(), column: String::new() };
        triggers::drop(connection, table, &purpose)?;
        captured_tables::forget(connection, table, &queue);
        Ok::<_, ClaimsError>(())
    })?)
}

/// Returns a table whose capture the caller may change.
fn own_table(connection: &Connection, table: Oid) -> Result<Table, ClaimsError> {
    let found = captured_tables::table(connection, table).ok_or(CapturedTableError::NoTable { table })?;
    access::own_or_administer(found.owner)?;
    Ok(found)
}

/// Raises an error unless the table can be captured by the column.
fn must_fit(connection: &Connection, table: Oid, found: Table, column: &str) -> Result<(), ClaimsError> {
    let Table { name, can_be_captured, .. } = found;
    if !can_be_captured {
        return Err(CapturedTableError::NotCapturable { table: name }.into());
    }
    let column = column.to_owned();
    match captured_tables::is_virtual(connection, table, &column) {
        None => Err(CapturedTableError::NoColumn { table: name, column }.into()),
        Some(true) => Err(CapturedTableError::VirtualColumn { table: name, column }.into()),
        Some(false) => Ok(()),
    }
}
