//! The epochs by which the service tells a cell's database from its clones and from restored backups.
//!
//! A database stores an epoch and its predecessor. A pass of recovery presents both to the service first, which
//! resolves an earlier pass that died. Then it makes a new epoch, with the confirmed one as its predecessor, *commits*
//! it, and presents the new pair. The service accepts a pair if it knows either epoch. So after any crash the service
//! has one of the two epochs that the database has committed. A copy of the database has neither, once the other
//! database has done a pass.
//!
//! Each service follows epochs of its own, so a database stores a pair for each.
//!
//! A copy of a database has the same pair until the database makes its next pass. So a presenter also says where it is ([`Place`]), and the
//! service continues with the place that has acted lately. Another place may take over when that one was silent for [`SILENCE`], and does so
//! only with a new epoch: before that, the service merely confirms that it would follow it. A standby that was promoted is on a later timeline,
//! and need not wait; its primary, on the earlier timeline, must be adopted.
//!
//! A save presents the pair and its place, too. It changes no epoch at the service, which only refuses the save unless it has one of the
//! two from that place. If a
//! pass of the same database replaces the pair while a save is on its way, the save reads the pair again, and is repeated.

use std::time::Duration;

use crate::place::{Place, PlaceRelation, relation};

/// A random token.
pub type Epoch = i64;

/// How long the acting database must have been silent before another place may take over.
pub const SILENCE: Duration = Duration::from_secs(30);
/// How often the service notes that a database acts. Less than [`SILENCE`], with room for a note that is missed.
pub const NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// The epochs that a database has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredEpoch {
    pub epoch: Epoch,
    pub predecessor: Option<Epoch>,
}

impl StoredEpoch {
    /// Returns what a database commits for a new epoch, in place of `before`.
    pub fn followed_by(before: Option<StoredEpoch>, epoch: Epoch) -> StoredEpoch {
        StoredEpoch { epoch, predecessor: before.map(|stored| stored.epoch) }
    }

    /// Returns whether the service accepts this pair. `service` is the epoch that the service has, or `None` if it has
    /// none.
    pub fn is_taken_by(self, service: Option<Epoch>) -> bool {
        service.is_none_or(|has| has == self.epoch || Some(has) == self.predecessor)
    }
}

/// The database that the service follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Acting {
    pub epoch: Epoch,
    /// `None`: it has not said where it is.
    pub place: Option<Place>,
}

/// Returns whether the service follows a database that presents this pair from this place in a save; the pair is `None` if it has committed
/// none yet. A save without a place is compared by its epoch only.
pub fn is_followed(presented: Option<StoredEpoch>, place: Option<i64>, acting: Option<(Epoch, Option<i64>)>) -> bool {
    let Some((epoch, acting_place)) = acting else { return true };
    let is_there = acting_place.is_none_or(|acting_place| place.is_none_or(|place| place == acting_place));
    is_there && presented.is_some_and(|presented| presented.is_taken_by(Some(epoch)))
}

/// The service's answer to a presentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresentationAnswer {
    /// The database acts as the cell: the service stores its epoch and its place.
    Acts,
    /// The service would follow it, and keeps the place that it has: an epoch that was made before is no takeover.
    MayTakeOver,
    /// Another database has presented an epoch of its own.
    AnotherEpoch,
    /// Another place acts with the same epoch.
    AnotherPlace(PlaceRelation),
}

/// A presentation of an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Presentation {
    pub stored: StoredEpoch,
    pub place: Option<Place>,
    /// Whether the presenter has made the epoch for this presentation, so that no copy has it.
    pub is_new: bool,
}

impl Presentation {
    /// Judges the presentation. `is_silent`: the acting database was silent for [`SILENCE`].
    pub fn judge(&self, acting: Option<Acting>, is_silent: bool) -> PresentationAnswer {
        let Some(acting) = acting else { return PresentationAnswer::Acts };
        if !self.stored.is_taken_by(Some(acting.epoch)) {
            return PresentationAnswer::AnotherEpoch;
        }
        match relation(acting.place, self.place) {
            PlaceRelation::Same | PlaceRelation::Promoted => PresentationAnswer::Acts,
            // A concurrent pass of the presenter has stored its epoch already.
            PlaceRelation::Elsewhere if self.is_new && self.stored.epoch == acting.epoch => PresentationAnswer::Acts,
            PlaceRelation::Elsewhere if is_silent && self.is_new => PresentationAnswer::Acts,
            PlaceRelation::Elsewhere if is_silent => PresentationAnswer::MayTakeOver,
            other => PresentationAnswer::AnotherPlace(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_takes_what_follows_or_repeats_what_it_has() {
        let stored = StoredEpoch::followed_by(Some(StoredEpoch { epoch: 1, predecessor: None }), 2);
        assert_eq!(stored, StoredEpoch { epoch: 2, predecessor: Some(1) });
        assert!(stored.is_taken_by(None) && stored.is_taken_by(Some(1)) && stored.is_taken_by(Some(2)));
        assert!(!stored.is_taken_by(Some(3)));
        assert!(!StoredEpoch::followed_by(None, 2).is_taken_by(Some(1)));
    }

    /// With one row for all services, a service that two passes at another one have left behind would refuse the database.
    #[test]
    fn each_service_needs_a_pair_of_its_own() {
        let first = StoredEpoch { epoch: 1, predecessor: None };
        let (at_one, at_other) = (Some(first), Some(first));
        let second = StoredEpoch::followed_by(at_one, 2);
        let third = StoredEpoch::followed_by(Some(second), 3);
        assert!(third.is_taken_by(Some(2)) && !third.is_taken_by(at_other.map(|stored| stored.epoch)));
        assert!(first.is_taken_by(at_other.map(|stored| stored.epoch)));
    }

    #[test]
    fn a_database_without_an_epoch_is_followed_until_another_one_has_presented_its_own() {
        assert!(is_followed(None, Some(7), None) && !is_followed(None, Some(7), Some((1, None))));
        let stored = StoredEpoch { epoch: 2, predecessor: Some(1) };
        assert!(
            is_followed(Some(stored), Some(7), Some((1, None))) && !is_followed(Some(stored), Some(7), Some((3, None)))
        );
    }

    #[test]
    fn a_save_from_another_place_is_not_followed() {
        let stored = StoredEpoch { epoch: 2, predecessor: Some(1) };
        assert!(
            is_followed(Some(stored), Some(7), Some((2, Some(7))))
                && !is_followed(Some(stored), Some(8), Some((2, Some(7))))
        );
        assert!(is_followed(Some(stored), None, Some((2, Some(7)))));
    }

    #[test]
    fn a_copy_waits_and_takes_over_with_a_new_epoch_only() {
        let place = |location, timeline| Some(Place::new("7/5", location, timeline));
        let acting = Some(Acting { epoch: 1, place: place("a", 1) });
        let judge = |from, epoch, is_new, is_silent| {
            let stored = StoredEpoch { epoch, predecessor: Some(1) };
            Presentation { stored, place: from, is_new }.judge(acting, is_silent)
        };
        assert_eq!(judge(place("a", 1), 2, false, false), PresentationAnswer::Acts);
        assert_eq!(judge(place("b", 1), 2, true, false), PresentationAnswer::AnotherPlace(PlaceRelation::Elsewhere));
        assert_eq!(judge(place("b", 1), 2, false, true), PresentationAnswer::MayTakeOver);
        assert_eq!(judge(place("b", 1), 2, true, true), PresentationAnswer::Acts);
        assert_eq!(judge(None, 2, true, false), PresentationAnswer::AnotherPlace(PlaceRelation::Elsewhere));
        assert_eq!(judge(place("b", 2), 2, false, false), PresentationAnswer::Acts);
        assert_eq!(judge(place("b", 0), 2, true, true), PresentationAnswer::AnotherPlace(PlaceRelation::Outdated));
        let unknown = Some(Acting { epoch: 1, place: None });
        let stored = StoredEpoch { epoch: 1, predecessor: None };
        assert_eq!(
            Presentation { stored, place: place("b", 1), is_new: false }.judge(unknown, false),
            PresentationAnswer::Acts
        );
    }
}
