//! The source ids that the keys of a column can have.
//!
//! A source id is any text. The ids of a column of integers or uuids are the canonical texts of its values only:
//! '007' is the id of no integer.

use std::cmp::Ordering;

use uuid::Uuid;

/// Characters of a uuid's canonical text.
const UUID_CHARS: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The order of source ids.
pub fn compare(a: &str, b: &str) -> Ordering {
    // Bytewise comparison of texts of one length in characters.
    a.chars().count().cmp(&b.chars().count()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// The integer of which an id is the text.
pub fn integer(id: &str) -> Option<i64> {
    id.parse().ok().filter(|number: &i64| number.to_string() == id)
}

/// The uuid whose text an id is, as a number: numbers, uuids and their texts have one order.
pub fn uuid(id: &str) -> Option<u128> {
    let uuid = Uuid::try_parse(id).ok()?;
    (uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == id).then_some(uuid.as_u128())
}

/// The largest uuid whose text is not above a bound; `None`: all are.
pub fn last_uuid_within(bound: &str) -> Option<u128> {
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
