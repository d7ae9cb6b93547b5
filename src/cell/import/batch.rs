//! Sends a batch of rows to the service, and notes the names that it does not claim.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use claims_model::source_range::SourceRange;

use super::rows::{self, LockedRows};
use crate::cell::client::Service;
use crate::cell::client::imports::{ImportList, RefusedRecord};
use crate::cell::client::naming::RequiredNaming;
use crate::cell::verify::expected::{Expected, ExpectedClaim, expected_claim, list_json};
use crate::error::ClaimsError;
use crate::pg::spi::Connection;
use crate::pg::wait;
use crate::store::cell::expected::{Attribute, ClaimedRow};
use crate::store::cell::imports::{self, BatchCounts, CollidingName, ImportKey};

/// Timeout of a call to the service. The rows of a batch are locked meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of records in a call. A range can have more rows than a batch.
pub const PER_CALL: usize = 10_000;
/// How long the records of a range wait for the cell's rate behind others of it. Its rows are locked meanwhile.
const RATE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const RATE_INTERVAL: Duration = Duration::from_millis(100);

/// The reason of a name that another row of this cell in the same batch has.
const OTHER_SOURCE: &str = "other_source";
/// The reasons of a row that stays locked, and of a name that a lease holds to the end.
const LOCKED: &str = "locked";
const LEASED: &str = "leased";

/// A batch that is being imported, in the current transaction.
pub struct Batch<'b, 'c> {
    connection: &'b Connection,
    expected: &'b Expected<'c>,
    service: &'b Service<'c>,
    key: &'b ImportKey,
    naming: RequiredNaming,
    /// Number of records in a call.
    per_call: usize,
    pub counts: BatchCounts,
    /// Number of rows that were read to be imported, whatever has become of them.
    pub sent: i64,
}

/// The claims that could not be made: for now, or for good.
#[derive(Default)]
struct Refusals {
    temporary: Vec<ExpectedClaim>,
    colliding: Vec<CollidingName>,
}

impl<'b, 'c> Batch<'b, 'c> {
    pub fn new(
        connection: &'b Connection,
        expected: &'b Expected<'c>,
        service: &'b Service<'c>,
        key: &'b ImportKey,
        per_call: usize,
    ) -> Self {
        let (naming, counts) = (expected.naming(), BatchCounts::default());
        Batch { connection, expected, service, key, naming, per_call, counts, sent: 0 }
    }

    /// Imports the rows of a range. Rows that other transactions hold become leftovers.
    pub fn import_range(&mut self, range: &SourceRange) -> Result<(), ClaimsError> {
        let LockedRows { rows, mut locked_by_others } = rows::of_range(self.connection, self.expected, range);
        let Refusals { temporary, colliding } = self.send(rows)?;
        self.collide(&colliding);
        // A row counts when it is done.
        self.counts.rows -= temporary.len() as i64;
        locked_by_others.extend(temporary.into_iter().map(|claim| claim.source_id));
        if !locked_by_others.is_empty() {
            imports::add_leftovers(self.connection, self.key, locked_by_others);
        }
        Ok(())
    }

    /// Imports rows that other transactions held. Returns how many are leftovers no more. With `is_last`, those that are still held
    /// become collisions.
    pub fn import_leftovers(&mut self, ids: &[String], is_last: bool) -> Result<usize, ClaimsError> {
        let LockedRows { rows, locked_by_others } = rows::of_ids(self.connection, self.expected, ids);
        let Refusals { temporary, mut colliding } = self.send(rows)?;
        self.counts.rows -= temporary.len() as i64;
        let mut held: HashSet<String> = locked_by_others.iter().cloned().collect();
        if is_last {
            let rows = rows::unlocked(self.connection, self.expected, &locked_by_others);
            let locked: Vec<_> =
                rows.into_iter().filter_map(|(attribute, row)| expected_claim(&attribute, row)).collect();
            self.counts.rows += (locked.len() + temporary.len()) as i64;
            colliding.extend(locked.into_iter().map(|claim| colliding_name(claim, LOCKED, None)));
            colliding.extend(temporary.into_iter().map(|claim| colliding_name(claim, LEASED, None)));
            held.clear();
        } else {
            held.extend(temporary.into_iter().map(|claim| claim.source_id));
        }
        self.collide(&colliding);
        let done: Vec<_> = ids.iter().filter(|id| !held.contains(*id)).cloned().collect();
        let count = done.len();
        imports::remove_leftovers(self.connection, self.key, done);
        Ok(count)
    }

    fn collide(&mut self, names: &[CollidingName]) {
        if !names.is_empty() {
            self.counts.collisions += imports::add_collisions(self.connection, self.key, names) as i64;
        }
    }

    /// Has the service claim the names of rows.
    fn send(&mut self, rows: Vec<(Rc<Attribute>, ClaimedRow)>) -> Result<Refusals, ClaimsError> {
        self.counts.rows += rows.len() as i64;
        self.sent += rows.len() as i64;
        let all = rows.len();
        let (claims, colliding) = distinct(rows, self.key.cell_id);
        self.counts.skipped += (all - claims.len() - colliding.len()) as i64;
        let mut refusals = Refusals { temporary: Vec::new(), colliding };
        for (nth, portion) in claims.chunks(self.per_call).enumerate() {
            for (claim, reason, holder, is_temporary) in self.claim(portion, nth > 0)? {
                match is_temporary {
                    true => refusals.temporary.push(claim),
                    false => refusals.colliding.push(colliding_name(claim, &reason, holder)),
                }
            }
        }
        Ok(refusals)
    }

    /// Has the service claim a portion. Where others of the range were claimed before, it waits for the cell's rate: to begin the range
    /// again would use up the rate for those.
    fn claim(
        &self,
        portion: &[ExpectedClaim],
        waits: bool,
    ) -> Result<Vec<(ExpectedClaim, String, Option<i64>, bool)>, ClaimsError> {
        let deadline = Instant::now() + RATE_TIMEOUT;
        loop {
            match self.refused(portion, false) {
                Err(error) if error.is_remote_limit() && waits && Instant::now() < deadline => {
                    wait::sleep(RATE_INTERVAL)
                }
                answer => return answer,
            }
        }
    }

    /// Returns the names of rows that could not be claimed now, and claims none.
    pub fn preview(&self, rows: Vec<(Rc<Attribute>, ClaimedRow)>) -> Result<Vec<CollidingName>, ClaimsError> {
        let (claims, mut colliding) = distinct(rows, self.key.cell_id);
        for portion in claims.chunks(PER_CALL) {
            let refused = self.refused(portion, true)?.into_iter();
            colliding.extend(refused.map(|(claim, reason, holder, _)| colliding_name(claim, &reason, holder)));
        }
        Ok(colliding)
    }

    /// Sends claims. Returns those that the service refuses, each with its reason, the holder of its name, and whether that is
    /// temporary.
    fn refused(
        &self,
        claims: &[ExpectedClaim],
        preview: bool,
    ) -> Result<Vec<(ExpectedClaim, String, Option<i64>, bool)>, ClaimsError> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let json = list_json(claims)?;
        let list = ImportList { json: &json, records: claims.len() };
        let refused = self.service.import_records(self.key.cell_id, &list, &self.naming, preview, ANSWER_TIMEOUT)?;
        let of = |place: usize| claims.get(place).cloned();
        let row = |one: RefusedRecord| {
            let is_temporary = one.is_temporary();
            of(one.place).map(|claim| (claim, one.reason, one.holder, is_temporary))
        };
        Ok(refused.into_iter().filter_map(row).collect())
    }
}

/// Returns the claims that rows need, each name once, and the names that several rows have.
fn distinct(rows: Vec<(Rc<Attribute>, ClaimedRow)>, cell_id: i64) -> (Vec<ExpectedClaim>, Vec<CollidingName>) {
    let (mut claims, mut colliding): (Vec<ExpectedClaim>, Vec<_>) = (Vec::with_capacity(rows.len()), Vec::new());
    let mut seen = HashSet::with_capacity(rows.len());
    for claim in rows.into_iter().filter_map(|(attribute, row)| expected_claim(&attribute, row)) {
        match seen.insert((claim.bucket_type().to_owned(), claim.value.clone())) {
            true => claims.push(claim),
            false => colliding.push(colliding_name(claim, OTHER_SOURCE, Some(cell_id))),
        }
    }
    (claims, colliding)
}

fn colliding_name(claim: ExpectedClaim, reason: &str, holder: Option<i64>) -> CollidingName {
    CollidingName {
        bucket_type: claim.bucket_type().to_owned(),
        value: claim.value,
        source_id: claim.source_id,
        reason: reason.to_owned(),
        holder,
    }
}
