//! One database acts as a cell: the epochs by which the service tells it from its clones and from restored backups.
//!
//! A database keeps an epoch and its predecessor. Before it decides anything it presents both, which settles what an earlier
//! pass may have left open; makes a new epoch and *commits* it, with the one just confirmed as its predecessor; and presents
//! those. The service takes the new one if it has either. So whatever a crash leaves, the service has one of the two that the
//! database has committed; and a copy of the database, once the other one has done a pass, has neither.

/// A random token.
pub type Epoch = i64;

/// What a database has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeptEpoch {
    pub epoch: Epoch,
    pub predecessor: Option<Epoch>,
}

impl KeptEpoch {
    /// What is to be committed in its place, for a new epoch.
    pub fn followed_by(before: Option<KeptEpoch>, epoch: Epoch) -> KeptEpoch {
        KeptEpoch { epoch, predecessor: before.map(|kept| kept.epoch) }
    }

    /// Whether a service that has this epoch (`None`: it has never heard of one) takes what is presented.
    pub fn is_taken_by(self, service: Option<Epoch>) -> bool {
        service.is_none_or(|has| has == self.epoch || Some(has) == self.predecessor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_takes_what_follows_or_repeats_what_it_has() {
        let kept = KeptEpoch::followed_by(Some(KeptEpoch { epoch: 1, predecessor: None }), 2);
        assert_eq!(kept, KeptEpoch { epoch: 2, predecessor: Some(1) });
        assert!(kept.is_taken_by(None) && kept.is_taken_by(Some(1)) && kept.is_taken_by(Some(2)));
        assert!(!kept.is_taken_by(Some(3)));
        assert!(!KeptEpoch::followed_by(None, 2).is_taken_by(Some(1)));
    }
}
