//! A page of changes that is being filled.

use std::ops::ControlFlow;

use claims_model::cursor::Cursor;
use claims_model::feed::ChangeCursor;
use claims_model::limits::PAGE_BYTES;
use pgrx::Uuid as PgUuid;
use pgrx::datum::TimestampWithTimeZone;

use super::tables::StoredSet;
use crate::kernel::catalog::Catalog;
use pg::name::Name;
use pg::xid8::Xid8;

/// Approximate size in bytes of a change without its value.
const CHANGE_BYTES: usize = 256;

/// A change, in the order of the columns.
pub type ListedChange = (
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
    Option<String>,
    Option<String>,
);

pub struct ChangePage<'c> {
    pub limit: usize,
    pub bucket_type: Option<i32>,
    catalog: &'c Catalog,
    bytes: usize,
    pub rows: Vec<ListedChange>,
}

impl<'c> ChangePage<'c> {
    pub fn new(limit: usize, bucket_type: Option<i32>, catalog: &'c Catalog) -> Self {
        ChangePage { limit, bucket_type, catalog, bytes: 0, rows: Vec::new() }
    }

    /// Adds the changes of a stored row that are after the cursor, until the page is full.
    pub fn add(&mut self, after: &ChangeCursor, set: StoredSet) -> ControlFlow<()> {
        let cell_name = |cell: Option<i64>| cell.and_then(|cell| self.catalog.cells.get(&cell)?.name.clone());
        let (old_cell_name, new_cell_name) = (cell_name(set.old_cell_id), cell_name(set.new_cell_id));
        for (nth, (bucket_type, value)) in (0..).zip(set.bucket_types.iter().zip(set.bucket_values)) {
            let place = ChangeCursor { feed: after.feed, xid: set.xid.0, id: set.id + nth, at: set.at.0 };
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
                set.xid,
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
                set.context.clone(),
                set.cell_role.clone(),
            ));
        }
        if self.rows.len() == self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
