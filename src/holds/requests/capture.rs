//! The trigger that records requests for changed rows.

use claims_model::limits::PAYLOAD_BYTES;
use pgrx::PgTrigger;

use super::errors::CapturedTableError;
use super::{captured_tables, enqueue};
use crate::holds::errors::HoldError;
use crate::kernel::error::{ClaimsError, raise};
use pg::spi::{self, Connection};
use pg::trigger::{RowChange, RowVersion};

/// Records requests for a changed row. AFTER ROW trigger of captured tables, declared in
/// sql/install/holds/requests.sql. Its arguments are the queue and the entity column.
pub fn capture_change(trigger: &PgTrigger) {
    if let (Some(change), Ok([queue, column])) =
        (RowChange::of(trigger), <[String; 2]>::try_from(trigger.extra_args().unwrap_or_default()))
    {
        raise(spi::connect(|connection| capture(connection, &change, queue, column)));
    }
}

/// Records requests, but only if the table is recorded as captured: the owner of a captured table could attach the
/// trigger function to other tables, too.
fn capture(connection: &Connection, change: &RowChange, queue: String, column: String) -> Result<(), ClaimsError> {
    let captured = captured_tables::captured(connection, change.table());
    let Some(known) = captured.queue(&queue, &column) else { return Ok(()) };
    if !known.has_column {
        return Err(CapturedTableError::NoEntity { table: change.table_name(), column, queue }.into());
    }
    let owner = change.owner();
    let entity = |version| captured_tables::entity(connection, &captured, known, owner, version);
    let (was, is_now) = (change.before().and_then(entity), change.after().and_then(entity));
    let entities: Vec<String> =
        [was.filter(|was| is_now.as_ref() != Some(was)), is_now].into_iter().flatten().collect();
    let Some(first) = entities.first() else { return Ok(()) };
    // In JSON a text has no fewer bytes than in the row.
    if known.versions(change).into_iter().flatten().map(RowVersion::text_bytes).sum::<usize>() > PAYLOAD_BYTES {
        return Err(HoldError::PayloadTooLarge { queue, entity: first.clone() }.into());
    }
    let payload = captured_tables::payload(connection, &captured, known, change);
    for entity in entities {
        enqueue::record(connection, Some(queue.clone()), Some(entity), Some("update".to_owned()), payload.clone())?;
    }
    Ok(())
}
