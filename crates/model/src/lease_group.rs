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

/// Returns the lowest and the highest uuid of the other leases of a group, or `None` if a lease cannot be the first one of a group.
pub fn others(lease: Uuid) -> Option<(Uuid, Uuid)> {
    let bits = lease.as_u128();
    (bits & NUMBER == 0).then(|| (Uuid::from_u128(bits | 1), Uuid::from_u128(bits | NUMBER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Uuid = Uuid::from_u128(0x01a210e9_50bb_742e_b8d5_6d188c4abcde);

    #[test]
    fn the_first_lease_leads_to_the_others() {
        let first = first(NEW);
        let (lowest, highest) = others(first).expect("it is a first one");
        assert_eq!(first.get_version_num(), 7);
        assert_eq!(member(first, 0), first);
        for position in [1, 2, 99, 200_000] {
            let member = member(first, position);
            assert!(lowest <= member && member <= highest);
            assert_eq!(others(member), None);
        }
    }

    #[test]
    fn groups_do_not_overlap() {
        let next = first(Uuid::from_u128(NEW.as_u128() + NUMBER));
        let (_, highest) = others(first(NEW)).expect("it is a first one");
        assert!(highest < next);
        assert_eq!(others(NEW), None);
    }
}
