//! Ranges of source ids in the service's order (by length, then bytewise), and the integers and uuids in them.
//!
//! Both sides must put equal keys into a range. Non-negative integers have the service's order. -7 is a text of two
//! characters that begins with a minus, so it lies between 9 and 10. The texts of uuids have equal lengths, so uuids
//! have the service's order, too.

use std::ops::RangeInclusive;

pub use crate::source_key::compare;
use crate::source_key::last_uuid_within;

/// The source ids above `above` and up to `up_to`. `None` means no bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceRange {
    pub above: Option<String>,
    pub up_to: Option<String>,
}

/// The integers of a range: at most one interval on either side of zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integers {
    pub negative: RangeInclusive<i64>,
    pub natural: RangeInclusive<i64>,
}

/// Neighboring ids of a range, as conditions on length and text such that an index scan on both columns begins and ends
/// with them. PostgreSQL begins an index scan at a row comparison like `(length, text) <= (…)`, but does not end it
/// there as long as the length is equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section<'r> {
    /// All ids with these lengths.
    Lengths(RangeInclusive<i32>),
    /// The ids of one length above a text and up to another one.
    OfLength { length: i32, above: &'r str, up_to: Option<&'r str> },
}

impl SourceRange {
    /// Returns the range in sections, in the order of the ids.
    pub fn sections(&self) -> Vec<Section<'_>> {
        let length = |id: &str| i32::try_from(id.chars().count()).unwrap_or(i32::MAX);
        let above = self.above.as_deref().map(|above| (length(above), above));
        let up_to = self.up_to.as_deref().map(|up_to| (length(up_to), up_to));
        if let (Some((length, above)), Some((last, up_to))) = (above, up_to)
            && length == last
        {
            return vec![Section::OfLength { length, above, up_to: Some(up_to) }];
        }
        let between =
            above.map_or(0, |(length, _)| length.saturating_add(1))..=up_to.map_or(i32::MAX, |(length, _)| length - 1);
        let first = above.map(|(length, above)| Section::OfLength { length, above, up_to: None });
        let middle = (!between.is_empty()).then_some(Section::Lengths(between));
        let last = up_to.map(|(length, up_to)| Section::OfLength { length, above: "", up_to: Some(up_to) });
        if self.is_void() { Vec::new() } else { [first, middle, last].into_iter().flatten().collect() }
    }

    /// Returns whether a source id lies in the range.
    pub fn contains(&self, id: &str) -> bool {
        self.above.as_deref().is_none_or(|above| compare(id, above).is_gt())
            && self.up_to.as_deref().is_none_or(|up_to| compare(id, up_to).is_le())
    }

    /// Returns whether no source id can lie in the range.
    pub fn is_void(&self) -> bool {
        let (above, up_to) = (self.above.as_deref().unwrap_or_default(), self.up_to.as_deref());
        up_to.is_some_and(|up_to| compare(above, up_to).is_ge())
    }

    /// Returns the integers whose texts lie in the range. An empty interval begins behind its end.
    pub fn integers(&self) -> Integers {
        let (above, up_to) =
            (IdReach::of(self.above.as_deref(), IdReach::NOTHING), IdReach::of(self.up_to.as_deref(), IdReach::ALL));
        Integers {
            // Down to this number the texts are not above the lower bound of the range; below it they are.
            negative: match above.lowest_negative {
                i64::MIN => EMPTY,
                lowest => bounded(up_to.lowest_negative..=lowest - 1),
            },
            natural: match above.highest_natural {
                i64::MAX => EMPTY,
                highest => bounded(highest + 1..=up_to.highest_natural),
            },
        }
    }

    /// Returns the uuids whose texts lie in the range, as numbers.
    pub fn uuids(&self) -> RangeInclusive<u128> {
        let last = self.up_to.as_deref().map_or(Some(u128::MAX), last_uuid_within);
        let first = match self.above.as_deref().map(last_uuid_within) {
            None | Some(None) => Some(0),
            Some(Some(below)) => below.checked_add(1),
        };
        #[allow(clippy::reversed_empty_ranges)]
        first.zip(last).map_or(1..=0, |(first, last)| first..=last)
    }
}

#[allow(clippy::reversed_empty_ranges)]
const EMPTY: RangeInclusive<i64> = 1..=0;

fn bounded(range: RangeInclusive<i64>) -> RangeInclusive<i64> {
    if range.is_empty() { EMPTY } else { range }
}

/// The integers whose texts are not above a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IdReach {
    /// -1 if there is none.
    highest_natural: i64,
    /// 0 if there is none.
    lowest_negative: i64,
}

impl IdReach {
    const NOTHING: IdReach = IdReach { highest_natural: -1, lowest_negative: 0 };
    const ALL: IdReach = IdReach { highest_natural: i64::MAX, lowest_negative: i64::MIN };

    fn of(bound: Option<&str>, unbounded: IdReach) -> IdReach {
        let Some(bound) = bound else { return unbounded };
        let within = |number: i64| compare(&number.to_string(), bound).is_le();
        // Texts grow with the number on one side of zero, and against it on the other.
        IdReach {
            highest_natural: last_where(u64::MAX >> 1, |number| within(number as i64)).map_or(-1, |n| n as i64),
            lowest_negative: last_where(u64::MAX >> 1, |number| within((-(number as i64)).saturating_sub(1)))
                .map_or(0, |n| (-(n as i64)).saturating_sub(1)),
        }
    }
}

/// Returns the largest number up to `max` for which `holds` is true. It must be true up to some number, and false
/// above.
fn last_where(max: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (0, max);
    if !holds(low) {
        return None;
    }
    while low < high {
        let middle = high - (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(above: Option<&str>, up_to: Option<&str>) -> SourceRange {
        SourceRange { above: above.map(str::to_owned), up_to: up_to.map(str::to_owned) }
    }

    #[test]
    fn everything() {
        assert_eq!(range(None, None).integers(), Integers { negative: i64::MIN..=-1, natural: 0..=i64::MAX });
    }

    #[test]
    fn natural_numbers_are_bounded_as_numbers() {
        let integers = range(Some("9"), Some("1000")).integers();
        assert_eq!(integers, Integers { negative: -999..=-1, natural: 10..=1000 });
    }

    #[test]
    fn the_largest_key() {
        let largest = i64::MAX.to_string();
        assert_eq!(range(Some(&largest), None).integers().natural, EMPTY);
        assert_eq!(range(None, Some(&largest)).integers().natural, 0..=i64::MAX);
        let smallest = i64::MIN.to_string();
        assert_eq!(range(Some(&smallest), None).integers().negative, EMPTY);
        assert_eq!(range(None, Some(&smallest)).integers().negative, i64::MIN..=-1);
    }

    #[test]
    fn bounds_that_are_no_numbers() {
        assert_eq!(range(None, Some("")).integers(), Integers { negative: EMPTY, natural: EMPTY });
        assert_eq!(range(Some("zz"), None).integers().natural, 100..=i64::MAX);
        assert_eq!(range(Some("é"), None).integers().natural, 10..=i64::MAX);
        assert_eq!(range(None, Some("007")).integers().natural, 0..=99);
    }

    #[test]
    fn sections_in_order() {
        let of_length = |length, above, up_to| Section::OfLength { length, above, up_to };
        assert_eq!(range(None, None).sections(), [Section::Lengths(0..=i32::MAX)]);
        assert_eq!(range(Some("10"), Some("20")).sections(), [of_length(2, "10", Some("20"))]);
        assert_eq!(range(Some("9"), Some("20")).sections(), [of_length(1, "9", None), of_length(2, "", Some("20"))]);
        let sections = [of_length(1, "é", None), Section::Lengths(2..=2), of_length(3, "", Some("abc"))];
        assert_eq!(range(Some("é"), Some("abc")).sections(), sections);
        assert_eq!(range(Some("abc"), Some("é")).sections(), []);
    }

    proptest! {
        #[test]
        fn sections_are_the_range(
            above in proptest::option::of("[ab\u{e9}]{0,4}"), up_to in proptest::option::of("[ab\u{e9}]{1,4}"), id in "[ab\u{e9}]{1,5}",
        ) {
            let range = SourceRange { above, up_to };
            let length = id.chars().count() as i32;
            let lies_in = |section: &&Section| match section {
                Section::Lengths(lengths) => lengths.contains(&length),
                Section::OfLength { length: of, above, up_to } => {
                    *of == length && id.as_str() > *above && up_to.is_none_or(|up_to| id.as_str() <= up_to)
                }
            };
            prop_assert_eq!(range.sections().iter().filter(lies_in).count(), usize::from(range.contains(&id)));
        }

        #[test]
        fn integers_are_those_whose_texts_lie_in_the_range(
            above in proptest::option::of("[-0-9a]{0,20}"), up_to in proptest::option::of("[-0-9é]{0,20}"),
            number: i64, digits in 0_u32..63,
        ) {
            let number = number >> digits;
            let range = SourceRange { above, up_to };
            let integers = range.integers();
            let inside = integers.natural.contains(&number) || integers.negative.contains(&number);
            prop_assert_eq!(inside, range.contains(&number.to_string()));
        }
    }
}
