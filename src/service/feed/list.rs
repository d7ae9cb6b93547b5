//! `list_changes` and `change_cursor`: the feed in pages, each change once, none left out.
//!
//! Changes come in the order of (xid, id), and only those of transactions below the oldest that still runs: whatever commits later
//! comes behind them. So a cursor is a place behind which nothing is ever missed. Not after a crash either: what was committed without
//! a flush is flushed before it is told, since its transaction's id could be given to another one otherwise.

use std::ops::ControlFlow;

use claims_model::cursor::Cursor;
use claims_model::feed::{ChangeCursor, Standing};
use claims_model::limits::PAGE_BYTES;
use claims_model::types::Kind;
use claims_model::{BadInput, id};
use pgrx::Uuid as PgUuid;
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use uuid::Uuid;

use crate::access;
use crate::error::{ClaimsError, FeedError};
use crate::pg::name::Name;
use crate::pg::spi::{self, Connection};
use crate::pg::xact;
use crate::pg::xid8::Xid8;
use crate::service::read::page_size;
use crate::store::catalog::{self, Catalog};
use crate::store::service::changes::{self, StoredSet};

/// Bytes of a change beside its value, roughly.
const CHANGE_BYTES: usize = 256;

type Listed = (
    i64,
    Xid8,
    TimestampWithTimeZone,
    String,
    String,
    String,
    Option<i64>,
    Option<i64>,
    Option<PgUuid>,
    Name,
    String,
    Option<String>,
    Option<String>,
);

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
        let page = ChangePage { limit, bucket_type, catalog: &catalog, bytes: 0, rows: Vec::new() };
        page.read(connection, after)
    })?;
    Ok(TableIterator::new(rows))
}

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn change_cursor() -> Result<String, ErrorReport> {
    Ok(spi::connect(|connection| {
        let newest = changes::newest(connection).ok_or_else(no_horizon)?;
        xact::flush_commits();
        Ok::<_, ClaimsError>(newest.encode())
    })?)
}

fn no_horizon() -> ClaimsError {
    FeedError::NoHorizon.into()
}

/// A page that is being filled.
struct ChangePage<'c> {
    limit: usize,
    bucket_type: Option<i32>,
    catalog: &'c Catalog,
    bytes: usize,
    rows: Vec<Listed>,
}

impl ChangePage<'_> {
    fn read(mut self, connection: &Connection, after: Option<ChangeCursor>) -> Result<Vec<Listed>, ClaimsError> {
        let beginning = ChangeCursor { feed: Uuid::nil(), xid: 0, id: 0, at: 0 };
        let ground = changes::ground(connection, after.as_ref().unwrap_or(&beginning)).ok_or_else(no_horizon)?;
        let after = match after {
            None => ground.horizon.clone(),
            Some(cursor) => match cursor.standing(&ground) {
                Standing::Good => cursor,
                Standing::Ahead => return Ok(Vec::new()),
                Standing::Purged => return Err(FeedError::Purged.into()),
                Standing::Foreign => return Err(FeedError::Foreign.into()),
            },
        };
        changes::each_from(connection, &after, self.bucket_type, |set| self.add(&after, set));
        if !self.rows.is_empty() {
            xact::flush_commits();
        }
        Ok(self.rows)
    }

    /// Adds the changes of a stored row that are behind the cursor, until the page is full.
    fn add(&mut self, after: &ChangeCursor, set: StoredSet) -> ControlFlow<()> {
        let cell_name = |cell: Option<i64>| cell.and_then(|cell| self.catalog.cells.get(&cell)?.name.clone());
        let (old_cell_name, new_cell_name) = (cell_name(set.old_cell_id), cell_name(set.new_cell_id));
        for (nth, (bucket_type, value)) in (0..).zip(set.bucket_types.iter().zip(set.bucket_values)) {
            let place = ChangeCursor { feed: after.feed, xid: set.xid, id: set.id + nth, at: set.at.0 };
            let is_behind = (place.xid, place.id) > (after.xid, after.id);
            if !is_behind || self.bucket_type.is_some_and(|wanted| wanted != *bucket_type) {
                continue;
            }
            let bytes = value.len() + CHANGE_BYTES;
            if self.rows.len() == self.limit || (self.bytes + bytes > PAGE_BYTES && !self.rows.is_empty()) {
                return ControlFlow::Break(());
            }
            self.bytes += bytes;
            let type_name = self.catalog.types.bucket.name(*bucket_type).map(str::to_owned);
            self.rows.push((
                place.id,
                Xid8(set.xid),
                set.at.into(),
                set.op.clone(),
                type_name.unwrap_or_else(|| bucket_type.to_string()),
                value,
                set.old_cell_id,
                set.new_cell_id,
                set.lease_uuid,
                Name(set.actor.clone()),
                place.encode(),
                old_cell_name.clone(),
                new_cell_name.clone(),
            ));
        }
        if self.rows.len() == self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
