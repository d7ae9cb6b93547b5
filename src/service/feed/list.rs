//! `list_changes` and `change_cursor`: return the feed in pages, each change once, without gaps.
//!
//! Changes are in the order of (xid, id). Only those of transactions below the oldest running one are returned: later commits
//! come after them, so no change can appear before a cursor. A crash keeps that true: commits that were not flushed are flushed
//! before they are returned. Otherwise their transaction ids could be assigned again after the crash.

use claims_model::cursor::Cursor;
use claims_model::feed::ChangeCursor;
use claims_model::types::Kind;
use claims_model::{BadInput, id};

use super::page::ChangePage;
use super::tables::{FEED_PAGES, WantedChanges};
use crate::kernel::arguments;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::service::read::page_size;
use pg::name::Name;
use pg::prelude::*;
use pg::xid8::Xid8;

#[pg_extern(name = "list_changes", schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn list_changes_2(
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
            name!(context, Option<String>),
            name!(cell_role, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let rows = Call::run(|call| {
        let max_results = arguments::required(max_results, "max_results")?;
        let catalog = call.current_catalog();
        let after = after.map(|text| ChangeCursor::decode(&text)).transpose();
        let after = after.map_err(|problem| BadInput::new("after", problem))?;
        let bucket_type = bucket_type
            .map(|name| id::type_from_text(&name, Kind::Bucket, &catalog.types))
            .transpose()
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let limit = usize::try_from(page_size(max_results)?).unwrap_or(0);
        let mut page = ChangePage::new(limit, bucket_type, &catalog);
        let wanted = WantedChanges { bucket_type, limit };
        FEED_PAGES.of(call).each_change(call.connection, after, wanted, &mut |after, set| page.add(after, set))?;
        Ok::<_, ClaimsError>(page.rows)
    })?;
    Ok(TableIterator::new(rows))
}

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn change_cursor() -> Result<String, ErrorReport> {
    Ok(Call::run(|call| Ok::<_, ClaimsError>(FEED_PAGES.of(call).newest_change(call.connection)?.encode()))?)
}
