//! Names for which calls wait, as hashes.

use zerocopy::FromBytes;

use crate::claim::Bucket;

/// A name for which calls wait, as hashes of its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes)]
pub struct QueuedName {
    /// Two names with one quick hash are woken together. It decides nothing.
    pub quick: u64,
    /// Decides whether two names are the same. Nobody can find two names with one exact hash.
    pub exact: [u64; 2],
}

impl QueuedName {
    /// Returns the hashes of a bucket of a database.
    pub fn of(database: u32, bucket: &Bucket) -> Self {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        hash.update(database.to_le_bytes());
        hash.update(bucket.bucket_type.to_le_bytes());
        hash.update(bucket.value.as_bytes());
        let digest = hash.finalize();
        let part = |at: usize| digest[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        QueuedName { quick: quick_hash(database, bucket), exact: [part(0), part(8)] }
    }
}

/// Returns the quick hash of a bucket of a database.
pub fn quick_hash(database: u32, bucket: &Bucket) -> u64 {
    use std::hash::Hasher;
    let mut hash = std::hash::DefaultHasher::new();
    hash.write_u32(database);
    hash.write_i32(bucket.bucket_type);
    hash.write(bucket.value.as_bytes());
    hash.finish()
}
