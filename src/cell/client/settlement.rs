//! The calls that settle leases, and their answers.

use uuid::Uuid;

use super::answer::{Answer, each_asked, one_of, row};
use super::presented::Presented;
use super::question::question;
use pg::libpq::{Command, Mismatch};

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

row! {
    /// The service's answer for a lease that it was asked to settle.
    pub struct Settled {
        pub lease: Uuid,
        pub outcome: Option<String>,
        pub by_this_call: bool,
    }
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
        let settle = match (self.commits.as_slice(), self.rollbacks.as_slice()) {
            ([lease], []) if self.is_unflushed => question! {
                prepared c"claims_commit_unflushed":
                "SELECT claims.commit_unflushed(claims.acting_cell({cell_id}, {presented}, true), {lease})",
                cell_id, lease = *lease, presented
            },
            ([lease], []) => question! {
                prepared c"claims_commit":
                "SELECT claims.commit_update(claims.acting_cell({cell_id}, {presented}, true), {lease})",
                cell_id, lease = *lease, presented
            },
            ([], [lease]) => question! {
                prepared c"claims_rollback":
                "SELECT claims.rollback_update(claims.acting_cell({cell_id}, {presented}, true), {lease})",
                cell_id, lease = *lease, presented
            },
            _ => return self.listed(cell_id, Some(presented)),
        };
        settle.command::<(bool,)>(1..=1)
    }

    /// Returns the call that settles any number of leases and answers with a row for each. It presents an epoch, unless a pass has presented it
    /// before.
    pub fn listed(&self, cell_id: i64, presented: Option<Presented>) -> Command {
        let (commits, rollbacks) = (self.commits.as_slice(), self.rollbacks.as_slice());
        let settle = match presented {
            None => question! {
                "SELECT lease_uuid, outcome, settled FROM claims.settle_leases({cell_id}, {commits}, {rollbacks})",
                cell_id, commits, rollbacks
            },
            Some(presented) => question! {
                "SELECT lease_uuid, outcome, settled
                   FROM claims.settle_leases(claims.acting_cell({cell_id}, {presented}, true), {commits}, {rollbacks})",
                cell_id, commits, rollbacks, presented
            },
        };
        settle.command::<Settled>(self.len()..=self.len())
    }

    /// Reads the answer to [`Settlement::command`]. Returns the leases that are committed.
    pub fn committed(&self, answer: Answer) -> Result<Vec<Uuid>, Mismatch> {
        if self.len() == 1 {
            return answer.only().map(|(_,): (bool,)| self.commits.clone());
        }
        let settled = self.each_settled(answer)?.into_iter();
        Ok(settled.filter(Settled::is_committed).map(|settled| settled.lease).collect())
    }

    /// Reads the answer to [`Settlement::listed`].
    pub fn each_settled(&self, answer: Answer) -> Result<Vec<Settled>, Mismatch> {
        let settled: Vec<Settled> = answer.rows()?;
        for Settled { outcome, .. } in &settled {
            one_of(outcome.as_deref(), &OUTCOME_NAMES)?;
        }
        each_asked(&[self.commits.as_slice(), &self.rollbacks].concat(), settled, |settled| settled.lease)
    }

    fn len(&self) -> usize {
        self.commits.len() + self.rollbacks.len()
    }
}
