//! Begins the leases of a transaction's changes: as many as the service's limit of a batch asks for.
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

use super::lenient::LenientBatch;
use super::own_leases;
use crate::cell::client::{Service, afterwards};
use crate::error::{CellError, ClaimsError};
use crate::pg::spi::Connection;
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::store::cell::skipped_destroys;

/// Number of records for which the service has `claims.service_timeout` to answer.
const RECORDS_PER_TIMEOUT: usize = 1000;

/// Number of records above which the cell asks for the limit before it sends them. Smaller batches are sent at once.
const ASK_ABOVE: usize = 1000;

/// Returns how long the service has to answer a call about a number of records.
pub fn timeout(records: usize) -> Duration {
    let times = records.div_ceil(RECORDS_PER_TIMEOUT).max(1);
    let once = Duration::from_millis(settings::service_timeout().unsigned_abs());
    once.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX))
}

/// The leases of the current transaction for changes that are being sent.
pub struct Leases<'l> {
    pub connection: &'l Connection,
    pub service: &'l Service<'l>,
    pub cell_id: i64,
    /// Whether the session commits them after the COMMIT.
    pub automatic: bool,
}

impl Leases<'_> {
    /// Begins leases for all changes. Returns those that are not empty, the first one first.
    pub fn begin(&self, outgoing: Outgoing) -> Result<Vec<LenientBatch>, ClaimsError> {
        let mut begun: Vec<LenientBatch> = Vec::new();
        let mut skipped = SkippedDestroys::default();
        let mut queue = match outgoing.records() > ASK_ABOVE {
            true => self.divide(outgoing, timeout(1))?,
            false => VecDeque::from([outgoing]),
        };
        let mut first = if queue.len() > 1 { lease_group::first(Uuid::now_v7()) } else { Uuid::now_v7() };
        // All answers so far together may take the time for all records so far.
        let mut sent = 0;
        while let Some(outgoing) = queue.pop_front() {
            let records = outgoing.records();
            sent += records;
            let limit = timeout(sent);
            let mut batch = LenientBatch::new(self.cell_id, lease_group::member(first, begun.len()), outgoing);
            if let Err(error) = self.begin_one(&mut batch, limit) {
                if !is_too_large(&error) {
                    return Err(batch.explained(error));
                }
                let parts = self.divide(batch.into_outgoing(), limit)?;
                if parts.len() < 2 {
                    return Err(error);
                }
                if begun.is_empty() {
                    first = lease_group::first(Uuid::now_v7());
                }
                sent -= records;
                parts.into_iter().rev().for_each(|part| queue.push_front(part));
                continue;
            }
            skipped.add(batch.skipped_destroys());
            if !batch.is_empty() {
                // From now on the lease ends with the transaction.
                afterwards::begun(self.service.name(), self.cell_id, (batch.lease, records), self.automatic);
                batch.confirm(self.connection)?;
                sizes::note(batch.lease, records);
                begun.push(batch);
            }
        }
        skipped_destroys::count(self.connection, skipped);
        Ok(begun)
    }

    /// Divides a batch by the service's limit. All answers so far together may take `limit`.
    fn divide(&self, outgoing: Outgoing, limit: Duration) -> Result<VecDeque<Outgoing>, ClaimsError> {
        let most = self.service.batch_limit(self.cell_id, self.service.time_left(limit))?;
        Ok(divide_by(&catalog::current(self.connection), outgoing, most))
    }

    /// Begins one lease at the service. After a conflict with leases of the same cell it settles those first. Only then the service
    /// waits for names, if the session wants that (`claims.lease_wait`). All answers to this and earlier batches together may take
    /// `limit`.
    fn begin_one(&self, batch: &mut LenientBatch, limit: Duration) -> Result<(), ClaimsError> {
        let Leases { connection, service, cell_id, .. } = *self;
        let waits = !settings::lease_wait().is_zero();
        let mut begin = || own_leases::own_conflict(cell_id, batch.begin(connection, service, limit, false));
        let mut conflict = match begin() {
            Err(error) if waits && own_leases::is_temporary(&error) => {
                return batch.begin(connection, service, limit, true);
            }
            answer => match answer? {
                None => return Ok(()),
                Some(conflict) => conflict,
            },
        };
        if own_leases::settle_committed(connection, service, cell_id, limit)? {
            match begin()? {
                None => return Ok(()),
                Some(again) => conflict = again,
            }
        }
        if !own_leases::settle_ended(connection, service, cell_id, &conflict, limit)? && !waits {
            return Err(conflict.into_error());
        }
        batch.begin(connection, service, limit, waits)
    }
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
fn is_too_large(error: &ClaimsError) -> bool {
    matches!(error, ClaimsError::Cell(CellError::Refused(refused)) if matches!(&refused.sqlstate, b"54000" | b"53400"))
}
