//! What the unique index holds of a bucket value. The same as `claims.bucket_key()` in SQL, which explains why.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Values up to this many bytes stand for themselves.
const WHOLE_BYTES: usize = 2048;

/// The key of a value: the value itself, or its SHA-256 in hex, padded beyond the length of every value that is its own
/// key.
pub fn bucket_key(value: &str) -> Cow<'_, str> {
    if value.len() <= WHOLE_BYTES {
        return Cow::Borrowed(value);
    }
    let mut key = String::with_capacity(WHOLE_BYTES + 1);
    for byte in Sha256::digest(value.as_bytes()) {
        // Writing into a String cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key.extend(std::iter::repeat_n('-', WHOLE_BYTES + 1 - key.len()));
    Cow::Owned(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_are_their_own_key() {
        assert_eq!(bucket_key(&"a".repeat(2048)), "a".repeat(2048));
    }

    #[test]
    fn long_values_have_a_key_that_no_value_is() {
        let key = bucket_key(&"😀".repeat(1024)).into_owned();
        assert_eq!(key.len(), 2049);
        assert_ne!(bucket_key(&key), key);
        assert_ne!(key, bucket_key(&"😀".repeat(1023)));
    }
}
