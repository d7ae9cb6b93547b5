//! `version`: returns the versions of library, extension, protocol and Unicode.

use claims_model::{PROTOCOL, UNICODE_VERSION};
use pgrx::prelude::*;

use crate::pg::spi;
use crate::tables;
use crate::tables::shared::admin;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn version() -> TableIterator<
    'static,
    (
        name!(library, String),
        name!(extension, Option<String>),
        name!(protocol, i32),
        name!(unicode, &'static str),
        name!(distributed, bool),
    ),
> {
    let tables = tables::at_entry();
    let extension = spi::connect(admin::extension_version);
    TableIterator::once((
        env!("CARGO_PKG_VERSION").to_owned(),
        extension,
        PROTOCOL,
        UNICODE_VERSION,
        tables.are_distributed(),
    ))
}
