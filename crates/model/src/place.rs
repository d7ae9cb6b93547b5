//! The place from which a database acts for a cell. It distinguishes a database from a copy that has the same epoch.

use sha2::{Digest, Sha256};

/// The place of a database. Numbers are hashes, because only whether they are equal counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The server and its database, the machine and the directory. A crash, a restart and a promotion do not change it.
    pub id: i64,
    /// The server and its database, which physical copies and standbys have in common. Only within one lineage do timelines compare.
    pub lineage: i64,
    /// The timeline on which the server writes. A promotion begins a new one.
    pub timeline: i32,
}

impl Place {
    /// Returns the place of a database, by its identity, which copies have in common, and its location, which they have not.
    pub fn new(identity: &str, location: &str, timeline: i32) -> Place {
        let id = hash(&[identity.as_bytes(), b"\0", location.as_bytes()]);
        Place { id, lineage: hash(&[identity.as_bytes()]), timeline }
    }
}

fn hash(parts: &[&[u8]]) -> i64 {
    let digest = parts.iter().fold(Sha256::new(), |hasher, part| hasher.chain_update(part)).finalize();
    digest.iter().take(8).fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// The relation of a presenter's place to the acting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceRelation {
    /// Both are equal, or the service knows no acting place.
    Same,
    /// A later timeline: a standby that was promoted.
    Promoted,
    /// An earlier timeline: a primary whose standby was promoted.
    Outdated,
    /// A copy, or the same database that has moved.
    Elsewhere,
}

/// Compares the place of a presenter with the acting one. `None` is one that does not say where it is.
pub fn relation(acting: Option<Place>, presenter: Option<Place>) -> PlaceRelation {
    match (acting, presenter) {
        (None, _) => PlaceRelation::Same,
        (Some(acting), Some(presenter)) if acting.id == presenter.id => PlaceRelation::Same,
        (Some(acting), Some(presenter)) if acting.lineage == presenter.lineage => {
            match presenter.timeline.cmp(&acting.timeline) {
                std::cmp::Ordering::Greater => PlaceRelation::Promoted,
                std::cmp::Ordering::Less => PlaceRelation::Outdated,
                std::cmp::Ordering::Equal => PlaceRelation::Elsewhere,
            }
        }
        _ => PlaceRelation::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_where_its_files_are() {
        let here = Place::new("7/5", "a:/pg", 1);
        assert_eq!(relation(None, Some(here)), PlaceRelation::Same);
        assert_eq!(relation(Some(here), Some(Place::new("7/5", "a:/pg", 2))), PlaceRelation::Same);
        assert_eq!(relation(Some(here), Some(Place::new("7/5", "b:/pg", 1))), PlaceRelation::Elsewhere);
        assert_eq!(relation(Some(here), Some(Place::new("7/6", "a:/pg", 1))), PlaceRelation::Elsewhere);
        assert_eq!(relation(Some(here), None), PlaceRelation::Elsewhere);
    }

    #[test]
    fn timelines_compare_within_one_lineage() {
        let here = Place::new("7/5", "a:/pg", 2);
        assert_eq!(relation(Some(here), Some(Place::new("7/5", "b:/pg", 3))), PlaceRelation::Promoted);
        assert_eq!(relation(Some(here), Some(Place::new("7/5", "b:/pg", 1))), PlaceRelation::Outdated);
        assert_eq!(relation(Some(here), Some(Place::new("8/5", "b:/pg", 3))), PlaceRelation::Elsewhere);
    }
}
