//! Tests source ids, their order, and the uuids of a range.

use claims_model::source_key::{compare, integer, is_id, last_uuid_within, uuid};
use claims_model::source_range::SourceRange;
use proptest::prelude::*;
use uuid::Uuid;

fn text(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

/// Like `last_uuid_within`, by comparing texts.
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
fn ids_are_neither_empty_nor_too_long() {
    assert!(is_id("é") && is_id(&"😀".repeat(128)));
    assert!(!is_id("") && !is_id(&"x".repeat(129)));
}

/// Generates texts that are uuids but for a few characters.
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
