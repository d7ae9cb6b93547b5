//! Tests the judge: it accepts correct histories, and notices every way to break one.

use super::{Deed, Event, Final, Outcome, State, Window, judge};
use crate::batch::Batch;
use Outcome::{Committed, RolledBack};
use uuid::Uuid;

/// Builds notes.
#[derive(Default)]
struct Notes {
    events: Vec<Event>,
    end: Final,
}

fn batch(creates: &[&str], destroys: &[&str]) -> Batch {
    Batch {
        creates: creates.iter().map(|name| (name.to_string(), 1)).collect(),
        destroys: destroys.iter().map(|name| name.to_string()).collect(),
    }
}

impl Notes {
    fn deed(mut self, lease: u128, deed: Deed, lo: u64, hi: u64) -> Self {
        self.events.push(Event::Lease { lease: Uuid::from_u128(lease), deed, at: Window::new(lo, hi) });
        self
    }

    fn creates(self, lease: u128, cell: i64, bucket: &str, lo: u64, hi: u64) -> Self {
        self.deed(lease, Deed::Begun { cell, batch: batch(&[bucket], &[]), shown: hi }, lo, hi)
    }

    fn destroys(self, lease: u128, cell: i64, bucket: &str, lo: u64, hi: u64) -> Self {
        self.deed(lease, Deed::Begun { cell, batch: batch(&[], &[bucket]), shown: hi }, lo, hi)
    }

    fn ends(self, lease: u128, outcome: Outcome, lo: u64, hi: u64) -> Self {
        self.deed(lease, Deed::Settled { outcome, first: true }, lo, hi)
    }

    fn seen(mut self, bucket: &str, state: State, lo: u64, hi: u64) -> Self {
        let at = Window::new(lo, hi);
        self.events.push(Event::Seen { bucket: bucket.to_string(), any_of: vec![state], at });
        self
    }

    fn finally(mut self, bucket: &str, state: State) -> Self {
        self.end.claims.insert(bucket.to_string(), state);
        self
    }

    fn good(self) {
        let verdict = judge(&self.events, &self.end);
        assert_eq!(verdict.problems, Vec::<String>::new());
    }

    fn bad(self, expected: &str) {
        let problems = judge(&self.events, &self.end).problems;
        assert!(problems.iter().any(|p| p.contains(expected)), "{expected:?} not among {problems:?}");
    }
}

/// Returns notes in which cell 1 creates `x` and destroys it again, and then cell 2 creates it.
fn handed_over() -> Notes {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, Committed, 30, 40)
        .destroys(2, 1, "x", 50, 60)
        .ends(2, Committed, 70, 80)
        .creates(3, 2, "x", 75, 90)
        .ends(3, Committed, 100, 110)
        .finally("x", State::Active(2))
}

#[test]
fn a_bucket_may_change_hands() {
    let notes = handed_over();
    assert_eq!(judge(&notes.events, &notes.end).changes_of_owner, 1);
    notes.good();
}

#[test]
fn one_transaction_may_be_acknowledged_after_the_lease_that_follows() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, Committed, 30, 40)
        .destroys(2, 1, "x", 50, 100)
        .ends(2, Committed, 50, 100)
        .creates(3, 2, "x", 60, 70)
        .ends(3, Committed, 75, 80)
        .finally("x", State::Active(2))
        .good();
}

#[test]
fn two_owners_at_once() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, Committed, 30, 40)
        .creates(2, 2, "x", 50, 60)
        .ends(2, Committed, 70, 80)
        .finally("x", State::Active(2))
        .bad("began on Active(1)");
}

#[test]
fn two_leases_at_once() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, RolledBack, 50, 60)
        .creates(2, 2, "x", 25, 30)
        .ends(2, Committed, 70, 80)
        .finally("x", State::Active(2))
        .bad("overlaps the lease before it");
}

#[test]
fn two_destroys_of_one_claim_overlap() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, Committed, 30, 40)
        .destroys(2, 1, "x", 50, 55)
        .ends(2, RolledBack, 80, 90)
        .destroys(3, 1, "x", 60, 65)
        .ends(3, Committed, 95, 99)
        .bad("overlaps the lease before it");
}

#[test]
fn a_create_that_begins_before_the_destroy_can_have_ended() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, Committed, 30, 40)
        .destroys(2, 1, "x", 50, 60)
        .ends(2, Committed, 100, 110)
        .creates(3, 2, "x", 70, 99)
        .ends(3, Committed, 120, 130)
        .finally("x", State::Active(2))
        .bad("overlaps the lease before it");
}

#[test]
fn destroying_what_another_cell_owns() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, Committed, 30, 40)
        .destroys(2, 2, "x", 50, 60)
        .ends(2, Committed, 70, 80)
        .bad("began on Active(1), which only Active(2) allows");
}

#[test]
fn destroying_what_is_not_there() {
    Notes::default().destroys(1, 1, "x", 10, 20).ends(1, Committed, 30, 40).bad("began on Free");
}

#[test]
fn an_end_that_the_table_does_not_show() {
    let mut notes = handed_over();
    notes.end.claims.clear();
    notes.bad("the notes end with Active(2), the server shows Free");
    handed_over().finally("x", State::Active(1)).bad("the server shows Active(1)");
    handed_over().finally("y", State::Active(1)).bad("nobody claimed it");
}

#[test]
fn a_lease_left_open() {
    Notes::default().creates(1, 1, "x", 10, 20).bad("begun and never ended");
}

#[test]
fn a_lease_that_ends_both_ways() {
    handed_over().deed(1, Deed::Told(RolledBack), 200, 210).bad("committed and rolled back");
    handed_over().ends(1, Committed, 200, 210).bad("two calls say that they ended");
}

#[test]
fn an_outcome_without_a_cause() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .deed(1, Deed::Settled { outcome: Committed, first: false }, 30, 40)
        .finally("x", State::Active(1))
        .bad("nobody ended it");
    Notes::default().ends(1, Committed, 30, 40).bad("nobody began it");
}

#[test]
fn a_repeat_that_knows_the_outcome_too_early() {
    let told = Deed::Settled { outcome: Committed, first: false };
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .deed(1, told, 21, 22)
        .ends(1, Committed, 30, 40)
        .finally("x", State::Active(1))
        .bad("ended before anybody asked");
}

#[test]
fn a_lease_seen_after_its_end() {
    handed_over().deed(1, Deed::Outstanding, 45, 46).bad("seen outstanding after it had ended");
}

#[test]
fn a_lease_begun_again_after_its_end() {
    let broken = Notes::default().creates(1, 1, "x", 10, 20).ends(1, RolledBack, 30, 40).creates(1, 1, "x", 50, 60);
    broken.bad("begun again after it had been rolled back");
    handed_over().creates(1, 1, "x", 45, 46).good(); // a repeat after the commit is only told the uuid
}

#[test]
fn two_requests_under_one_uuid() {
    handed_over().creates(3, 2, "y", 75, 90).bad("two different requests");
}

#[test]
fn lost_answers_are_resolved() {
    let lost = |cell, bucket| Deed::BeginLost { cell, batch: batch(&[bucket], &[]) };
    // The begin is lost, then the lease is listed, then its commit is lost, then its outcome is returned.
    Notes::default()
        .deed(1, lost(1, "x"), 10, 20)
        .deed(1, Deed::Outstanding, 30, 40)
        .deed(1, Deed::SettleLost(Committed), 50, 60)
        .deed(1, Deed::Settled { outcome: Committed, first: false }, 70, 80)
        .finally("x", State::Active(1))
        .good();
    // The begin is lost, and the lease is fenced. Another cell's lease meanwhile is no problem, and neither is a
    // sighting of the lost one.
    Notes::default()
        .deed(1, lost(1, "x"), 10, 20)
        .ends(1, RolledBack, 70, 80)
        .seen("x", State::Creating(1), 30, 31)
        .creates(2, 2, "x", 40, 50)
        .ends(2, Committed, 60, 65)
        .finally("x", State::Active(2))
        .good();
}

#[test]
fn a_lost_commit_that_can_only_have_happened_too_late() {
    Notes::default()
        .creates(1, 1, "x", 10, 20)
        .ends(1, Committed, 30, 40)
        .destroys(2, 1, "x", 50, 60)
        .deed(2, Deed::SettleLost(Committed), 100, 110)
        .deed(2, Deed::Told(Committed), 120, 130)
        .creates(3, 2, "x", 80, 90)
        .ends(3, Committed, 140, 150)
        .finally("x", State::Active(2))
        .bad("overlaps the lease before it");
}

#[test]
fn sightings_must_be_possible() {
    handed_over().seen("x", State::Active(1), 35, 45).seen("x", State::Free, 0, 15).good();
    handed_over().seen("x", State::Active(1), 81, 90).bad("cannot have been so");
    handed_over().seen("x", State::Free, 41, 69).bad("cannot have been so");
    handed_over().seen("never", State::Active(1), 1, 2).bad("cannot have been so");
    handed_over().seen("x", State::Creating(2), 10, 70).bad("cannot have been so");
    // Begun in window 10 to 20, in a transaction that was known to have committed at 50. Until then others see the old
    // state.
    let begun = Deed::Begun { cell: 1, batch: batch(&["x"], &[]), shown: 50 };
    let late = Notes::default().deed(1, begun, 10, 20).ends(1, Committed, 60, 70).finally("x", State::Active(1));
    late.seen("x", State::Free, 45, 46).good();
}

#[test]
fn a_bucket_that_two_cells_had_is_named() {
    let told_both =
        || Notes::default().creates(1, 1, "x", 10, 20).ends(1, Committed, 30, 40).ends(2, Committed, 70, 80);
    let doubled = |notes: Notes| judge(&notes.events, &notes.end).doubled;
    assert_eq!(doubled(told_both().creates(2, 2, "x", 50, 60)), ["x"]);
    assert_eq!(doubled(told_both().creates(2, 1, "x", 50, 60)), [""; 0], "one cell that lost it is not two");
    assert_eq!(doubled(handed_over()), [""; 0]);
}

#[test]
fn a_lease_that_ended_in_two_ways_is_named() {
    let notes = handed_over().ends(3, RolledBack, 120, 130);
    assert_eq!(judge(&notes.events, &notes.end).broken, [Uuid::from_u128(3)]);
}
