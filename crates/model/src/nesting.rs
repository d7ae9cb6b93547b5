//! Lists whose entries end with subtransactions.
//!
//! The numbers of subtransactions increase within a transaction. So all subtransactions with the number of an open one or a larger one have
//! begun within it. Each entry has the number of the subtransaction that has added it, or of one into which that was released. Then the
//! entries since the beginning of a subtransaction are those at the end of the list that have at least its number: its rollback removes
//! exactly these, and its release need change none. Neither reads the rest of the list, however long it is.

/// Returns the position of the first entry that was added since an open subtransaction began.
pub fn first_since<T>(entries: &[T], subtransaction: u32, owner: impl Fn(&T) -> u32) -> usize {
    entries.iter().rposition(|entry| owner(entry) < subtransaction).map_or(0, |earlier| earlier + 1)
}

#[cfg(test)]
mod tests {
    use super::first_since;

    #[test]
    fn entries_since_a_beginning_are_at_the_end() {
        let first = |entries: &[u32], subtransaction| first_since(entries, subtransaction, |entry| *entry);
        assert_eq!((first(&[], 1), first(&[1, 1], 1), first(&[1, 1], 2)), (0, 0, 2));
        // 3 was released into 2, and 5 has begun after that.
        assert_eq!((first(&[1, 2, 3, 2, 5, 5], 5), first(&[1, 2, 3, 2, 5, 5], 2)), (4, 1));
    }
}
