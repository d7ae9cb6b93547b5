//! Which source ids the keys of a column can be.
//!
//! A source id is any text. A column of integers or of uuids has the ids that are the canonical texts of its values, and
//! no others: '007' is the id of no integer.

use std::cmp::Ordering;

use uuid::Uuid;

use crate::source_range::compare;

/// Characters of a uuid's canonical text.
const UUID_CHARS: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The integer whose text an id is.
pub fn integer(id: &str) -> Option<i64> {
    id.parse().ok().filter(|number: &i64| number.to_string() == id)
}

/// The uuid whose text an id is, as a number: numbers, uuids and their texts have one order.
pub fn uuid(id: &str) -> Option<u128> {
    let uuid = Uuid::try_parse(id).ok()?;
    (uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == id).then_some(uuid.as_u128())
}

/// The largest uuid whose text is not above a bound; `None`: all are.
pub(crate) fn last_uuid_within(bound: &str) -> Option<u128> {
    match bound.chars().count().cmp(&UUID_CHARS) {
        Ordering::Less => return None,
        Ordering::Greater => return Some(u128::MAX),
        Ordering::Equal => {}
    }
    // The digits of the bound as far as it is one: what begins with less is below it, what begins with more above it.
    let (mut digits, mut left) = (0_u128, 128);
    for (at, byte) in bound.bytes().enumerate() {
        let (low, high) = with_digits(digits, left);
        if HYPHENS.contains(&at) {
            match byte.cmp(&b'-') {
                Ordering::Less => return low.checked_sub(1),
                Ordering::Equal => continue,
                Ordering::Greater => return Some(high),
            }
        }
        match byte {
            b'0'..=b'9' => digits = digits << 4 | u128::from(byte - b'0'),
            b'a'..=b'f' => digits = digits << 4 | u128::from(byte - b'a' + 10),
            // Below every digit, between '9' and 'a', above every digit.
            ..b'0' => return low.checked_sub(1),
            b':'..b'a' => return Some(with_digits(digits << 4 | 9, left - 4).1),
            b'g'.. => return Some(high),
        }
        left -= 4;
    }
    Some(digits)
}

/// The first and the last number that begins with `digits`, and has `left` bits behind them.
fn with_digits(digits: u128, left: u32) -> (u128, u128) {
    let rest = |fill: u128| fill.checked_shr(128 - left).unwrap_or(0);
    let low = digits.checked_shl(left).unwrap_or(0);
    (low, low | rest(u128::MAX))
}

/// Whether a text can be an id: one that is empty, or longer than an id may be, can not.
pub fn is_id(text: &str) -> bool {
    !text.is_empty() && !crate::limits::is_longer_than(text, crate::limits::ID_CHARS)
}

/// Puts ids into their order, each once.
pub fn sort(ids: &mut Vec<&str>) {
    ids.sort_unstable_by(|a, b| compare(a, b));
    ids.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_range::SourceRange;
    use proptest::prelude::*;

    fn text(number: u128) -> String {
        Uuid::from_u128(number).to_string()
    }

    /// The same, found by comparing texts.
    fn last_by_comparison(bound: &str) -> Option<u128> {
        let within = |number: u128| compare(&text(number), bound).is_le();
        if !within(0) {
            return None;
        }
        let (mut low, mut high) = (0, u128::MAX);
        while low < high {
            let middle = high - (high - low) / 2;
            if within(middle) { low = middle } else { high = middle - 1 }
        }
        Some(low)
    }

    #[test]
    fn only_canonical_texts_are_of_a_key() {
        assert_eq!(integer("-7"), Some(-7));
        for id in ["007", "+7", "-0", "7 ", "9223372036854775808", ""] {
            assert_eq!(integer(id), None, "{id}");
        }
        assert_eq!(uuid("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), Some(0xa0eebc99_9c0b_4ef8_bb6d_6bb9bd380a11));
        for id in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "",
        ] {
            assert_eq!(uuid(id), None, "{id}");
        }
    }

    #[test]
    fn bounds_at_the_edges() {
        assert_eq!(last_uuid_within(&text(0)), Some(0));
        assert_eq!(last_uuid_within(&text(u128::MAX)), Some(u128::MAX));
        assert_eq!(last_uuid_within(&"g".repeat(36)), Some(u128::MAX));
        assert_eq!(last_uuid_within(&"-".repeat(36)), None);
        assert_eq!(last_uuid_within(&"é".repeat(36)), Some(u128::MAX));
        assert_eq!(last_uuid_within(&"f".repeat(35)), None);
        assert_eq!(last_uuid_within(&" ".repeat(37)), Some(u128::MAX));
        let range = SourceRange { above: Some(text(u128::MAX)), up_to: None };
        assert!(range.uuids().is_empty());
    }

    #[test]
    fn what_can_be_an_id() {
        assert!(is_id("é") && is_id(&"😀".repeat(128)));
        assert!(!is_id("") && !is_id(&"x".repeat(129)));
    }

    /// Texts that begin like a uuid and go on like one, but for a few characters.
    fn near_uuids() -> impl Strategy<Value = String> {
        let damaged = (any::<u128>(), 0_u32..129, proptest::collection::vec((0_usize..36, any::<char>()), 0..3));
        let damaged = damaged.prop_map(|(number, zeros, damages)| {
            let mut chars: Vec<char> = text(number.checked_shl(zeros).unwrap_or(0)).chars().collect();
            damages.into_iter().for_each(|(at, other)| chars[at] = other);
            chars.into_iter().collect::<String>()
        });
        prop_oneof![
            damaged,
            "[-0-9a-fA-G :/`gé\u{10000}]{34,38}",
            "[0f-]{36}",
            any::<u128>().prop_map(text),
            any::<String>()
        ]
    }

    proptest! {
        #[test]
        fn the_last_uuid_is_that_of_the_texts(bound in near_uuids()) {
            prop_assert_eq!(last_uuid_within(&bound), last_by_comparison(&bound));
        }

        #[test]
        fn uuids_are_those_whose_texts_lie_in_the_range(
            above in proptest::option::of(near_uuids()), up_to in proptest::option::of(near_uuids()), number: u128,
        ) {
            let near = [above.as_deref(), up_to.as_deref()].map(|bound| bound.and_then(last_by_comparison).unwrap_or(number));
            let range = SourceRange { above, up_to };
            for number in near.into_iter().flat_map(|n| [n.wrapping_sub(1), n, n.wrapping_add(1)]).chain([number, 0, u128::MAX]) {
                prop_assert_eq!(range.uuids().contains(&number), range.contains(&text(number)));
            }
        }

        #[test]
        fn numbers_have_the_order_of_their_texts(a: u128, b: u128) {
            prop_assert_eq!(compare(&text(a), &text(b)), a.cmp(&b));
            prop_assert_eq!(uuid(&text(a)), Some(a));
        }
    }
}
