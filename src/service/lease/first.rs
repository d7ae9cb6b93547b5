//! Takes the first available batch of a list. Most lists have one batch. `begin_first` has several: with it bots and imports try
//! many names in one call.
//!
//! For several batches, one probe of all their buckets finds those that are visibly taken, and no attempt is made for these. The
//! probe decides nothing else.

use claims_model::conflict::{self, reason_for};
use claims_model::payload::{push_compared_text, request_digest};
use claims_model::{Batch, Bucket, Claim, Conflict, Op};
use uuid::Uuid;

use super::acquire::{self, Acquired};
use super::payload::payload;
use super::request::{BeginAttempt, ConflictsOf, Request};
use super::wait::{self, LeaseWait, Seen};
use crate::kernel::call::Call;
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::service::claims::{CLAIM_TABLES, LEASE_TABLES};
use crate::service::quarantine::asking;
use pg::clock::Moment;
use pg::xid8::Xid8;

/// The batches of one call.
pub struct Alternatives<'b> {
    pub batches: Vec<Batch<'b>>,
    /// Whether the call returns the position of the batch that was taken, even if there is only one.
    are_numbered: bool,
    /// Whether a batch begins without its destroys of claims that are missing or belong to others.
    skip_missing: bool,
}

impl<'b> Alternatives<'b> {
    pub fn one(batch: Batch<'b>, skip_missing: bool) -> Self {
        Alternatives { batches: vec![batch], are_numbered: false, skip_missing }
    }

    pub fn several(batches: Vec<Batch<'b>>, skip_missing: bool) -> Self {
        Alternatives { batches, are_numbered: true, skip_missing }
    }

    /// Returns a uuid for the lease.
    pub fn new_uuid(&self, call: &Call) -> Uuid {
        match self.batches.as_slice() {
            [only] => {
                LEASE_TABLES.of(call).new_lease(call.connection, only.operations().next().map(|(_, bucket)| bucket))
            }
            _ => Uuid::now_v7(),
        }
    }

    /// Returns the digest of the request. Two requests are the same if all their batches are the same, in any spelling of the
    /// names, and even if a type was renamed between the two calls. `skip_missing` belongs to the request: a caller that wants all its
    /// destroys must not get a lease that has skipped some.
    pub fn digest(&self, catalog: &Catalog, cell_xid: Option<Xid8>) -> [u8; 32] {
        let mut compared = String::new();
        let (before, after) = if self.are_numbered { ("[", "]") } else { ("", "") };
        compared.push_str(before);
        for (at, batch) in self.batches.iter().enumerate() {
            compared.push_str(if at == 0 { "" } else { "," });
            push_compared_text(&mut compared, batch, catalog.lasting_types());
        }
        compared.push_str(after);
        if self.skip_missing {
            compared.push_str("skip_missing");
        }
        request_digest(&compared, cell_xid.map(|xid| xid.0))
    }
}

/// Takes the first batch that is available, or returns the conflicts of one.
pub fn take_first<'b>(
    attempt: &'b BeginAttempt<'b>,
    alternatives: &'b Alternatives<'b>,
) -> Result<Acquired<'b>, ClaimsError> {
    let Alternatives { batches, are_numbered, skip_missing } = alternatives;
    let mut conflicts: Vec<Conflict<'b>> = Vec::new();
    let is_visibly_taken = visibly_taken(attempt, alternatives);
    for (number, (batch, is_taken)) in (1_u8..).zip(batches.iter().zip(is_visibly_taken)) {
        let has_answer = attempt.conflicts_of == ConflictsOf::LastTemporary && conflict::are_temporary(&conflicts);
        // The last batch supplies the conflicts if no other one does.
        let is_needed = usize::from(number) == batches.len() && !has_answer;
        if is_taken && !is_needed {
            continue;
        }
        let payload = payload(batch, &attempt.call.catalog.types)?;
        let request = Request::new(attempt, batch, payload, *skip_missing, are_numbered.then_some(number));
        match acquire::acquire(&request)? {
            Acquired::Conflicts(found) => {
                if !has_answer || conflict::are_temporary(&found) {
                    conflicts = found;
                }
            }
            lease => return Ok(lease),
        }
    }
    Ok(Acquired::Conflicts(conflicts))
}

/// Looks at all batches, for a call that waits. Writes nothing.
pub fn look(attempt: &BeginAttempt, alternatives: &Alternatives, lease_wait: &mut LeaseWait) -> Seen {
    wait::combine(alternatives.batches.iter().map(|batch| {
        // The attempt raises the error of a payload that is too large.
        let Ok(payload) = payload(batch, &attempt.call.catalog.types) else { return Seen::Attempt };
        lease_wait.look(&Request::new(attempt, batch, payload, alternatives.skip_missing, None))
    }))
}

/// Returns for each batch whether a committed claim conflicts with it, so that the call need not try it. With
/// [`ConflictsOf::LastTemporary`] only permanent conflicts count, because a batch with temporary ones may supply the conflicts that the
/// call returns. A single batch is not probed.
fn visibly_taken(attempt: &BeginAttempt, alternatives: &Alternatives) -> Vec<bool> {
    let Alternatives { batches, skip_missing, .. } = alternatives;
    let [_, _, ..] = batches.as_slice() else { return vec![false; batches.len()] };
    let (call, cell_id) = (attempt.call, attempt.call.cell_id);
    let buckets: Vec<_> = batches.iter().flat_map(|batch| batch.operations().map(|(_, bucket)| bucket)).collect();
    let found = CLAIM_TABLES.of(call).standing(call.connection, &buckets);
    let now = Moment::now();
    let has_conflict = |(op, bucket): (Op, &Bucket), claim: Option<&Claim>| {
        // Only the attempt compares subject and source of a destroy.
        let standing = found.get(bucket).map(|found| match claim {
            Some(claim) => found.for_create(&asking(call, claim, now)),
            None => found.for_destroy(cell_id, true),
        });
        let reason = reason_for(op, cell_id, standing);
        // Whether a batch without the destroy is free, only the attempt finds out.
        let reason = reason.filter(|reason| !(*skip_missing && op == Op::Destroy && reason.can_be_skipped()));
        reason.is_some_and(|reason| attempt.conflicts_of == ConflictsOf::Last || !reason.retryable())
    };
    let is_taken = |batch: &Batch| {
        batch.new_claims().any(|claim| has_conflict((Op::Create, &claim.bucket), Some(claim)))
            || batch.destroys.iter().any(|destroy| has_conflict((Op::Destroy, &destroy.bucket), None))
    };
    batches.iter().map(is_taken).collect()
}
