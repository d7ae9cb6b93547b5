//! The trigger that records requests for changed rows.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::enqueue;
use crate::error::{CaptureError, ClaimsError, raise};
use crate::pg::spi::{self, Connection};
use crate::pg::trigger::RowChange;
use crate::store::holds::captured_tables::{self, Read};

/// AFTER ROW trigger of captured tables; declared in sql/install/holds/requests.sql. Its arguments: the queue, and the column
/// that names the entity.
#[pg_trigger(sql = false)]
fn capture_change<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, ErrorReport> {
    if let (Some(change), Ok([queue, column])) =
        (RowChange::of(trigger), <[String; 2]>::try_from(trigger.extra_args().unwrap_or_default()))
    {
        raise(spi::connect(|connection| capture(connection, &change, queue, column)));
    }
    Ok(None)
}

/// Only for tables recorded as captured: the owner of a captured table could use the trigger function for other tables, too.
fn capture(connection: &Connection, change: &RowChange, queue: String, column: String) -> Result<(), ClaimsError> {
    let captured = captured_tables::captured(connection, change.table());
    if !captured.is_for(&queue, &column) {
        return Ok(());
    }
    let read = |version| captured_tables::read(connection, &captured, change.owner(), version, &column);
    let (old, new) = (change.before().and_then(read), change.after().and_then(read));
    let Some(current) = new.as_ref().or(old.as_ref()) else { return Ok(()) };
    if !current.has_entity {
        return Err(CaptureError::NoEntity { table: change.table_name(), column, queue }.into());
    }
    let entity = |read: &Option<Read>| read.as_ref().and_then(|read| read.entity.clone());
    let (was, is_now) = (entity(&old), entity(&new));
    let payload = new.as_ref().map(|read| read.row.clone());
    let entities = [was.filter(|was| is_now.as_ref() != Some(was)), is_now];
    for entity in entities.into_iter().flatten() {
        enqueue::record(connection, Some(queue.clone()), Some(entity), Some("update".to_owned()), payload.clone())?;
    }
    Ok(())
}
