//! Groups of leases: a transaction's changes that need several leases get uuids that follow each other. So the first one is enough to
//! find all of them.

use uuid::Uuid;

/// The bits of a uuid that number the members of a group.
const NUMBER: u128 = (1 << 20) - 1;

/// Returns the uuid of the first lease of a group. It is a new uuid with fewer random bits.
pub fn first(new: Uuid) -> Uuid {
    Uuid::from_u128(new.as_u128() & !NUMBER)
}

/// Returns the member of a group at a position, from 0. A transaction has fewer changes than a group can have members.
pub fn member(first: Uuid, position: usize) -> Uuid {
    Uuid::from_u128(first.as_u128() | (position as u128 & NUMBER))
}

/// Returns the lowest and the highest uuid that a lease of the same group can have.
pub fn bounds(lease: Uuid) -> (Uuid, Uuid) {
    (Uuid::from_u128(lease.as_u128() & !NUMBER), Uuid::from_u128(lease.as_u128() | NUMBER))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Uuid = Uuid::from_u128(0x01a210e9_50bb_742e_b8d5_6d188c4abcde);

    #[test]
    fn the_first_lease_leads_to_the_others() {
        let first = first(NEW);
        let (lowest, highest) = bounds(first);
        assert_eq!(first.get_version_num(), 7);
        assert_eq!(member(first, 0), first);
        for position in [1, 2, 99, 200_000] {
            let member = member(first, position);
            assert!(lowest <= member && member <= highest);
            assert_eq!(bounds(member), (lowest, highest));
        }
    }

    #[test]
    fn groups_do_not_overlap() {
        let next = first(Uuid::from_u128(NEW.as_u128() + NUMBER));
        let (_, highest) = bounds(first(NEW));
        assert!(highest < next);
    }
}
