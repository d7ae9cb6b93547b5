//! `list_changes` and `change_cursor`: the feed in pages, each change once, none left out.
//!
//! Changes come in the order of (xid, id), and only those of transactions below the oldest that still runs: whatever commits later
//! comes behind them. So a cursor is a place behind which nothing is ever missed. Not after a crash either: what was committed without
//! a flush is flushed before it is told, since its transaction's id could be given to another one otherwise.

use claims_model::cursor::Cursor;
use claims_model::feed::{ChangeCursor, Standing};
use claims_model::types::Kind;
use claims_model::{BadInput, id};
use pgrx::Uuid as PgUuid;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::page::{BEGINNING, ChangePage, Listed};
use super::several;
use crate::access;
use crate::distribution;
use crate::error::{ClaimsError, FeedError};
use crate::pg::name::Name;
use crate::pg::spi::{self, Connection};
use crate::pg::xact;
use crate::pg::xid8::Xid8;
use crate::service::read::page_size;
use crate::store::catalog;
use crate::store::service::changes;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn list_changes(
    after: default!(Option<String>, "NULL"),
    max_results: default!(Option<i32>, 1000),
    bucket_type: default!(Option<String>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(id, i64),
            name!(xid, Xid8),
            name!(at, TimestampWithTimeZone),
            name!(op, String),
            name!(bucket_type, String),
            name!(bucket_value, String),
            name!(old_cell_id, Option<i64>),
            name!(new_cell_id, Option<i64>),
            name!(lease_uuid, Option<PgUuid>),
            name!(actor, Name),
            name!(cursor, String),
            name!(old_cell_name, Option<String>),
            name!(new_cell_name, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let rows = spi::connect(|connection| {
        let max_results = access::given(max_results, "max_results")?;
        let catalog = catalog::current(connection);
        let after = after.map(|text| ChangeCursor::decode(&text)).transpose();
        let after = after.map_err(|problem| BadInput::new("after", problem))?;
        let bucket_type = bucket_type
            .map(|name| id::type_from_text(&name, Kind::Bucket, &catalog.types))
            .transpose()
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let limit = usize::try_from(page_size(max_results)?).unwrap_or(0);
        let page = ChangePage::new(limit, bucket_type, &catalog);
        if distribution::is_spread() { several::read(page, connection, after) } else { read(page, connection, after) }
    })?;
    Ok(TableIterator::new(rows))
}

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn change_cursor() -> Result<String, ErrorReport> {
    Ok(spi::connect(|connection| {
        if distribution::is_spread() {
            return Ok(several::newest(connection)?.encode());
        }
        let newest = changes::newest(connection).ok_or_else(no_horizon)?;
        xact::flush_commits();
        Ok::<_, ClaimsError>(newest.encode())
    })?)
}

fn no_horizon() -> ClaimsError {
    FeedError::NoHorizon.into()
}

/// Fills a page from the tables of this database.
fn read(
    mut page: ChangePage,
    connection: &Connection,
    after: Option<ChangeCursor>,
) -> Result<Vec<Listed>, ClaimsError> {
    let ground = changes::ground(connection, after.as_ref().unwrap_or(&BEGINNING)).ok_or_else(no_horizon)?;
    let after = match after {
        None => ground.horizon.clone(),
        Some(cursor) => match cursor.standing(&ground) {
            Standing::Good => cursor,
            Standing::Ahead => return Ok(Vec::new()),
            Standing::Purged => return Err(FeedError::Purged.into()),
            Standing::Foreign => return Err(FeedError::Foreign.into()),
        },
    };
    changes::each_from(connection, &after, page.bucket_type, |set| page.add(&after, set));
    if !page.rows.is_empty() {
        xact::flush_commits();
    }
    Ok(page.rows)
}
