//! Recovery's verdict on a lease that is outstanding at the service, from the facts that its cell has. `tests/protocol`
//! checks it in every interleaving with the application, the service and another recovery.

use strum::IntoStaticStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalTransaction {
    /// Still open, or prepared.
    Running,
    /// Committed or rolled back.
    Ended,
    /// Not recorded, too old for `pg_xact_status`, or never assigned in this cluster.
    Unknown,
}

impl LocalTransaction {
    /// Converts a result of `pg_xact_status`.
    pub fn of_status(status: Option<&str>) -> Self {
        match status {
            None => LocalTransaction::Unknown,
            Some("in progress") => LocalTransaction::Running,
            Some(_) => LocalTransaction::Ended,
        }
    }
}

/// The facts that the cell has about a lease. The rule depends on the order of reading: `fenced` and `transaction` are
/// read first, then `tracked` and `end_is_visible`, from one newer snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The tracked row of the lease is committed.
    pub tracked: bool,
    /// The transaction that judges has itself tracked the lease.
    pub tracked_here: bool,
    /// A fence for the lease was committed before this call began.
    pub fenced: bool,
    pub transaction: LocalTransaction,
    /// The snapshot that was searched for the tracked row is newer than the end of the transaction.
    pub end_is_visible: bool,
    /// The lease is older than stale_after.
    pub stale: bool,
}

/// The action that recovery takes for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Commit,
    Rollback,
    Wait,
    /// Fence the lease. If that succeeds, roll it back at once, otherwise wait.
    FenceAndRollback,
    /// Fence the lease. The next call, which finds the fence committed, rolls it back.
    FenceAndWait,
}

/// The answer to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    Commit,
    Rollback,
    Wait,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Decides about a lease.
pub fn judge(facts: Facts) -> Step {
    match facts {
        // The tracked row of the calling transaction itself is not saved before that transaction commits.
        Facts { tracked_here: true, .. } => Step::Wait,
        Facts { tracked: true, .. } => Step::Commit,
        Facts { transaction: LocalTransaction::Running, .. } => Step::Wait,
        Facts { fenced: true, .. } => Step::Rollback,
        Facts { transaction: LocalTransaction::Ended, end_is_visible: true, .. } => Step::FenceAndRollback,
        // The transaction ended between the two queries, so the tracked row may exist by now.
        Facts { transaction: LocalTransaction::Ended, .. } => Step::Wait,
        Facts { stale: true, .. } => Step::FenceAndWait,
        _ => Step::Wait,
    }
}

/// Returns the verdict on a lease. `fence_written` says whether the fence that `judge` asked for was written.
pub fn after_fencing(step: Step, fence_written: bool) -> Verdict {
    match step {
        Step::Commit => Verdict::Commit,
        Step::Rollback => Verdict::Rollback,
        Step::FenceAndRollback if fence_written => Verdict::Rollback,
        Step::Wait | Step::FenceAndWait | Step::FenceAndRollback => Verdict::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YOUNG: Facts = Facts {
        tracked: false,
        tracked_here: false,
        fenced: false,
        transaction: LocalTransaction::Unknown,
        end_is_visible: false,
        stale: false,
    };

    fn all_facts() -> impl Iterator<Item = Facts> {
        let transactions = [LocalTransaction::Running, LocalTransaction::Ended, LocalTransaction::Unknown];
        (0..32u8).flat_map(move |bits| {
            let bit = move |n: u8| bits >> n & 1 == 1;
            transactions.map(|transaction| Facts {
                tracked: bit(0),
                tracked_here: bit(1),
                fenced: bit(2),
                transaction,
                end_is_visible: bit(3),
                stale: bit(4),
            })
        })
    }

    #[test]
    fn a_tracked_lease_is_never_rolled_back() {
        for facts in all_facts().filter(|facts| facts.tracked || facts.tracked_here) {
            for written in [false, true] {
                assert_ne!(after_fencing(judge(facts), written), Verdict::Rollback, "{facts:?}");
            }
        }
    }

    #[test]
    fn only_a_tracked_lease_is_committed() {
        for facts in all_facts() {
            assert_eq!(judge(facts) == Step::Commit, facts.tracked && !facts.tracked_here, "{facts:?}");
        }
    }

    #[test]
    fn a_running_transaction_is_waited_for_however_old() {
        for facts in all_facts().filter(|facts| facts.transaction == LocalTransaction::Running && !facts.tracked) {
            assert_eq!(judge(facts), Step::Wait, "{facts:?}");
        }
    }

    #[test]
    fn rollback_needs_a_fence_or_an_end_that_is_seen() {
        for facts in all_facts().filter(|facts| !facts.fenced && !facts.end_is_visible) {
            for written in [false, true] {
                assert_ne!(after_fencing(judge(facts), written), Verdict::Rollback, "{facts:?}");
            }
        }
    }

    #[test]
    fn a_stale_lease_is_fenced_first() {
        assert_eq!(judge(YOUNG), Step::Wait);
        assert_eq!(judge(Facts { stale: true, ..YOUNG }), Step::FenceAndWait);
        assert_eq!(judge(Facts { fenced: true, ..YOUNG }), Step::Rollback);
        let ended = Facts { transaction: LocalTransaction::Ended, ..YOUNG };
        assert_eq!(judge(Facts { stale: true, ..ended }), Step::Wait);
        assert_eq!(judge(Facts { end_is_visible: true, ..ended }), Step::FenceAndRollback);
    }
}
