//! `preview_import`: lists the names that an import could not claim. Changes nothing.

use claims_model::limits::PAGE_BYTES;
use claims_model::source_range::{self, SourceRange};
use claims_model::{BadInput, Problem};

use super::batch::{self, INVALID, ImportBatch};
use super::doubles::Doubles;
use super::errors::ImportError;
use super::must_have_columns;
use super::statements::{CollidingName, ImportKey};
use crate::cell::claimed::expected::ShareLock;
use crate::cell::client::imports::REASONS;
use crate::cell::client::{Service, unreachable};
use crate::cell::reading;
use crate::cell::verify::expected::Expected;
use crate::kernel::arguments;
use crate::kernel::error::ClaimsError;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::xact;

/// Number of rows in a call to the service.
const BATCH: i64 = 1000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn preview_import(
    cell_id: Option<i64>,
    service: Option<String>,
    source_type: Option<String>,
    after: default!(Option<String>, "NULL"),
    max_results: default!(Option<i32>, 100),
    outcome: default!(Option<String>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(bucket_type, String),
            name!(bucket_value, String),
            name!(source_id, String),
            name!(reason, String),
            name!(holder_cell_id, Option<i64>),
            name!(cursor, String),
        ),
    >,
    ErrorReport,
> {
    let rows = spi::connect(|connection| {
        arguments::require!(cell_id, service, source_type, max_results);
        let source_type = reading::source_type_of(connection, cell_id, &source_type)?;
        let page = Page { size: arguments::page_size(max_results)?, only: outcome.map(reason).transpose()? };
        let after = arguments::source_range(after, None).map_err(|_| BadInput::new("after", Problem::BadCursor))?.above;
        if xact::uses_transaction_snapshot() {
            return Err(ImportError::OldSnapshot.into());
        }
        let key = ImportKey { cell_id, source_type, service };
        list(connection, &key, after, &page).map_err(unreachable)
    })?;
    let row = |CollidingName { bucket_type, value, source_id, reason, holder }| {
        (bucket_type, value, source_id.clone(), reason, holder, source_id)
    };
    Ok(TableIterator::new(rows.into_iter().map(row)))
}

/// The names to list.
struct Page {
    size: usize,
    /// The only reason to list; `None`: all.
    only: Option<String>,
}

/// Returns a reason that a name can have in the list.
fn reason(outcome: String) -> Result<String, ClaimsError> {
    let allowed = "held_by_other, other_source, confusable, reserved, quarantined, invalid, leased, busy and recent";
    let is_known = REASONS.contains(&outcome.as_str()) || outcome == INVALID;
    if is_known { Ok(outcome) } else { Err(BadInput::new("outcome", Problem::OutOfRange { allowed }).into()) }
}

/// Returns a page of names above a source id. It ends behind the last name of a row, so that the source id is a cursor.
fn list(
    connection: &Connection,
    key: &ImportKey,
    mut above: Option<String>,
    wanted: &Page,
) -> Result<Vec<CollidingName>, ClaimsError> {
    let expected = Expected::at(connection, &key.source_type, &key.service);
    must_have_columns(&expected, key)?;
    let service = Service::new(connection, &key.service, key.cell_id)?;
    let batch = ImportBatch::new(connection, &expected, &service, key, batch::PER_CALL);
    let doubles = Doubles::find(&expected);
    let Page { size, only } = wanted;
    let (mut page, mut bytes) = (Vec::<CollidingName>::new(), 0);
    loop {
        let mut range = SourceRange { above: above.take(), up_to: None };
        range.up_to = expected.end_of(&range, BATCH);
        let attributes = expected.attributes().iter();
        let rows = attributes.flat_map(|attribute| {
            attribute.in_range(connection, &range, ShareLock::None).into_iter().map(move |row| (attribute.clone(), row))
        });
        let mut found = batch.preview(rows.collect(), &doubles)?;
        found.retain(|name| only.as_ref().is_none_or(|only| name.reason == *only));
        found.sort_by(|a, b| {
            let by_source = source_range::compare(&a.source_id, &b.source_id);
            by_source.then_with(|| (&a.bucket_type, &a.value).cmp(&(&b.bucket_type, &b.value)))
        });
        for name in found {
            let is_full = page.len() >= *size || bytes > PAGE_BYTES;
            if is_full && page.last().is_some_and(|last| last.source_id != name.source_id) {
                return Ok(page);
            }
            bytes += name.value.len() + 200;
            page.push(name);
        }
        if range.up_to.is_none() || page.len() >= *size || bytes > PAGE_BYTES {
            return Ok(page);
        }
        above = range.up_to;
    }
}
