//! Begins the leases of a transaction's changes: at each service for the types that go there, and as many as its limit of a batch asks
//! for.
//!
//! The service refuses a batch with more records than `claims.max_batch_size`, or than the cell's own limit. Then the changes are
//! divided. All leases belong to the one transaction: if a batch is refused, the transaction fails, and with it the leases that have
//! begun before. Readers may see one lease's names as ACTIVE a moment before another's.

pub mod sizes;

use std::collections::VecDeque;
use std::time::Duration;

use claims_model::Bucket;
use claims_model::capture::NamedBucket;
use claims_model::lease_group;
use claims_model::lookalike::{Skeleton, skeleton_of};
use claims_model::outgoing::{Outgoing, SkippedDestroys};
use uuid::Uuid;

use super::batch::{self, SentBatch};
use super::{own_leases, skipped_destroys};
use crate::cell::client::leases::begin_together;
use crate::cell::client::presented::Presented;
use crate::cell::client::{Service, begun_leases};
use crate::kernel::catalog::{self, Catalog};
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use pg::spi::Connection;

/// Number of records for which the service has `claims.service_timeout` to answer.
const RECORDS_PER_TIMEOUT: usize = 1000;

/// Number of records above which the cell asks for the limit before it sends them. Smaller batches are sent at once.
const ASK_ABOVE: usize = 1000;

/// Returns how long the service has to answer a call about a number of records.
pub fn timeout(records: usize) -> Duration {
    let times = records.div_ceil(RECORDS_PER_TIMEOUT).max(1);
    let once = settings::service_timeout();
    once.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX))
}

/// The leases of the current transaction for changes that are being sent to one service.
pub struct Leases<'l> {
    pub connection: &'l Connection,
    pub service: &'l Service<'l>,
    /// Whether the session commits them after the COMMIT.
    pub automatic: bool,
}

/// A lease that has begun.
pub struct Begun {
    pub lease: Uuid,
    /// The foreign server of its service.
    pub service: String,
}

/// The changes of one service that are not sent yet.
struct UnsentBatches<'l> {
    leases: Leases<'l>,
    batches: VecDeque<Outgoing>,
    /// The number of records that were sent.
    sent: usize,
}

/// The uuids of a transaction's leases, which follow each other if there are several.
struct Uuids {
    first: Uuid,
    next: usize,
}

impl Uuids {
    /// Draws uuids for batches. A single one is near the claims of its batch.
    fn of<'b>(mut batches: impl Iterator<Item = &'b Outgoing>) -> Self {
        match (batches.next(), batches.next()) {
            (Some(only), None) => Uuids { first: batch::new_lease(only), next: 0 },
            _ => Uuids::of_group(),
        }
    }

    fn of_group() -> Self {
        Uuids { first: lease_group::first(Uuid::now_v7()), next: 0 }
    }

    fn next(&mut self) -> Uuid {
        self.next += 1;
        lease_group::member(self.first, self.next - 1)
    }
}

/// Begins leases for all changes, at each service for its own. Returns those that are not empty, in the order of their uuids.
pub fn begin_all(parts: Vec<(Leases, Outgoing)>) -> Result<Vec<Begun>, ClaimsError> {
    let mut queues = Vec::with_capacity(parts.len());
    for (leases, outgoing) in parts {
        let batches = match outgoing.records() > ASK_ABOVE {
            true => leases.divide(outgoing, timeout(1))?,
            false => VecDeque::from([outgoing]),
        };
        queues.push(UnsentBatches { leases, batches, sent: 0 });
    }
    let mut uuids = Uuids::of(queues.iter().flat_map(|queue| &queue.batches));
    let mut begun = Vec::new();
    let firsts = if queues.len() > 1 { begin_first(&mut queues, &mut uuids)? } else { Vec::new() };
    let mut firsts = firsts.into_iter();
    for queue in &mut queues {
        queue.begin(firsts.next(), &mut uuids, &mut begun)?;
    }
    begun.sort_by_key(|begun: &Begun| begun.lease);
    Ok(begun)
}

/// A batch that was sent together with those for other services, and the answer.
type FirstAnswer<'l> = (SentBatch<'l>, Result<Presented, ClaimsError>);

/// Sends the first batch for each service before it awaits the first answer. From its answer on, each lease that has begun ends with the
/// transaction, whatever the other services have answered.
fn begin_first<'l>(queues: &mut [UnsentBatches<'l>], uuids: &mut Uuids) -> Result<Vec<FirstAnswer<'l>>, ClaimsError> {
    let (mut batches, mut requests) = (Vec::new(), Vec::new());
    for queue in queues.iter_mut() {
        let outgoing = queue.batches.pop_front().unwrap_or_default();
        queue.sent = outgoing.records();
        let batch = queue.leases.batch(uuids.next(), outgoing);
        requests.push(batch.request(None)?);
        batches.push(batch);
    }
    let calls = queues.iter().zip(&requests);
    let calls: Vec<_> = calls.map(|(queue, request)| (queue.leases.service, request, timeout(queue.sent))).collect();
    let answers = begin_together(&calls, |at, presented| queues[at].leases.has_begun(&batches[at], presented))?;
    Ok(batches.into_iter().zip(answers).collect())
}

impl<'l> UnsentBatches<'l> {
    /// Begins leases for the changes of one service. The first batch may have been sent already.
    fn begin(
        &mut self,
        mut first: Option<FirstAnswer<'l>>,
        uuids: &mut Uuids,
        begun: &mut Vec<Begun>,
    ) -> Result<(), ClaimsError> {
        let UnsentBatches { leases, batches, sent } = self;
        let mut skipped = SkippedDestroys::default();
        loop {
            let is_first = first.is_some();
            let (mut batch, answer) = match first.take() {
                Some((batch, answer)) => (batch, Some(answer)),
                None => {
                    let Some(outgoing) = batches.pop_front() else { break };
                    *sent += outgoing.records();
                    (leases.batch(uuids.next(), outgoing), None)
                }
            };
            let records = batch.outgoing.records();
            // All answers so far together may take the time for all records so far.
            let limit = timeout(*sent);
            let has_begun = matches!(answer, Some(Ok(_)));
            if let Err(error) = leases.begin_one(&mut batch, answer, limit) {
                if !is_too_large(&error) {
                    return Err(batch.explained(error));
                }
                let parts = leases.divide(batch.outgoing, limit)?;
                if parts.len() < 2 {
                    return Err(error);
                }
                if begun.is_empty() && !is_first {
                    *uuids = Uuids::of_group();
                }
                *sent -= records;
                parts.into_iter().rev().for_each(|part| batches.push_front(part));
                continue;
            }
            skipped.add(batch.outgoing.skipped_destroys());
            if !batch.outgoing.is_empty() {
                if !has_begun {
                    leases.has_begun(&batch, batch.presented);
                }
                batch.confirm()?;
                sizes::note(batch.lease, records);
                begun.push(Begun { lease: batch.lease, service: leases.service.name().to_owned() });
            }
        }
        skipped_destroys::count(leases.connection, skipped);
        Ok(())
    }
}

impl<'l> Leases<'l> {
    fn batch(&self, lease: Uuid, outgoing: Outgoing) -> SentBatch<'l> {
        SentBatch::enforced(self.connection, self.service.cell_id, lease, outgoing)
    }

    /// Has the lease, which has begun with an epoch, end with the transaction from now on.
    pub fn has_begun(&self, batch: &SentBatch, presented: Presented) {
        let lease = (batch.lease, batch.outgoing.records());
        begun_leases::begun(self.service.name(), self.service.cell_id, lease, presented, self.automatic);
    }

    /// Divides a batch by the service's limit. All answers so far together may take `limit`.
    fn divide(&self, outgoing: Outgoing, limit: Duration) -> Result<VecDeque<Outgoing>, ClaimsError> {
        let most = self.service.batch_limit(self.service.time_left(limit))?;
        Ok(divide_by(&catalog::current(self.connection), outgoing, most))
    }

    /// Begins one lease at the service, which may have answered the first call already. After a conflict with leases of the same cell it
    /// settles those first. Only then the service waits for names, if the session wants that (`claims.lease_wait`). All answers to this
    /// and earlier batches together may take `limit`.
    fn begin_one(
        &self,
        batch: &mut SentBatch,
        mut answer: Option<Result<Presented, ClaimsError>>,
        limit: Duration,
    ) -> Result<(), ClaimsError> {
        let Leases { connection, service, .. } = *self;
        let waits = !settings::lease_wait_of_save().is_zero();
        let mut begin = || own_leases::own_conflict(service.cell_id, batch.begin(service, limit, false, answer.take()));
        let mut conflict = match begin() {
            Err(error) if waits && own_leases::is_temporary(&error) => {
                return waited(batch.begin(service, limit, true, None), error);
            }
            answer => match answer? {
                None => return Ok(()),
                Some(conflict) => conflict,
            },
        };
        if own_leases::settle_committed(connection, service, limit)? {
            match begin()? {
                None => return Ok(()),
                Some(again) => conflict = again,
            }
        }
        if !own_leases::settle_ended(connection, service, &conflict, limit)? && !waits {
            return Err(conflict.error);
        }
        let begun = batch.begin(service, limit, waits, None);
        if waits { waited(begun, conflict.error) } else { begun }
    }
}

/// Returns the result of a wait for names. If its time has passed after it had given its place up, that is the conflict.
fn waited(begun: Result<(), ClaimsError>, conflict: ClaimsError) -> Result<(), ClaimsError> {
    begun.map_err(|error| if batch::is_full(&error) { conflict } else { error })
}

/// Divides a batch into batches of at most so many records, where that is possible.
pub fn divide_by(catalog: &Catalog, outgoing: Outgoing, most: usize) -> VecDeque<Outgoing> {
    if outgoing.records() <= most {
        return VecDeque::from([outgoing]);
    }
    let skeleton = |bucket: &NamedBucket| -> Option<Skeleton> {
        let bucket_type = catalog.types.bucket.id(&bucket.bucket_type)?;
        skeleton_of(&Bucket { bucket_type, value: bucket.value.as_str().into() }, &catalog.types)
    };
    outgoing.divide(most, skeleton).into()
}

/// Returns whether the service may have refused a batch for its number of records: by claims.max_batch_size (54000), or by a limit
/// of the cell (53400).
pub fn is_too_large(error: &ClaimsError) -> bool {
    error.refusal().is_some_and(|refusal| matches!(&refusal.sqlstate, b"54000" | b"53400"))
}
