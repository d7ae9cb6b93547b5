//! A limit on everything that a caller sends. All lengths are characters, not bytes.

/// Longest bucket value.
pub const BUCKET_VALUE_CHARS: usize = 1024;
/// Longest subject id or source id.
pub const ID_CHARS: usize = 128;
/// Longest name of a bucket, subject or source type.
pub const TYPE_NAME_CHARS: usize = 63;
/// Longest cursor that is looked at; longer ones are not ours.
pub const CURSOR_BYTES: usize = 16 * 1024;

/// Whether `text` is longer than `limit` characters, without counting further than needed.
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
}
