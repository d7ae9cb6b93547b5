//! How a declaration of a claimed column is enforced, and for which names.

use sha2::{Digest as _, Sha256};
use strum::EnumString;

/// The treatment of the names of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum EnforcementMode {
    /// Names are not captured.
    Off,
    /// Names are claimed where they can be, and no save fails.
    Observe,
    /// A save whose names cannot be claimed fails.
    Enforce,
}

impl EnforcementMode {
    pub fn named(name: &str) -> Option<EnforcementMode> {
        name.parse().ok()
    }
}

/// The number of positions, into which a hash divides all names.
pub const POSITIONS: u32 = 1_000_000;

/// The mode of a declaration, and the share of names for which it holds. The other names are observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforcement {
    mode: EnforcementMode,
    /// The mode holds for names whose position is below this.
    below: u32,
}

impl Default for Enforcement {
    fn default() -> Self {
        Enforcement::new(EnforcementMode::Enforce, POSITIONS)
    }
}

impl Enforcement {
    /// `below` is the share of names, out of [`POSITIONS`].
    pub fn new(mode: EnforcementMode, below: u32) -> Self {
        Enforcement { mode, below: below.min(POSITIONS) }
    }

    /// Returns an enforcement as a database stores it; what it does not say is the default.
    pub fn stored(mode: Option<&str>, below: Option<i64>) -> Self {
        let below = below.and_then(|below| u32::try_from(below).ok());
        Enforcement::new(
            mode.and_then(EnforcementMode::named).unwrap_or(EnforcementMode::Enforce),
            below.unwrap_or(POSITIONS),
        )
    }

    /// Returns the mode for a name, by its canonical form.
    pub fn of(self, canonical: &str) -> EnforcementMode {
        match self.of_all() {
            Some(mode) => mode,
            None if position(canonical) < self.below => self.mode,
            None => EnforcementMode::Observe,
        }
    }

    /// Returns whether the mode is off, for some names at least.
    pub fn is_off(self) -> bool {
        self.mode == EnforcementMode::Off && self.below > 0
    }

    /// Returns the mode if it is that of all names.
    pub fn of_all(self) -> Option<EnforcementMode> {
        match self.below {
            _ if self.mode == EnforcementMode::Observe => Some(EnforcementMode::Observe),
            POSITIONS => Some(self.mode),
            0 => Some(EnforcementMode::Observe),
            _ => None,
        }
    }
}

/// Returns the position of a name, from 0 to [`POSITIONS`] - 1: by the first 64 bits of the SHA-256 of its canonical form. It is the
/// same in every cell and every version, so that a name is enforced everywhere or nowhere.
pub fn position(canonical: &str) -> u32 {
    let digest = Sha256::digest(canonical.as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // The product has at most 84 bits, and its upper part is below POSITIONS.
    ((u128::from(first) * u128::from(POSITIONS)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These values never change. Python computes them, too:
    /// `int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], 'big') * 10**6 >> 64`.
    #[test]
    fn positions_are_fixed_for_ever() {
        let long = "x".repeat(1024);
        let positions = [
            ("", 889415),
            ("a", 791374),
            ("ada", 991916),
            ("Ada", 600179),
            ("gitlab-org", 250806),
            ("gitlab-org/gitlab", 436647),
            ("two@example.com", 122743),
            ("é", 291402),
            ("名前", 495153),
            (&*long, 287778),
        ];
        for (name, expected) in positions {
            assert_eq!(position(name), expected, "{name}");
        }
    }

    #[test]
    fn a_share_grows_without_letting_a_name_go() {
        let names: Vec<_> = (0..10_000).map(|number| format!("name {number}")).collect();
        let enforced = |below| {
            let enforcement = Enforcement::new(EnforcementMode::Enforce, below);
            names.iter().filter(|name| enforcement.of(name) == EnforcementMode::Enforce).collect::<Vec<_>>()
        };
        let (small, large) = (enforced(POSITIONS / 100), enforced(POSITIONS / 10));
        assert!(small.iter().all(|name| large.contains(name)));
        assert!(
            (50..200).contains(&small.len()) && (800..1200).contains(&large.len()),
            "{} {}",
            small.len(),
            large.len()
        );
        assert!(enforced(0).is_empty());
        assert_eq!(enforced(POSITIONS).len(), names.len());
    }

    #[test]
    fn names_outside_of_the_share_are_observed() {
        let (inside, outside) = ("name 1", "name 2");
        let limit = position(inside).max(position(outside));
        let (lower, higher) = if position(inside) < position(outside) { (inside, outside) } else { (outside, inside) };
        for mode in [EnforcementMode::Off, EnforcementMode::Enforce] {
            let enforcement = Enforcement::new(mode, limit);
            assert_eq!(
                (enforcement.of(lower), enforcement.of(higher), enforcement.of_all()),
                (mode, EnforcementMode::Observe, None)
            );
            assert_eq!(Enforcement::new(mode, POSITIONS).of_all(), Some(mode));
            assert_eq!(Enforcement::new(mode, 0).of_all(), Some(EnforcementMode::Observe));
        }
        assert_eq!(Enforcement::new(EnforcementMode::Observe, limit).of(lower), EnforcementMode::Observe);
        assert_eq!(Enforcement::default().of_all(), Some(EnforcementMode::Enforce));
    }
}
