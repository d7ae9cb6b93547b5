//! The protocol between two cells and the service, with every interleaving of crashes, delays, repeats and recovery.
//!
//! The verdict is the extension's own (`claims_model::judge`). The rest is the protocol around it, in steps small
//! enough for every interleaving that can occur. Every transaction and every pass may be the last thing that its
//! process does. Every sent message arrives late, twice or never.

mod cell;
mod service;
mod state;

use state::{BUCKETS, BucketState, CELLS, End, Local, PassStage, Wish, World};
use stateright::{Checker, Model, Property};

/// A fault that the model puts into the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// track_lease ignores fences.
    FenceIgnored,
    /// A fence leads to the verdict rollback before it is committed.
    FenceUncommitted,
    /// A session forgets a lease after the answer to its unflushed commit alone.
    ForgottenUnflushed,
    /// Fencing does not take the key that a tracking transaction holds.
    FenceWithoutKey,
    /// The tracked row is read before the end of its transaction is known, and no fence corrects that.
    TrackedReadFirst,
    /// No lease is ever fenced.
    NeverFenced,
    /// The service reports the end of a lease before it has flushed it.
    ReportedUnflushed,
}

#[derive(Debug, Clone)]
struct Protocol {
    batches: &'static [Wish],
    /// The number of recoveries that run concurrently, in one cell or in both.
    recoveries: usize,
    /// begin_update had the id of the local transaction as an argument.
    named: bool,
    broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The application begins its transaction and sends begin_update.
    Open(usize),
    BeginArrives(usize),
    CommitArrives(usize),
    /// A commit that arrives from a session that has just committed locally. Neither that session nor the service waits
    /// for the flush.
    UnflushedCommitArrives(usize),
    RollbackArrives(usize),
    /// The service crashes, and loses a commit that it has not flushed.
    Lose(usize),
    Track(usize),
    CommitLocally(usize),
    RollBackLocally(usize),
    /// The application sends commit_update.
    SendCommit(usize),
    SendRollback(usize),
    /// The application, or recovery, has received the service's confirmation of the commit.
    Forget(usize),
    /// The session has received the answer to its unflushed commit, and then that to a begin of the same process, which has flushed both.
    ForgetFlushed(usize),
    /// An old fence is purged, because no open transaction could still use its uuid.
    PurgeFence(usize),
    /// A pass has listed a lease.
    List(usize, usize),
    Advance(usize),
    /// A pass fails or is canceled.
    Abandon(usize),
    Crash(usize),
}

impl Protocol {
    /// Applies an action. Returns `None` if it is impossible or changes nothing.
    fn apply(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        let possible = match action {
            Action::Open(lease) => {
                after.leases[lease].local = Local::Open;
                self.can_open(before, lease)
            }
            Action::BeginArrives(lease) => {
                before.leases[lease].local != Local::NotBegun && self.begin(&mut after, lease)
            }
            Action::CommitArrives(lease) => before.leases[lease].commit_sent && self.commit(&mut after, lease),
            Action::UnflushedCommitArrives(lease) => {
                before.leases[lease].commit_sent && self.commit_unflushed(&mut after, lease)
            }
            Action::Lose(lease) => self.lose(&mut after, lease),
            Action::RollbackArrives(lease) => before.leases[lease].rollback_sent && self.roll_back(&mut after, lease),
            Action::Track(lease) => {
                after.leases[lease].local = Local::Tracking;
                self.can_track(before, lease)
            }
            Action::CommitLocally(lease) => {
                self.commit_locally(&mut after, lease);
                before.leases[lease].local == Local::Tracking
            }
            Action::RollBackLocally(lease) => {
                after.leases[lease].local = Local::RolledBack;
                before.is_open(lease)
            }
            Action::SendCommit(lease) => {
                after.leases[lease].commit_sent = true;
                before.leases[lease].local == Local::Committed
            }
            Action::SendRollback(lease) => {
                after.leases[lease].rollback_sent = true;
                before.leases[lease].local == Local::RolledBack
            }
            Action::Forget(lease) => {
                self.report(&mut after);
                after.leases[lease].tracked = false;
                before.leases[lease].outcome == End::Committed
            }
            Action::ForgetFlushed(lease) => {
                after.leases[lease].tracked = false;
                let is_flushed = !before.leases[lease].unflushed || self.broken == Some(Broken::ForgottenUnflushed);
                before.leases[lease].outcome == End::Committed && is_flushed
            }
            Action::PurgeFence(lease) => {
                after.leases[lease].fenced = false;
                !before.is_open(lease)
            }
            Action::List(slot, lease) => {
                after.passes[slot] = PassStage::Listed { lease };
                before.passes[slot] == PassStage::Idle && before.leases[lease].outcome == End::Outstanding
            }
            Action::Advance(slot) => self.advance(&mut after, slot).is_some(),
            Action::Abandon(slot) => {
                after.passes[slot] = PassStage::Idle;
                true
            }
            Action::Crash(cell) => {
                self.crash(&mut after, cell);
                true
            }
        };
        // Passes are interchangeable, so their order is not part of the state.
        after.passes.sort_unstable();
        (possible && after != *before).then_some(after)
    }

    /// Returns the state after recovery alone has run.
    fn recovered(&self, state: &World) -> World {
        let mut state = state.clone();
        (0..CELLS).for_each(|cell| self.crash(&mut state, cell));
        for lease in 0..self.batches.len() {
            // One pass fences, the next one settles.
            for _ in 0..2 {
                if let Some(listed) = self.apply(&state, Action::List(0, lease)) {
                    state = listed;
                    while let Some(slot) = state.passes.iter().position(|pass| *pass != PassStage::Idle) {
                        let next =
                            [Action::Advance(slot), Action::CommitArrives(lease), Action::RollbackArrives(lease)];
                        match next.into_iter().find_map(|action| self.apply(&state, action)) {
                            Some(next) => state = next,
                            None => return state,
                        }
                    }
                }
            }
            state = self.apply(&state, Action::Forget(lease)).unwrap_or(state);
        }
        state
    }

    fn is_settled(&self, state: &World) -> bool {
        let agrees = |bucket: usize| match state.claims[bucket] {
            BucketState::Free => (0..CELLS).all(|cell| !state.rows[cell][bucket]),
            BucketState::Active { owner } => (0..CELLS).all(|cell| state.rows[cell][bucket] == (cell == owner)),
            BucketState::Creating { .. } | BucketState::Destroying { .. } => false,
        };
        (0..BUCKETS).all(agrees) && state.leases.iter().all(|lease| lease.outcome != End::Outstanding && !lease.tracked)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.batches.len(), self.recoveries)]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Action>) {
        let leases = 0..self.batches.len();
        for lease in leases.clone() {
            actions.extend([
                Action::Open(lease),
                Action::BeginArrives(lease),
                Action::CommitArrives(lease),
                Action::UnflushedCommitArrives(lease),
                Action::RollbackArrives(lease),
                Action::Lose(lease),
                Action::Track(lease),
                Action::CommitLocally(lease),
                Action::RollBackLocally(lease),
                Action::SendCommit(lease),
                Action::SendRollback(lease),
                Action::Forget(lease),
                Action::ForgetFlushed(lease),
                Action::PurgeFence(lease),
            ]);
        }
        for slot in 0..self.recoveries {
            actions.extend(leases.clone().map(|lease| Action::List(slot, lease)));
            actions.extend([Action::Advance(slot), Action::Abandon(slot)]);
        }
        actions.extend((0..CELLS).map(Action::Crash));
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        self.apply(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(TWO_OWNERS, |_, state: &World| {
                (0..BUCKETS).all(|bucket| (0..CELLS).filter(|cell| state.rows[*cell][bucket]).count() < 2)
            }),
            Property::always(UNCLAIMED, |protocol: &Protocol, state: &World| {
                let claimed = |cell: usize, bucket: usize| {
                    !state.rows[cell][bucket] || protocol.owner(state.claims[bucket]) == Some(cell)
                };
                (0..CELLS).all(|cell| (0..BUCKETS).all(|bucket| claimed(cell, bucket)))
            }),
            Property::always(STUCK, |protocol: &Protocol, state: &World| {
                protocol.is_settled(&protocol.recovered(state))
            }),
            // These properties show that the model reaches the interesting states.
            Property::sometimes(BOTH_SAVE, |_, state: &World| state.rows.iter().all(|rows| rows.contains(&true))),
            Property::sometimes(OVERTAKEN, |_, state: &World| {
                (0..state.leases.len()).any(|l| state.is_open(l) && state.leases[l].outcome == End::RolledBack)
            }),
            Property::sometimes(UNFLUSHED, |_, state: &World| {
                state.leases.iter().any(|lease| lease.unflushed && lease.tracked)
            }),
            Property::sometimes(BEHIND, |_, state: &World| {
                state.leases.iter().any(|lease| lease.tracked && lease.outcome == End::Outstanding)
            }),
        ]
    }
}

const TWO_OWNERS: &str = "no bucket with two owners";
const UNCLAIMED: &str = "no saved row without its claim";
const STUCK: &str = "no lease that can never be settled";
const BOTH_SAVE: &str = "both cells save";
const OVERTAKEN: &str = "a lease is rolled back while its transaction is open";
const UNFLUSHED: &str = "a commit that is not flushed, of a lease that is tracked";
const BEHIND: &str = "a lease is still outstanding when its transaction has committed";

/// Two cells want one bucket. One of them wants it together with another one, or that one alone.
const RACE: &[Wish] = &[
    Wish { cell: 0, creates: &[0], destroys: &[] },
    Wish { cell: 1, creates: &[0, 1], destroys: &[] },
    Wish { cell: 1, creates: &[1], destroys: &[] },
];

/// A cell takes a bucket and then gives it up for another one, while the other cell waits for it.
const RENAME: &[Wish] = &[
    Wish { cell: 0, creates: &[0], destroys: &[] },
    Wish { cell: 0, creates: &[1], destroys: &[0] },
    Wish { cell: 1, creates: &[0], destroys: &[] },
];

/// A cell takes a bucket, gives it to another of its rows together with a new one, and the other cell waits for it.
const REPLACE: &[Wish] = &[
    Wish { cell: 0, creates: &[0], destroys: &[] },
    Wish { cell: 0, creates: &[0, 1], destroys: &[0] },
    Wish { cell: 1, creates: &[0], destroys: &[] },
];

fn protocol(batches: &'static [Wish], recoveries: usize, named: bool) -> Protocol {
    Protocol { batches, recoveries, named, broken: None }
}

/// Visits every reachable state. Asserts that everything that should happen in some state does, except what is
/// `impossible` here.
fn holds(protocol: Protocol, impossible: &[&'static str]) {
    let checker = protocol.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    [TWO_OWNERS, UNCLAIMED, STUCK].into_iter().chain(impossible.iter().copied()).for_each(|name| {
        checker.assert_no_discovery(name);
    });
    [BOTH_SAVE, OVERTAKEN, UNFLUSHED, BEHIND].into_iter().filter(|name| !impossible.contains(name)).for_each(|name| {
        checker.assert_any_discovery(name);
    });
}

/// Asserts that the broken protocol violates these properties.
fn breaks(broken: Broken, named: bool, promises: &[&'static str]) {
    let checker = Protocol { broken: Some(broken), ..protocol(RACE, 2, named) }.checker().threads(2).spawn_bfs().join();
    promises.iter().for_each(|promise| {
        checker.assert_any_discovery(promise);
    });
}

#[test]
fn two_cells_race_and_recovery_goes_by_age() {
    holds(protocol(RACE, 2, false), &[]);
}

#[test]
fn two_cells_race_and_recovery_knows_the_transaction() {
    // With the transaction's id recovery never gives up a transaction that is still open.
    holds(protocol(RACE, 2, true), &[OVERTAKEN]);
}

#[test]
fn a_name_changes_hands() {
    holds(protocol(RENAME, 2, false), &[]);
}

#[test]
fn a_name_goes_from_one_row_to_another() {
    holds(protocol(REPLACE, 2, false), &[BOTH_SAVE]);
}

#[test]
fn without_the_fence_a_saved_row_loses_its_claim() {
    breaks(Broken::FenceIgnored, false, &[UNCLAIMED, TWO_OWNERS]);
}

#[test]
fn a_fence_must_be_committed_before_it_counts() {
    breaks(Broken::FenceUncommitted, false, &[UNCLAIMED, TWO_OWNERS]);
}

#[test]
fn a_fence_must_meet_the_transaction_that_is_tracking() {
    breaks(Broken::FenceWithoutKey, false, &[UNCLAIMED, TWO_OWNERS]);
}

#[test]
fn the_tracked_row_is_read_after_the_end_of_its_transaction() {
    breaks(Broken::TrackedReadFirst, true, &[UNCLAIMED, TWO_OWNERS]);
}

#[test]
fn a_reported_end_must_be_flushed_before() {
    breaks(Broken::ReportedUnflushed, false, &[UNCLAIMED, TWO_OWNERS]);
}

#[test]
fn a_lease_is_forgotten_after_a_flush_of_its_end() {
    breaks(Broken::ForgottenUnflushed, false, &[UNCLAIMED, TWO_OWNERS]);
}

#[test]
fn without_a_fence_a_lease_stays_forever() {
    breaks(Broken::NeverFenced, false, &[STUCK]);
}
