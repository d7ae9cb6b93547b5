//! Places new ranges of ids in an id space.
//!
//! A range that follows the last one of its sequence without a gap costs that sequence nothing: only its maximum grows. So the
//! first range of a row reserves a block of ids, and later ones use that up.

/// The first and the last id of a range.
pub type Ids = (i64, i64);

/// The largest id of a space. An int8range stores the id after its last one.
pub const MAX_ID: i64 = i64::MAX - 1;

/// The largest default for the size of a block. A thousand blocks of it stay below 2^53, up to which JavaScript counts.
const MAX_DEFAULT_BLOCK: i64 = 1_000_000_000_000;
const DEFAULT_BLOCKS: i64 = 1000;

/// The bounds of a space, and the ids that are not reserved yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub first_id: i64,
    pub last_id: i64,
    pub block_size: i64,
    /// The first id of the next block, or `last_id` + 1.
    pub next_id: i64,
}

/// A range, with the `next_id` of the space after it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    pub first: i64,
    pub last: i64,
    pub next_id: i64,
    pub begins_block: bool,
}

impl Space {
    /// Returns the size of blocks where none is given.
    pub fn default_block(first_id: i64, last_id: i64) -> i64 {
        (last_id.saturating_sub(first_id) / DEFAULT_BLOCKS).clamp(1, MAX_DEFAULT_BLOCK)
    }

    /// Places up to `size` ids, at most up to `at_most`, directly after `follows`. `next_given` is the first id above `follows` that
    /// was given. Returns `None` if there is no room.
    pub fn following(&self, follows: i64, next_given: Option<i64>, size: i64, at_most: i64) -> Option<Placed> {
        let first = follows.checked_add(1).filter(|first| (self.first_id..=self.last_id).contains(first))?;
        let block_end = self.block_end(follows);
        // Blocks that nobody has reserved can be added to the last one.
        let free_to = if block_end >= self.next_id.saturating_sub(1) { self.last_id } else { block_end };
        let free_to = next_given.map_or(free_to, |given| free_to.min(given.saturating_sub(1)));
        self.placed(first, size, free_to.min(at_most), false)
    }

    /// Places up to `size` ids, at most up to `at_most`, in a new block.
    pub fn new_block(&self, size: i64, at_most: i64) -> Option<Placed> {
        self.placed(self.next_id, size, self.last_id.min(at_most), true)
    }

    /// Returns the first id of the block after an id.
    pub fn block_after(&self, id: i64) -> i64 {
        self.block_end(id).saturating_add(1)
    }

    fn placed(&self, first: i64, size: i64, free_to: i64, begins_block: bool) -> Option<Placed> {
        let last = first.saturating_add(size - 1).min(free_to);
        (first <= last).then(|| Placed { first, last, next_id: self.next_id.max(self.block_after(last)), begins_block })
    }

    /// Returns the last id of the block that contains an id.
    fn block_end(&self, id: i64) -> i64 {
        // The difference of two ids can exceed an i64.
        let block = (i128::from(id) - i128::from(self.first_id)).div_euclid(self.block_size.into());
        let end = i128::from(self.first_id) + (block + 1) * i128::from(self.block_size) - 1;
        i64::try_from(end.min(self.last_id.into())).unwrap_or(self.last_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(last_id: i64, block_size: i64) -> Space {
        Space { first_id: 1, last_id, block_size, next_id: 1 }
    }

    fn take(space: &mut Space, placed: Option<Placed>) -> Option<(i64, i64)> {
        placed.map(|placed| {
            space.next_id = placed.next_id;
            (placed.first, placed.last)
        })
    }

    #[test]
    fn ranges_of_one_row_follow_each_other_within_their_block() {
        let mut ids = space(1000, 100);
        let first = ids.new_block(40, MAX_ID);
        assert_eq!(take(&mut ids, first), Some((1, 40)));
        let other = ids.new_block(40, MAX_ID);
        assert_eq!(take(&mut ids, other), Some((101, 140)));
        let second = ids.following(40, Some(101), 40, MAX_ID);
        assert_eq!(take(&mut ids, second), Some((41, 80)));
        let rest = ids.following(80, Some(101), 40, MAX_ID);
        assert_eq!(take(&mut ids, rest), Some((81, 100)));
        assert_eq!(ids.following(100, Some(101), 40, MAX_ID), None);
        assert_eq!(ids.next_id, 201);
    }

    #[test]
    fn the_last_block_grows() {
        let mut ids = space(1000, 100);
        let first = ids.new_block(250, MAX_ID);
        assert_eq!(take(&mut ids, first), Some((1, 250)));
        assert_eq!(ids.next_id, 301);
        let second = ids.following(250, None, 100, MAX_ID);
        assert_eq!(take(&mut ids, second), Some((251, 350)));
        assert_eq!(ids.next_id, 401);
    }

    #[test]
    fn what_another_call_was_given_in_the_block_is_not_given_again() {
        let ids = Space { next_id: 101, ..space(1000, 100) };
        assert_eq!(ids.following(10, Some(11), 10, MAX_ID), None);
        assert_eq!(ids.following(10, Some(16), 10, MAX_ID).map(|placed| (placed.first, placed.last)), Some((11, 15)));
    }

    #[test]
    fn the_end_of_a_space_and_of_bigint() {
        let mut ids = space(150, 100);
        let first = ids.new_block(100, MAX_ID);
        assert_eq!(take(&mut ids, first), Some((1, 100)));
        let rest = ids.new_block(100, MAX_ID);
        assert_eq!(take(&mut ids, rest), Some((101, 150)));
        assert_eq!((ids.new_block(1, MAX_ID), ids.following(150, None, 1, MAX_ID), ids.next_id), (None, None, 151));
        let mut whole = Space { first_id: i64::MIN, last_id: MAX_ID, block_size: i64::MAX, next_id: i64::MIN };
        let mut last = None;
        for _ in 0..3 {
            let placed = whole.new_block(i64::MAX, MAX_ID);
            last = take(&mut whole, placed);
        }
        assert_eq!((last, whole.next_id), (Some((MAX_ID, MAX_ID)), i64::MAX));
        assert_eq!((whole.new_block(1, MAX_ID), whole.following(i64::MAX, None, 1, MAX_ID)), (None, None));
        assert_eq!(space(1000, 100).new_block(10, 5).map(|placed| placed.last), Some(5));
        assert_eq!(space(1000, 100).new_block(10, 0), None);
    }

    #[test]
    fn default_blocks() {
        assert_eq!(Space::default_block(1, MAX_ID), MAX_DEFAULT_BLOCK);
        assert_eq!(Space::default_block(1, i32::MAX.into()), 2_147_483);
        assert_eq!(Space::default_block(1, 10), 1);
        assert_eq!(Space::default_block(i64::MIN, MAX_ID), MAX_DEFAULT_BLOCK);
    }

    /// Gives ranges in all orders of a few calls, and checks that no id is given twice.
    #[test]
    fn no_id_is_given_twice() {
        for seed in 0..2000_u64 {
            let mut random = seed;
            let mut next = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            let mut ids = space(300, 1 + next(40) as i64);
            let mut given: Vec<(i64, i64)> = Vec::new();
            for _ in 0..30 {
                let size = 1 + next(30) as i64;
                let follows = if given.is_empty() { 0 } else { given[next(given.len() as u64) as usize].1 };
                let next_given = given.iter().map(|(first, _)| *first).filter(|first| *first > follows).min();
                let placed = if given.is_empty() { None } else { ids.following(follows, next_given, size, MAX_ID) };
                let placed = placed.or_else(|| ids.new_block(size, MAX_ID));
                let Some(range) = take(&mut ids, placed) else { continue };
                assert!(given.iter().all(|(first, last)| range.1 < *first || *last < range.0), "{given:?} {range:?}");
                assert!((1..=300).contains(&range.0) && range.1 <= 300 && range.1 < ids.next_id);
                given.push(range);
            }
        }
    }
}
