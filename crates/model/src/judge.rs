//! Recovery's verdict on a lease that is outstanding at the service, by what its cell knows about it.
//! `tests/protocol` checks it in every interleaving with the application, the service and another recovery.

/// The state of the local transaction that began the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalTransaction {
    /// Still open, prepared included.
    Running,
    /// Committed or rolled back.
    Ended,
    /// Not given, too old to tell, or never assigned in this cluster.
    Unknown,
}

/// What the cell knows about a lease. The order of reading is part of the rule: `fenced` and `transaction` are read first,
/// `tracked` and `end_is_visible` after that, from one newer snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The lease's tracked row is committed.
    pub tracked: bool,
    /// The transaction that judges has tracked the lease itself.
    pub tracked_here: bool,
    /// A fence for it was committed before this call began.
    pub fenced: bool,
    pub transaction: LocalTransaction,
    /// The snapshot in which the tracked row was looked for is newer than the end of the transaction.
    pub end_is_visible: bool,
    /// Older than stale_after.
    pub stale: bool,
}

/// What to do about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Commit,
    Rollback,
    Wait,
    /// Fence it; if that succeeds roll it back at once, otherwise wait.
    FenceAndRollback,
    /// Fence it; the next call that finds the fence committed rolls back.
    FenceAndWait,
}

/// The answer to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Commit,
    Rollback,
    Wait,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Commit => "commit",
            Verdict::Rollback => "rollback",
            Verdict::Wait => "wait",
        }
    }
}

/// The rule.
pub fn judge(facts: Facts) -> Step {
    match facts {
        // What this transaction itself tracked is not saved before it commits.
        Facts { tracked_here: true, .. } => Step::Wait,
        Facts { tracked: true, .. } => Step::Commit,
        Facts { transaction: LocalTransaction::Running, .. } => Step::Wait,
        Facts { fenced: true, .. } => Step::Rollback,
        Facts { transaction: LocalTransaction::Ended, end_is_visible: true, .. } => Step::FenceAndRollback,
        // It ended between the two queries: the tracked row may exist by now.
        Facts { transaction: LocalTransaction::Ended, .. } => Step::Wait,
        Facts { stale: true, .. } => Step::FenceAndWait,
        _ => Step::Wait,
    }
}

/// The verdict on a lease after the fence that `judge` asked for was written, or could not be.
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
