//! Limits on everything that a caller sends. Lengths are characters unless the name says bytes.

use crate::problem::Problem;

/// Longest bucket value.
pub const BUCKET_VALUE_CHARS: usize = 1024;
/// And in bytes: an entry of the unique index holds at most 2,704, with what stands beside the value.
pub const BUCKET_VALUE_BYTES: usize = 2600;
/// Longest subject id or source id.
pub const ID_CHARS: usize = 128;
/// Longest name of a bucket, subject or source type.
pub const TYPE_NAME_CHARS: usize = 63;
/// Ids of types below this one are reserved.
pub const FIRST_FREE_TYPE: i32 = 100;
/// Longest name or address of a cell.
pub const CELL_TEXT_CHARS: usize = 1024;
/// Largest attributes of a cell, in bytes of text, and the deepest.
pub const ATTRIBUTES_BYTES: usize = 64 * 1024;
pub const ATTRIBUTES_DEPTH: usize = 100;
/// The most claims of one comparison, on either side.
pub const MAX_COMPARED: usize = 100_000;
/// Longest reason of an administrative act.
pub const REASON_CHARS: usize = 1000;
/// Longest kind of expiring claims, or queue of requests.
pub const KIND_CHARS: usize = 63;
/// Longest key of an expiring claim, or entity of a request: with four bytes a character, and together with a kind or queue,
/// they fit into an index entry.
pub const KEY_CHARS: usize = 512;
/// Longest claimant.
pub const CLAIMANT_CHARS: usize = 128;
/// Longest error of a request.
pub const ERROR_CHARS: usize = 65_536;
/// Largest payload of a request, in bytes of text, and its greatest depth: every back end must be able to read it, under any
/// settings, and together with others.
pub const PAYLOAD_BYTES: usize = 64 * 1024 * 1024;
pub const PAYLOAD_DEPTH: usize = 1000;
/// Bytes of claims, leases or requests that one answer holds; one row is always told.
pub const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Most keys of expiring claims in one call.
pub const MAX_KEYS: usize = 100_000;
/// Longest cursor that is decoded; longer ones are invalid.
pub const CURSOR_BYTES: usize = 16 * 1024;

/// Why a text is too long for a bucket value; `None`: it is not.
pub fn bucket_value_excess(text: &str) -> Option<Problem> {
    if is_longer_than(text, BUCKET_VALUE_CHARS) {
        Some(Problem::TooLong { limit: BUCKET_VALUE_CHARS })
    } else if text.len() > BUCKET_VALUE_BYTES {
        Some(Problem::TooManyBytes { got: text.len(), limit: BUCKET_VALUE_BYTES })
    } else {
        None
    }
}

/// Whether `text` is longer than `limit` characters, without counting more than necessary.
pub fn is_longer_than(text: &str, limit: usize) -> bool {
    // A character has at most four bytes and at least one: most texts are decided by their byte length.
    text.len() > limit && (text.len() > 4 * limit || text.chars().nth(limit).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_characters_not_bytes() {
        assert!(!is_longer_than(&"😀".repeat(1024), 1024));
        assert!(is_longer_than(&"😀".repeat(1025), 1024));
        assert!(is_longer_than(&"a".repeat(1025), 1024));
        assert!(!is_longer_than(&"a".repeat(1024), 1024));
        assert!(!is_longer_than("", 0));
    }

    #[test]
    fn bucket_values_are_bounded_in_characters_and_in_bytes() {
        assert_eq!(bucket_value_excess(&"a".repeat(1024)), None);
        assert_eq!(bucket_value_excess(&"a".repeat(1025)), Some(Problem::TooLong { limit: 1024 }));
        assert_eq!(bucket_value_excess(&"😀".repeat(1025)), Some(Problem::TooLong { limit: 1024 }));
        assert_eq!(bucket_value_excess(&"😀".repeat(650)), None);
        assert_eq!(bucket_value_excess(&"😀".repeat(651)), Some(Problem::TooManyBytes { got: 2604, limit: 2600 }));
    }
}
