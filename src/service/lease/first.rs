//! Takes the first available batch of a list. Most lists have one batch. `begin_first` has several: with it bots and imports try
//! many names in one call.
//!
//! For several batches, one probe of all their buckets finds those that are visibly taken, and no attempt is made for these. The
//! probe decides nothing else.

use std::borrow::Cow;
use std::time::Instant;

use claims_model::conflict::{self, ExistingClaim, reason_for};
use claims_model::payload::{compared_text, request_digest};
use claims_model::{Batch, Conflict, Op};
use uuid::Uuid;

use super::acquire::{self, Acquired};
use super::payload::payload;
use super::request::Request;
use super::wait::{self, LeaseWait, Seen};
use crate::error::ClaimsError;
use crate::store::catalog::Catalog;
use crate::tables::Tables;
use crate::tables::rows::leases::NewLease;
use pg::clock::Moment;
use pg::spi::Connection;
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
    pub fn new_uuid(&self, tables: &dyn Tables, connection: &Connection) -> Uuid {
        match self.batches.as_slice() {
            [only] => tables.new_lease(connection, only.operations().next().map(|(_, bucket)| bucket)),
            _ => Uuid::now_v7(),
        }
    }

    /// Returns the digest of the request. Two requests are the same if all their batches are the same, in any spelling of the
    /// names, and even if a type was renamed between the two calls. `skip_missing` belongs to the request: a caller that wants all its
    /// destroys must not get a lease that has skipped some.
    pub fn digest(&self, catalog: &Catalog, cell_xid: Option<Xid8>) -> [u8; 32] {
        let texts = self.batches.iter().map(|batch| compared_text(batch, catalog.lasting_types()));
        let texts: Vec<_> = texts.collect();
        let cell_xid = cell_xid.map(|xid| xid.0);
        let mut compared = match texts.as_slice() {
            [only] if !self.are_numbered => Cow::from(only),
            several => Cow::from(format!("[{}]", several.join(","))),
        };
        if self.skip_missing {
            compared += "skip_missing";
        }
        request_digest(&compared, cell_xid)
    }
}

/// The data that all attempts of one call share.
pub struct Common<'t> {
    pub tables: &'t dyn Tables,
    pub cell_id: i64,
    pub uuid: Uuid,
    pub may_be_repeat: bool,
    pub digest: [u8; 32],
    pub cell_xid: Option<Xid8>,
    pub began: Instant,
    pub conflicts_of: ConflictsOf,
    /// Whether a look has shown that none of the batches is available.
    pub expects_conflicts: bool,
}

/// The batch whose conflicts a call returns if no batch is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictsOf {
    /// The last batch.
    Last,
    /// The last batch that has only temporary conflicts, because it may become available. The last batch if there is none.
    LastTemporary,
}

/// Takes the first batch that is available, or returns the conflicts of one.
pub fn take_first<'b>(
    connection: &Connection,
    catalog: &'b Catalog,
    alternatives: &'b Alternatives<'b>,
    common: &Common<'b>,
) -> Result<Acquired<'b>, ClaimsError> {
    let Common { tables, cell_id, uuid, digest, cell_xid, .. } = *common;
    let Alternatives { batches, are_numbered, skip_missing } = alternatives;
    let mut conflicts: Vec<Conflict<'b>> = Vec::new();
    let is_visibly_taken = visibly_taken(tables, connection, alternatives, cell_id, common.conflicts_of);
    for (number, (batch, is_taken)) in (1_u8..).zip(batches.iter().zip(is_visibly_taken)) {
        let has_answer = common.conflicts_of == ConflictsOf::LastTemporary && conflict::are_temporary(&conflicts);
        // The last batch supplies the conflicts if no other one does.
        let is_needed = usize::from(number) == batches.len() && !has_answer;
        if is_taken && !is_needed {
            continue;
        }
        let payload = payload(batch, &catalog.types)?;
        let chosen = are_numbered.then_some(number);
        let lease = NewLease { uuid, cell_id, made_at: Moment::now(), payload, digest, cell_xid, chosen };
        let request = Request::new(tables, batch, lease, common.may_be_repeat, *skip_missing, &catalog.types);
        match acquire::acquire(connection, &request, common.began, common.expects_conflicts)? {
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
pub fn look(
    connection: &Connection,
    catalog: &Catalog,
    alternatives: &Alternatives,
    common: &Common,
    lease_wait: &mut LeaseWait,
) -> Seen {
    let Common { tables, cell_id, uuid, digest, cell_xid, .. } = *common;
    wait::combine(alternatives.batches.iter().map(|batch| {
        // The attempt raises the error of a payload that is too large.
        let Ok(payload) = payload(batch, &catalog.types) else { return Seen::Attempt };
        let lease = NewLease { uuid, cell_id, made_at: Moment::now(), payload, digest, cell_xid, chosen: None };
        let skip_missing = alternatives.skip_missing;
        let request = Request::new(tables, batch, lease, common.may_be_repeat, skip_missing, &catalog.types);
        lease_wait.look(connection, &request)
    }))
}

/// Returns for each batch whether a committed claim conflicts with it, so that the call need not try it. With
/// [`ConflictsOf::LastTemporary`] only permanent conflicts count, because a batch with temporary ones may supply the conflicts that the
/// call returns. A single batch is not probed.
fn visibly_taken(
    tables: &dyn Tables,
    connection: &Connection,
    alternatives: &Alternatives,
    cell_id: i64,
    conflicts_of: ConflictsOf,
) -> Vec<bool> {
    let Alternatives { batches, skip_missing, .. } = alternatives;
    let [_, _, ..] = batches.as_slice() else { return vec![false; batches.len()] };
    let buckets: Vec<_> = batches.iter().flat_map(|batch| batch.operations().map(|(_, bucket)| bucket)).collect();
    let found = tables.standing(connection, &buckets);
    let has_conflict = |(op, bucket)| {
        // Only the attempt compares subject and source of a destroy.
        let standing = found.get(bucket).map(|found| ExistingClaim {
            holder_cell_id: found.holder_cell_id,
            active: found.active,
            is_meant: true,
            in_transfer: found.is_in_transfer_of(cell_id),
        });
        let reason = reason_for(op, cell_id, standing);
        // Whether a batch without the destroy is free, only the attempt finds out.
        let reason = reason.filter(|reason| !(*skip_missing && op == Op::Destroy && reason.can_be_skipped()));
        reason.is_some_and(|reason| conflicts_of == ConflictsOf::Last || !reason.retryable())
    };
    batches.iter().map(|batch| batch.operations().any(|wish: (Op, _)| has_conflict(wish))).collect()
}
