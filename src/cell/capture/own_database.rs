//! Claims the changed names of the current transaction in this database, which is the service's. There is no lease to track, and none to
//! settle: the claims belong to the transaction, and to its savepoints, as its rows do.

use std::collections::VecDeque;

use claims_model::outgoing::{Outgoing, SkippedDestroys};
use uuid::Uuid;

use super::batch::SentBatch;
use super::{leases, skipped_destroys, uniques};
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::service::lease::limit;

/// Claims and gives up all names of a batch, in as many portions as the limits of a batch ask for.
pub fn claim_all(call: &Call, cell_id: i64, outgoing: Outgoing) -> Result<(), ClaimsError> {
    let catalog = call.current_catalog();
    let most = usize::try_from(limit::of_cell(&catalog, cell_id)).unwrap_or(1);
    let mut skipped = SkippedDestroys::default();
    let portions: VecDeque<Outgoing> = leases::divide_by(&catalog, outgoing, most);
    for portion in portions {
        let mut batch = SentBatch::enforced(call.connection, cell_id, Uuid::now_v7(), portion);
        if let Err(error) = batch.claim_here(call) {
            return Err(uniques::explained(call.connection, batch.explained(error)));
        }
        skipped.add(batch.outgoing.skipped_destroys());
        if !batch.outgoing.is_empty() {
            batch.confirm()?;
        }
    }
    skipped_destroys::count(call.connection, skipped);
    Ok(())
}
