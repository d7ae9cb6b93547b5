//! Uuids of leases that are near their claims where the service's tables are distributed.
//!
//! A distributed table has its rows in shards, by ranges of the hash of one column: claims by their names, leases by their uuids. Tables with
//! equally many shards have those of one range on one node, as long as nobody moves them apart. So a cell draws a uuid whose hash begins
//! with the same bits as that of a name: the lease and the claim then are on one node, and its commit needs one phase instead of two. The
//! cell need not know whether the tables are distributed, nor over how many nodes.

use uuid::Uuid;

/// Number of bits of the hashes that agree: enough for a hundred shards.
const BITS: u32 = 7;

/// Maximum number of uuids to draw. That none fits happens once in three thousand times.
const DRAWN: u128 = 1024;

/// Returns a uuid like `new`, with other random bits, whose hash begins with the same bits as `wanted`.
pub fn uuid(new: Uuid, wanted: u32, hash: impl Fn(&[u8]) -> u32) -> Uuid {
    let mut drawn = (0..DRAWN).map(|number| Uuid::from_u128(new.as_u128() ^ number));
    let is_near = |uuid: &Uuid| (hash(uuid.as_bytes()) ^ wanted) >> (u32::BITS - BITS) == 0;
    drawn.find(is_near).unwrap_or(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Uuid = Uuid::from_u128(0x01a210e9_50bb_742e_b8d5_6d188c4abcde);

    /// FNV-1a.
    fn hash(bytes: &[u8]) -> u32 {
        bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    }

    #[test]
    fn its_hash_begins_like_the_wanted_one() {
        let mut found = 0;
        for wanted in (0..1000).map(|number: u32| hash(&number.to_be_bytes())) {
            let uuid = uuid(NEW, wanted, hash);
            assert_eq!(uuid.get_version_num(), 7);
            assert_eq!(uuid.as_u128() >> 10, NEW.as_u128() >> 10);
            found += u32::from(hash(uuid.as_bytes()) >> 25 == wanted >> 25);
        }
        assert!(found > 980, "{found}");
    }

    #[test]
    fn it_is_the_new_one_if_none_fits() {
        assert_eq!(uuid(NEW, u32::MAX, |_| 0), NEW);
        assert_eq!(uuid(NEW, 0, |_| 0), NEW);
    }
}
