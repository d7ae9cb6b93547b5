//! The mode of the service: open, settle only, or read only.

use strum::{EnumString, IntoStaticStr};

/// A mode. The modes are ordered from the least strict to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Mode {
    #[default]
    Open,
    SettleOnly,
    ReadOnly,
}

/// The permission that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Begins a lease.
    Begin,
    /// Settles a lease, or corrects claims.
    Settle,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Open, Mode::SettleOnly, Mode::ReadOnly];

    /// Returns the name that callers write.
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn named(name: &str) -> Option<Mode> {
        name.parse().ok()
    }

    pub fn allows(self, need: Need) -> bool {
        match need {
            Need::Begin => self == Mode::Open,
            Need::Settle => self != Mode::ReadOnly,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_allows_less_than_the_one_before() {
        let allowed = |mode: Mode| (mode.allows(Need::Begin), mode.allows(Need::Settle));
        assert_eq!(Mode::ALL.map(allowed), [(true, true), (false, true), (false, false)]);
        assert!(Mode::Open < Mode::SettleOnly && Mode::SettleOnly < Mode::ReadOnly);
    }

    #[test]
    fn names_lead_back() {
        assert!(Mode::ALL.into_iter().all(|mode| Mode::named(mode.name()) == Some(mode)));
        assert_eq!(Mode::named("OPEN"), None);
        assert_eq!(Mode::default(), Mode::Open);
    }
}
