//! The calls that settle leases, and their answers.

use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};
use uuid::Uuid;

use super::answer::{Answer, each_asked};
use super::parameters::{Parameter, number, uuid, uuids};
use super::presented::{Presented, pair_and_place};
use super::question::Question;
use pg::libpq::{Command, Expected, Mismatch};

const COMMIT: &str = "SELECT claims.commit_update(claims.acting_cell($1, $3, $4, $5, true), $2)";
const COMMIT_UNFLUSHED: &str = "SELECT claims.commit_unflushed(claims.acting_cell($1, $3, $4, $5, true), $2)";
const ROLLBACK: &str = "SELECT claims.rollback_update(claims.acting_cell($1, $3, $4, $5, true), $2)";
const LEASE_TYPES: [Oid; 5] = [pg_sys::INT8OID, pg_sys::UUIDOID, pg_sys::INT8OID, pg_sys::INT8OID, pg_sys::INT8OID];
const SETTLE_AS: &str = "SELECT lease_uuid, outcome, settled
             FROM claims.settle_leases(claims.acting_cell($1::pg_catalog.int8, $4::pg_catalog.int8, $5::pg_catalog.int8, $6::pg_catalog.int8, true),
                      $2::pg_catalog.uuid[], $3::pg_catalog.uuid[])";
const SETTLE: &str = "SELECT lease_uuid, outcome, settled
             FROM claims.settle_leases($1::pg_catalog.int8, $2::pg_catalog.uuid[], $3::pg_catalog.uuid[])";

/// All names of a lease's outcome in the service's answers. The outcome is NULL if the service does not know the lease.
pub const OUTCOME_NAMES: [&str; 5] = ["committed", "rolled_back", "fenced", "busy", "outstanding"];

/// Leases of one cell at one service, each named once, with their outcomes.
#[derive(Debug, Default, Clone)]
pub struct Settlement {
    pub commits: Vec<Uuid>,
    pub rollbacks: Vec<Uuid>,
    /// Whether the service may skip the flush, so that its answer confirms nothing.
    pub is_unflushed: bool,
    /// Number of records of the leases, where that is known.
    pub records: usize,
}

/// The service's answer for a lease that it was asked to settle.
pub struct Settled {
    pub lease: Uuid,
    pub outcome: Option<String>,
    pub by_this_call: bool,
}

impl Settled {
    pub fn is_committed(&self) -> bool {
        self.outcome.as_deref() == Some("committed")
    }
}

impl Settlement {
    pub fn of(commits: &[Uuid], rollbacks: &[Uuid]) -> Self {
        Settlement { commits: commits.to_vec(), rollbacks: rollbacks.to_vec(), ..Settlement::default() }
    }

    /// Returns the call that settles the leases, and presents an epoch: a frequent call for a single lease.
    pub fn command(&self, cell_id: i64, presented: Presented) -> Command {
        let (name, text, lease): (&'static CStr, _, _) = match (self.commits.as_slice(), self.rollbacks.as_slice()) {
            ([lease], []) if self.is_unflushed => (c"claims_commit_unflushed", COMMIT_UNFLUSHED, lease),
            ([lease], []) => (c"claims_commit", COMMIT, lease),
            ([], [lease]) => (c"claims_rollback", ROLLBACK, lease),
            _ => return self.listed_as(cell_id, presented),
        };
        let [epoch, predecessor, place] = pair_and_place(presented);
        let values = [number(cell_id), uuid(*lease), epoch, predecessor, place];
        Question { text, values: &values, expected: Expected::one_row(1) }.frequent_command(name, &LEASE_TYPES)
    }

    /// Returns the call that settles any number of leases and answers with a row for each, for a pass that has presented its epoch.
    pub fn listed(&self, cell_id: i64) -> Command {
        self.question(SETTLE, &[number(cell_id), uuids(&self.commits), uuids(&self.rollbacks)])
    }

    /// Like [`Settlement::listed`], and presents an epoch.
    pub fn listed_as(&self, cell_id: i64, presented: Presented) -> Command {
        let [epoch, predecessor, place] = pair_and_place(presented);
        let (commits, rollbacks) = (uuids(&self.commits), uuids(&self.rollbacks));
        self.question(SETTLE_AS, &[number(cell_id), commits, rollbacks, epoch, predecessor, place])
    }

    fn question(&self, text: &str, values: &[Parameter]) -> Command {
        Question { text, values, expected: Expected::rows(self.len()..=self.len(), 3) }.command()
    }

    /// Reads the answer to [`Settlement::command`]. Returns the leases that are committed.
    pub fn committed(&self, answer: Answer) -> Result<Vec<Uuid>, Mismatch> {
        if self.len() == 1 {
            return answer.only(|row| row.boolean(1)).map(|_| self.commits.clone());
        }
        let settled = self.each_settled(answer)?.into_iter();
        Ok(settled.filter(Settled::is_committed).map(|settled| settled.lease).collect())
    }

    /// Reads the answer to [`Settlement::listed`] and [`Settlement::listed_as`].
    pub fn each_settled(&self, answer: Answer) -> Result<Vec<Settled>, Mismatch> {
        let settled = answer.map(|row| {
            let outcome = row.word_or_null(2, &OUTCOME_NAMES)?.map(str::to_owned);
            Ok(Settled { lease: row.uuid(1)?, outcome, by_this_call: row.boolean(3)? })
        })?;
        each_asked(&[self.commits.as_slice(), &self.rollbacks].concat(), settled, |settled| settled.lease)
    }

    fn len(&self) -> usize {
        self.commits.len() + self.rollbacks.len()
    }
}
