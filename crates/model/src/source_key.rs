//! The source ids that the keys of a column can have.
//!
//! A source id is any text. The ids of a column of integers or uuids are the canonical texts of its values only: '007'
//! is the id of no integer.

use std::cmp::Ordering;

use uuid::Uuid;

const UUID_CHARS: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Compares source ids: by length in characters, then bytewise.
pub fn compare(a: &str, b: &str) -> Ordering {
    a.chars().count().cmp(&b.chars().count()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// Returns the integer whose canonical text is the id.
pub fn integer(id: &str) -> Option<i64> {
    id.parse().ok().filter(|number: &i64| number.to_string() == id)
}

/// Returns the uuid whose canonical text is the id, as a number. Uuids, their numbers and their texts have one order.
pub fn uuid(id: &str) -> Option<u128> {
    let uuid = Uuid::try_parse(id).ok()?;
    (uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == id).then_some(uuid.as_u128())
}

/// Returns the largest uuid whose text is not above a bound, or `None` if all are above it.
pub fn last_uuid_within(bound: &str) -> Option<u128> {
    match bound.chars().count().cmp(&UUID_CHARS) {
        Ordering::Less => return None,
        Ordering::Greater => return Some(u128::MAX),
        Ordering::Equal => {}
    }
    // Collect the digits of the bound until it differs from every uuid. There all uuids that begin with these digits
    // are below the bound, or all are above it.
    let (mut digits, mut rest_bits) = (0_u128, 128);
    for (at, byte) in bound.bytes().enumerate() {
        let (low, high) = with_digits(digits, rest_bits);
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
            b':'..b'a' => return Some(with_digits(digits << 4 | 9, rest_bits - 4).1),
            b'g'.. => return Some(high),
        }
        rest_bits -= 4;
    }
    Some(digits)
}

/// Returns the first and the last number that begin with `digits` and have `rest_bits` more bits.
fn with_digits(digits: u128, rest_bits: u32) -> (u128, u128) {
    let rest = |fill: u128| fill.checked_shr(128 - rest_bits).unwrap_or(0);
    let low = digits.checked_shl(rest_bits).unwrap_or(0);
    (low, low | rest(u128::MAX))
}

/// Returns whether a text can be an id: neither empty nor too long.
pub fn is_id(text: &str) -> bool {
    !text.is_empty() && !crate::limits::is_longer_than(text, crate::limits::ID_CHARS)
}

/// Sorts ids and removes duplicates.
pub fn sort(ids: &mut Vec<&str>) {
    ids.sort_unstable_by(|a, b| compare(a, b));
    ids.dedup();
}
