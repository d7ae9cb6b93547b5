//! Names that their owners have given up, and that are kept back for a while before others can have them.

use strum::{EnumString, IntoStaticStr};

use crate::claim::Reference;

/// Those who may have a name while it is kept back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Reclaim {
    /// The cell that gave it up, for the same subject.
    #[default]
    Subject,
    /// The cell that gave it up, for every subject.
    Cell,
    Nobody,
}

impl Reclaim {
    pub const ALL: [Reclaim; 3] = [Reclaim::Subject, Reclaim::Cell, Reclaim::Nobody];

    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// The longest time for which a name is kept back: a hundred years, in microseconds.
pub const LONGEST_US: i64 = 36_525 * 24 * 60 * 60 * 1_000_000;

/// How the names of a bucket type are kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantine {
    pub keep_for_us: i64,
    pub reclaim: Reclaim,
}

/// A name that is kept back. Times are microseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeptBack {
    /// The cell that gave it up, or the one to which a transfer has moved its right.
    pub given_up_by: i64,
    pub available_at_us: i64,
    /// The cell of the lease that reclaims it.
    pub reclaiming_cell: Option<i64>,
}

/// The cell and the subject for which a call wants a name.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    pub cell_id: i64,
    pub subject: &'a Reference<'a>,
    /// Those who may have names of the type.
    pub reclaim: Reclaim,
    pub now_us: i64,
}

impl KeptBack {
    /// Returns whether its time is over, so that everybody can have it.
    pub fn is_over(&self, now_us: i64) -> bool {
        self.available_at_us <= now_us
    }

    /// Returns whether a call can have the name, unless a lease holds it. `former_subject` is the subject that it belonged to.
    pub fn may_be_had(&self, former_subject: &Reference, by: &Asking) -> bool {
        let is_same_cell = self.given_up_by == by.cell_id;
        self.is_over(by.now_us)
            || match by.reclaim {
                Reclaim::Subject => is_same_cell && former_subject == by.subject,
                Reclaim::Cell => is_same_cell,
                Reclaim::Nobody => false,
            }
    }

    /// Returns the name as a create finds it.
    pub fn for_create(&self, former_subject: &Reference, by: &Asking) -> KeptName {
        KeptName {
            may_be_had: self.may_be_had(former_subject, by),
            is_leased: self.reclaiming_cell.is_some(),
            is_leased_by_caller: self.reclaiming_cell == Some(by.cell_id),
        }
    }

    /// Returns the name as a destroy by a cell finds it.
    pub fn for_destroy(&self, cell_id: i64) -> KeptName {
        KeptName {
            may_be_had: false,
            is_leased: self.reclaiming_cell.is_some(),
            is_leased_by_caller: self.reclaiming_cell == Some(cell_id),
        }
    }
}

/// A name that is kept back, as a call finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptName {
    /// Whether the call can have it, unless a lease holds it.
    pub may_be_had: bool,
    pub is_leased: bool,
    pub is_leased_by_caller: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: KeptBack = KeptBack { given_up_by: 1, available_at_us: 100, reclaiming_cell: None };

    fn subject(id: &'static str) -> Reference<'static> {
        Reference { type_id: 4, id: id.into() }
    }

    fn may(cell_id: i64, id: &'static str, reclaim: Reclaim, now_us: i64) -> bool {
        KEPT.may_be_had(&subject("7"), &Asking { cell_id, subject: &subject(id), reclaim, now_us })
    }

    #[test]
    fn only_who_may_reclaim_it_has_it_before_its_time() {
        let rows = [
            (1, "7", [true, true, false]),
            (1, "8", [false, true, false]),
            (2, "7", [false, false, false]),
            (2, "8", [false, false, false]),
        ];
        for (cell_id, id, wanted) in rows {
            assert_eq!(Reclaim::ALL.map(|reclaim| may(cell_id, id, reclaim, 99)), wanted, "{cell_id} {id}");
            assert_eq!(Reclaim::ALL.map(|reclaim| may(cell_id, id, reclaim, 100)), [true; 3], "{cell_id} {id}, over");
        }
    }

    #[test]
    fn a_subject_of_another_type_is_another_one() {
        let other = Reference { type_id: 2, id: "7".into() };
        let asking = Asking { cell_id: 1, subject: &other, reclaim: Reclaim::Subject, now_us: 0 };
        assert!(!KEPT.may_be_had(&subject("7"), &asking));
    }

    #[test]
    fn every_name_of_a_rule_is_known() {
        for one in Reclaim::ALL {
            assert_eq!(Reclaim::named(one.name()), Some(one));
        }
        assert_eq!(Reclaim::named("Subject"), None);
        assert_eq!(Reclaim::default(), Reclaim::Subject);
    }

    #[test]
    fn a_lease_is_told_from_those_of_others() {
        let leased = KeptBack { reclaiming_cell: Some(2), ..KEPT };
        assert!(leased.for_destroy(2).is_leased_by_caller && !leased.for_destroy(1).is_leased_by_caller);
        assert!(leased.for_destroy(1).is_leased && !KEPT.for_destroy(1).is_leased);
    }
}
