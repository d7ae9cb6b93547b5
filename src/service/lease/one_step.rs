//! One attempt to change claims at once, for the current transaction and without a lease. It waits for nobody and leaves nothing behind if it
//! fails.

use claims_model::{Batch, Claim, Confusables, Destroy, StoredBatch};
use uuid::Uuid;

use super::end::wake_waiters;
use crate::kernel::call::{Call, CellCall};
use crate::kernel::{attribution, settings};
use crate::service::claims::{CLAIM_TABLES, CONTENTION_SQLSTATES, EndedLease, Ending};
use crate::service::{admission, audit, counters, feed, waiters};
use pg::clock::Moment;
use pg::settings::LockWaits;
use pg::subtransaction::subtransaction_on_demand;
use pg::xact;

/// Changes the claims of a batch. Returns whether it did; otherwise the caller takes the batch step by step, and finds out why. The caller
/// has locked the profiles, and has admitted the cell.
pub fn claim(call: &CellCall, batch: &Batch) -> bool {
    let cell_id = call.cell_id;
    if !is_simple(call, batch) || !is_its_turn(call, batch) {
        return false;
    }
    let (at, owners) = (Moment::now(), audit::owners_of_batch(call, batch));
    if !change(call, at, batch) {
        return false;
    }
    counters::begin_took(cell_id, call.began.elapsed());
    counters::begun(cell_id);
    counters::committed(cell_id, 1);
    if xact::is_in_block() {
        waiters::begun_here(batch.buckets());
    }
    // The log and the feed want a number for what one batch has changed.
    let changed =
        [EndedLease { uuid: Uuid::now_v7(), held: StoredBatch::of(batch), attribution: attribution::of_session() }];
    wake_waiters(call, &changed, Ending::Commit);
    feed::tell_ended(call, &changed, Ending::Commit, at);
    audit::settled(call, &changed, &owners, Ending::Commit, at);
    true
}

/// Changes all claims of a batch, or none. Returns whether it did.
fn change(call: &CellCall, at: Moment, batch: &Batch) -> bool {
    let (creates, changes) = (batch.creates_in_lock_order(), batch.changes_in_lock_order());
    // The most frequent batch.
    if let ([only], []) = (creates.as_slice(), changes.as_slice()) {
        return CLAIM_TABLES.of(call).create_now(call.cell_id, at, only);
    }
    let change = || match CLAIM_TABLES.of(call).change_now(call.cell_id, at, &creates, &changes) {
        Some(Ok(changed)) if changed == batch.claims() => Ok(()),
        _ => Err(()),
    };
    let _waits = LockWaits::limit(0);
    subtransaction_on_demand(&CONTENTION_SQLSTATES, change).is_ok()
}

/// Returns whether a batch is within its limits, has no names of types that refuse look-alikes, which need more than claims, and gives up none
/// that is kept back.
fn is_simple(call: &CellCall, batch: &Batch) -> bool {
    let allows_confusables = |bucket_type| call.catalog.types.naming(bucket_type).confusables == Confusables::Allow;
    let quarantines = &call.catalog.quarantines;
    // Names that are kept back need a look at more than the key.
    let gives_up = |(destroy, by): &(&Destroy, Option<&Claim>)| {
        by.is_none() && quarantines.contains_key(&destroy.bucket.bucket_type)
    };
    batch.records() <= settings::max_batch_size()
        && admission::admit_batch(call, batch.records()).is_ok()
        && (quarantines.is_empty() || !batch.changes_in_lock_order().iter().any(gives_up))
        && batch.buckets().all(|bucket| allows_confusables(bucket.bucket_type))
}

/// Returns whether nobody waits for one of the names.
fn is_its_turn(call: &Call, batch: &Batch) -> bool {
    !waiters::is_any_wanted(call, batch.buckets())
}
