//! Limits on everything that a caller sends. Lengths are characters unless the name says bytes.

use crate::problem::Problem;

pub const BUCKET_VALUE_CHARS: usize = 1024;
/// The limit in bytes. An entry of the unique index holds at most 2,704 bytes, which include the other columns of the
/// key.
pub const BUCKET_VALUE_BYTES: usize = 2600;
/// The limit of a subject id or source id.
pub const ID_CHARS: usize = 128;
/// The limit of the name of a bucket, subject or source type.
pub const TYPE_NAME_CHARS: usize = 63;
/// The limit of the name or address of a cell.
pub const CELL_TEXT_CHARS: usize = 1024;
/// The largest attributes of a cell: their bytes as text, and their nesting.
pub const ATTRIBUTES_BYTES: usize = 64 * 1024;
pub const ATTRIBUTES_DEPTH: usize = 100;
/// The largest number of claims on either side of one comparison.
pub const MAX_COMPARED: usize = 100_000;
/// The limit of the reason of an admin action.
pub const REASON_CHARS: usize = 1000;
/// The limit of a kind of expiring claims, and of a queue of requests.
pub const KIND_CHARS: usize = 63;
/// The limit of a key of an expiring claim, and of the entity of a request. With four bytes per character, and together
/// with a kind or queue, they fit into an index entry.
pub const KEY_CHARS: usize = 512;
pub const CLAIMANT_CHARS: usize = 128;
pub const ERROR_CHARS: usize = 65_536;
/// The largest payload of a request: its bytes as text, and its nesting. Every backend must be able to read it, under
/// any settings, and together with other payloads.
pub const PAYLOAD_BYTES: usize = 64 * 1024 * 1024;
pub const PAYLOAD_DEPTH: usize = 1000;
/// The largest number of bytes of claims, leases or requests in one answer. An answer always has at least one row.
pub const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// The largest number of keys of expiring claims in one call.
pub const MAX_KEYS: usize = 100_000;
/// The longest cursor that is decoded. Longer ones are invalid.
pub const CURSOR_BYTES: usize = 16 * 1024;

/// Returns why a text is too long for a bucket value, or `None` if it is not.
pub fn bucket_value_excess(text: &str) -> Option<Problem> {
    if is_longer_than(text, BUCKET_VALUE_CHARS) {
        Some(Problem::TooLong { limit: BUCKET_VALUE_CHARS })
    } else if text.len() > BUCKET_VALUE_BYTES {
        Some(Problem::TooManyBytes { got: text.len(), limit: BUCKET_VALUE_BYTES })
    } else {
        None
    }
}

/// Returns whether `text` is longer than `limit` characters. It counts no more characters than necessary.
pub fn is_longer_than(text: &str, limit: usize) -> bool {
    // A character has one to four bytes, so the byte length decides for most texts.
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
