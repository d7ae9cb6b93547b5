//! Sends a batch of rows to the service, and notes the names that it does not claim.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use claims_model::source_range::{self, SourceRange};

use super::doubles::Doubles;
use super::rows::{self, LockedRows};
use super::statements::{BatchCounts, CollidingName, ImportKey};
use crate::cell::claimed::expected::{Attribute, ClaimedRow};
use crate::cell::client::Service;
use crate::cell::client::imports::{ImportList, ImportRefusal};
use crate::cell::client::naming::RequiredNaming;
use crate::cell::verify::expected::{Expected, ExpectedClaim, Unclaimable, claim_of, expected_claim, list_json};
use crate::kernel::error::ClaimsError;
use pg::spi::Connection;
use pg::wait;

/// Timeout of a call to the service. The rows of a batch are locked meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of records in a call. A range can have more rows than a batch.
pub const PER_CALL: usize = 10_000;
/// How long the records of a range wait for the cell's rate behind others of it. Its rows are locked meanwhile.
const RATE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const RATE_INTERVAL: Duration = Duration::from_millis(100);

/// Number of rows with one name that are sent one after the other.
const ROUNDS: usize = 10;

/// The reason of a name that another row of this cell has.
const OTHER_SOURCE: &str = "other_source";
/// The reason of a name that its profile refuses.
pub const INVALID: &str = "invalid";
/// The reasons of a row that stays locked, and of a name that a lease holds to the end.
const LOCKED: &str = "locked";
const LEASED: &str = "leased";

/// A batch that is being imported, in the current transaction.
pub struct ImportBatch<'b, 'c> {
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

/// The claims that rows need. Not every row can have one.
struct Needed {
    claims: Vec<ExpectedClaim>,
    invalid: Vec<CollidingName>,
    /// Number of rows that can have no claim: those of `invalid`, those with keys that are no ids, and those whose
    /// declaration is off.
    unclaimable: i64,
}

impl<'b, 'c> ImportBatch<'b, 'c> {
    pub fn new(
        connection: &'b Connection,
        expected: &'b Expected<'c>,
        service: &'b Service<'c>,
        key: &'b ImportKey,
        per_call: usize,
    ) -> Self {
        let (naming, counts) = (expected.naming(), BatchCounts::default());
        ImportBatch { connection, expected, service, key, naming, per_call, counts, sent: 0 }
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
            self.key.add_leftovers(self.connection, &locked_by_others);
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
        self.key.remove_leftovers(self.connection, &done);
        Ok(done.len())
    }

    fn collide(&mut self, names: &[CollidingName]) {
        if !names.is_empty() {
            self.counts.collisions += self.key.add_collisions(self.connection, names) as i64;
        }
    }

    /// Has the service claim the names of rows.
    fn send(&mut self, rows: Vec<(Rc<Attribute>, ClaimedRow)>) -> Result<Refusals, ClaimsError> {
        self.counts.rows += rows.len() as i64;
        self.sent += rows.len() as i64;
        let Needed { claims, invalid, unclaimable } = needed(rows);
        self.counts.skipped += unclaimable;
        let mut refusals = Refusals { temporary: Vec::new(), colliding: invalid };
        for (claim, refusal) in self.ask(claims, false)? {
            match refusal {
                None => {}
                Some(refusal) if refusal.is_temporary() => refusals.temporary.push(claim),
                Some(ImportRefusal { reason, holder }) => {
                    refusals.colliding.push(colliding_name(claim, &reason, holder))
                }
            }
        }
        Ok(refusals)
    }

    /// Returns the names of rows that could not be claimed now, and claims none.
    pub fn preview(
        &self,
        rows: Vec<(Rc<Attribute>, ClaimedRow)>,
        doubles: &Doubles,
    ) -> Result<Vec<CollidingName>, ClaimsError> {
        let Needed { claims, invalid: mut colliding, .. } = needed(rows);
        let mut later = Vec::new();
        for (claim, refusal) in self.ask(claims, true)? {
            match refusal {
                None => later.extend(doubles.before(&claim).map(|first| (first.to_owned(), claim))),
                Some(ImportRefusal { reason, holder }) => colliding.push(colliding_name(claim, &reason, holder)),
            }
        }
        if later.is_empty() {
            return Ok(colliding);
        }
        // The import comes to the earlier row first. It is refused there only if this row has the claim already.
        let taken = self.claimable(later.iter().map(|(first, claim)| (first.as_str(), claim)))?;
        let is_taken = |claim: &ExpectedClaim| taken.contains(&(claim.bucket_type().to_owned(), claim.value.clone()));
        let doubled = later.into_iter().filter(|(_, claim)| is_taken(claim));
        colliding.extend(doubled.map(|(_, claim)| colliding_name(claim, OTHER_SOURCE, Some(self.key.cell_id))));
        Ok(colliding)
    }

    /// Returns the names of claims that other rows, given by their source ids, could claim now.
    fn claimable<'n>(
        &self,
        names: impl Iterator<Item = (&'n str, &'n ExpectedClaim)>,
    ) -> Result<HashSet<(String, String)>, ClaimsError> {
        let names: HashSet<_> =
            names.map(|(source_id, claim)| (source_id, claim.bucket_type(), claim.value.as_str())).collect();
        let ids: HashSet<_> = names.iter().map(|(source_id, ..)| (*source_id).to_owned()).collect();
        let rows = rows::unlocked(self.connection, self.expected, &ids.into_iter().collect::<Vec<_>>());
        let claims = rows.into_iter().filter_map(|(attribute, row)| expected_claim(&attribute, row));
        let is_named =
            |claim: &ExpectedClaim| names.contains(&(claim.source_id.as_str(), claim.bucket_type(), &claim.value));
        let free =
            self.ask(claims.filter(is_named).collect(), true)?.into_iter().filter(|(_, refusal)| refusal.is_none());
        Ok(free.map(|(claim, _)| (claim.bucket_type().to_owned(), claim.value)).collect())
    }

    /// Sends claims in the order of their sources, and returns each with its refusal. Of several rows with one name, it sends the first; the
    /// next one only if a claim of another row was in the way of the first, because that row can be the next one.
    fn ask(
        &self,
        mut claims: Vec<ExpectedClaim>,
        preview: bool,
    ) -> Result<Vec<(ExpectedClaim, Option<ImportRefusal>)>, ClaimsError> {
        claims.sort_by(|a, b| source_range::compare(&a.source_id, &b.source_id));
        let mut answered = Vec::with_capacity(claims.len());
        let other_source = ImportRefusal { reason: OTHER_SOURCE.to_owned(), holder: Some(self.key.cell_id) };
        for round in 1.. {
            let mut seen = HashSet::with_capacity(claims.len());
            let is_first = |claim: &ExpectedClaim| seen.insert((claim.bucket_type().to_owned(), claim.value.clone()));
            let (firsts, others): (Vec<_>, Vec<_>) = claims.into_iter().partition(is_first);
            let firsts = self.refusals(firsts, preview, round > 1)?;
            let mut next = Vec::new();
            if !others.is_empty() {
                let by_name: HashMap<_, _> = firsts
                    .iter()
                    .map(|(claim, refusal)| ((claim.bucket_type(), claim.value.as_str()), refusal.as_ref()))
                    .collect();
                for other in others {
                    let refusal = by_name.get(&(other.bucket_type(), other.value.as_str())).copied().flatten().cloned();
                    match refusal {
                        Some(refusal) if refusal.reason == OTHER_SOURCE && round < ROUNDS => next.push(other),
                        None => answered.push((other, Some(other_source.clone()))),
                        refusal => answered.push((other, refusal)),
                    }
                }
            }
            answered.extend(firsts);
            if next.is_empty() {
                break;
            }
            claims = next;
        }
        Ok(answered)
    }

    /// Sends claims of different names, and returns each with its refusal. `waits`: as in [Self::claim], for the first portion.
    fn refusals(
        &self,
        claims: Vec<ExpectedClaim>,
        preview: bool,
        waits: bool,
    ) -> Result<Vec<(ExpectedClaim, Option<ImportRefusal>)>, ClaimsError> {
        let mut refusals: HashMap<usize, ImportRefusal> = HashMap::new();
        for (nth, portion) in claims.chunks(self.per_call).enumerate() {
            let refused = self.claim(portion, preview, waits || nth > 0)?;
            refusals.extend(refused.into_iter().map(|(place, refusal)| (nth * self.per_call + place, refusal)));
        }
        let with_refusal = |(place, claim)| (claim, refusals.remove(&place));
        Ok(claims.into_iter().enumerate().map(with_refusal).collect())
    }

    /// Has the service claim a portion, or with `preview` look at it. Where others of the range were claimed before, it waits for the cell's
    /// rate: to begin the range again would use up the rate for those.
    fn claim(
        &self,
        portion: &[ExpectedClaim],
        preview: bool,
        waits: bool,
    ) -> Result<Vec<(usize, ImportRefusal)>, ClaimsError> {
        let json = list_json(portion)?;
        let list = ImportList { json: &json, records: portion.len() };
        let deadline = Instant::now() + RATE_TIMEOUT;
        loop {
            match self.service.import_records(&list, &self.naming, preview, ANSWER_TIMEOUT) {
                Err(error) if error.is_remote_limit() && waits && Instant::now() < deadline => {
                    wait::sleep(RATE_INTERVAL)
                }
                answer => return answer,
            }
        }
    }
}

/// Returns the claims that rows need, and the rows whose names are refused by their profiles.
fn needed(rows: Vec<(Rc<Attribute>, ClaimedRow)>) -> Needed {
    let mut needed = Needed { claims: Vec::with_capacity(rows.len()), invalid: Vec::new(), unclaimable: 0 };
    for (attribute, row) in rows {
        match claim_of(&attribute, row) {
            Ok(claim) if claim.is_off() => needed.unclaimable += 1,
            Ok(claim) => needed.claims.push(claim),
            Err(row) => {
                needed.unclaimable += 1;
                needed.invalid.extend(invalid_name(row));
            }
        }
    }
    needed
}

/// Returns a row's name as one that can have no claim, or `None` if a key of the row is the reason.
fn invalid_name(row: Unclaimable) -> Option<CollidingName> {
    let Unclaimable { bucket_type, value, source_id, is_name } = row;
    let source_id = source_id.filter(|_| is_name)?;
    Some(CollidingName { bucket_type, value, source_id, reason: INVALID.to_owned(), holder: None })
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
