//! `version`: what is installed, and what it understands.

use claims_model::{PROTOCOL, UNICODE_VERSION};
use pgrx::prelude::*;

use crate::distribution::{self, Whereabouts};
use crate::pg::spi;
use crate::store::service::admin;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
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
    let extension = spi::connect(admin::extension_version);
    TableIterator::once((
        env!("CARGO_PKG_VERSION").to_owned(),
        extension,
        PROTOCOL,
        UNICODE_VERSION,
        distribution::whereabouts() == Whereabouts::Spread,
    ))
}
