//! `version`: returns the versions of library, extension, protocol and Unicode.

use claims_model::{PROTOCOL, UNICODE_VERSION};
use pgrx::prelude::*;

use super::statements;
use crate::kernel::{tables, version};
use pg::spi;

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
    // An extension that is older than the library must be able to say so.
    let is_distributed = if version::are_tables_older() {
        tables::are_distributed_unchecked()
    } else {
        tables::at_entry().are_distributed()
    };
    let extension = spi::connect_unchecked(statements::extension_version);
    TableIterator::once((env!("CARGO_PKG_VERSION").to_owned(), extension, PROTOCOL, UNICODE_VERSION, is_distributed))
}
