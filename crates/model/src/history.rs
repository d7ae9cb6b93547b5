//! The keys by which histories find the rows of the audit log.

use crate::hash::fnv1a;

/// Returns the key of a name.
pub fn name_key(bucket_type: i32, value: &str) -> i64 {
    key(b'n', bucket_type, value)
}

/// Returns the key of a subject.
pub fn subject_key(subject_type: i32, id: &str) -> i64 {
    key(b's', subject_type, id)
}

/// Returns a hash that is the same in every version. Different values may have one: the reader compares the values, too.
fn key(kind: u8, type_id: i32, value: &str) -> i64 {
    let type_id = type_id.to_le_bytes();
    fnv1a([kind].into_iter().chain(type_id).chain(value.bytes())).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::{name_key, subject_key};

    #[test]
    fn a_key_depends_on_kind_type_and_value() {
        let keys = [name_key(4, "7"), subject_key(4, "7"), name_key(5, "7"), name_key(4, "8")];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
    }

    #[test]
    fn keys_are_stored_so_they_never_change() {
        assert_eq!(name_key(1, "gitlab-org"), NAME);
        assert_eq!(subject_key(4, "42"), SUBJECT);
    }

    const NAME: i64 = -4_116_547_263_765_662_772;
    const SUBJECT: i64 = -5_817_623_387_746_822_772;
}
