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
//! A save presents the pair, too. It changes nothing at the service, which only refuses the save unless it has one of the two. If a
//! pass of the same database replaces the pair while a save is on its way, the save reads the pair again, and is repeated.

/// A random token.
pub type Epoch = i64;

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

/// Returns whether the service follows a database that presents this pair, or none because it has committed none yet.
pub fn is_followed(presented: Option<StoredEpoch>, service: Option<Epoch>) -> bool {
    presented.map_or(service.is_none(), |presented| presented.is_taken_by(service))
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
        assert!(is_followed(None, None) && !is_followed(None, Some(1)));
        let stored = StoredEpoch { epoch: 2, predecessor: Some(1) };
        assert!(is_followed(Some(stored), Some(1)) && !is_followed(Some(stored), Some(3)));
    }
}
