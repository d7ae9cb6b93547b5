//! Judges the history in the change feed by itself: the owner of every bucket at any time.

use super::event::State;
use super::judge::Final;
use std::collections::BTreeMap;

/// A change, as a reader gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedChange {
    pub xid: u64,
    pub id: i64,
    pub op: String,
    pub bucket: String,
    pub old: Option<i64>,
    pub new: Option<i64>,
}

impl FeedChange {
    fn position(&self) -> (u64, i64) {
        (self.xid, self.id)
    }
}

/// Returns the problems of a reader's pages. He must have read the whole feed in its order, and each change once. Every
/// bucket must have one owner at a time, and at the end the one in the table of claims.
pub fn judge_feed(pages: &[FeedChange], stored: &[FeedChange], end: &Final) -> Vec<String> {
    let mut problems = Vec::new();
    for pair in pages.windows(2).filter(|pair| pair[0].position() >= pair[1].position()) {
        problems.push(format!("the feed tells {:?} after {:?}", pair[1], pair[0]));
    }
    let by_position = |changes: &[FeedChange]| -> BTreeMap<(u64, i64), FeedChange> {
        changes.iter().map(|change| (change.position(), change.clone())).collect()
    };
    let (had, has) = (by_position(pages), by_position(stored));
    problems.extend(
        has.values()
            .filter(|change| !had.contains_key(&change.position()))
            .map(|missed| format!("the feed left out {missed:?}")),
    );
    problems.extend(
        had.values()
            .filter(|change| has.get(&change.position()) != Some(*change))
            .map(|odd| format!("the feed told what it does not have: {odd:?}")),
    );
    let mut by_bucket: BTreeMap<&str, Vec<&FeedChange>> = BTreeMap::new();
    pages.iter().for_each(|change| by_bucket.entry(&change.bucket).or_default().push(change));
    for (bucket, changes) in &mut by_bucket {
        // Of two changes of a bucket the later one has the greater id, whatever the order of their transactions.
        changes.sort_by_key(|change| change.id);
        let owner = changes.iter().fold(None, |owner, change| {
            if !follows(owner, change) {
                problems.push(format!("bucket {bucket}: {change:?} while its owner is {owner:?}"));
            }
            change.new
        });
        let shown = owner_of(end.claims.get(*bucket).copied().unwrap_or(State::Free));
        if owner != shown {
            problems.push(format!("bucket {bucket}: the feed ends with owner {owner:?}, the server shows {shown:?}"));
        }
    }
    let unheard =
        |(bucket, state): &(&String, &State)| owner_of(**state).is_some() && !by_bucket.contains_key(bucket.as_str());
    problems.extend(
        end.claims
            .iter()
            .filter(unheard)
            .map(|(bucket, state)| format!("bucket {bucket}: the server shows {state:?}, the feed has nothing")),
    );
    problems
}

/// Returns whether a change can come next.
fn follows(owner: Option<i64>, change: &FeedChange) -> bool {
    let kind_fits = match change.op.as_str() {
        "create" => change.old.is_none() && change.new.is_some(),
        "destroy" => change.old.is_some() && change.new.is_none(),
        "replace" => change.old.is_some() && change.old == change.new,
        "transfer" => change.old.is_some() && change.new.is_some() && change.old != change.new,
        _ => false,
    };
    kind_fits && change.old == owner
}

fn owner_of(state: State) -> Option<i64> {
    match state {
        State::Active(cell) | State::Destroying(cell) => Some(cell),
        State::Free | State::Creating(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(xid: u64, id: i64, op: &str, old: Option<i64>, new: Option<i64>) -> FeedChange {
        FeedChange { xid, id, op: op.to_string(), bucket: "a".to_string(), old, new }
    }

    fn ends_with(cell: Option<i64>) -> Final {
        Final { claims: cell.map(|cell| ("a".to_string(), State::Active(cell))).into_iter().collect() }
    }

    fn story() -> Vec<FeedChange> {
        vec![
            change(1, 1024, "create", None, Some(1)),
            change(2, 2048, "replace", Some(1), Some(1)),
            change(3, 3072, "transfer", Some(1), Some(2)),
            change(4, 5120, "create", None, Some(3)),
            change(5, 4096, "destroy", Some(2), None),
        ]
    }

    #[test]
    fn a_right_story_passes_also_where_an_older_transaction_did_the_later_change() {
        assert_eq!(judge_feed(&story(), &story(), &ends_with(Some(3))), Vec::<String>::new());
    }

    #[test]
    fn missing_repeated_and_unordered_changes_are_noticed() {
        for missed in 0..story().len() {
            let mut pages = story();
            pages.remove(missed);
            assert!(!judge_feed(&pages, &story(), &ends_with(Some(3))).is_empty(), "without {missed}");
            let mut twice = story();
            twice.insert(missed, story()[missed].clone());
            assert!(!judge_feed(&twice, &story(), &ends_with(Some(3))).is_empty(), "{missed} twice");
        }
        let mut swapped = story();
        swapped.swap(0, 1);
        assert!(!judge_feed(&swapped, &story(), &ends_with(Some(3))).is_empty());
    }

    #[test]
    fn two_owners_at_a_time_are_noticed() {
        let pages = vec![change(1, 1024, "create", None, Some(1)), change(2, 2048, "create", None, Some(2))];
        assert!(!judge_feed(&pages, &pages, &ends_with(Some(2))).is_empty());
        let pages = vec![change(1, 1024, "create", None, Some(1)), change(2, 2048, "destroy", None, None)];
        assert!(!judge_feed(&pages, &pages, &ends_with(None)).is_empty());
    }

    #[test]
    fn another_end_than_the_server_shows_is_noticed() {
        for end in [None, Some(2)] {
            assert!(!judge_feed(&story(), &story(), &ends_with(end)).is_empty());
        }
        assert!(!judge_feed(&[], &[], &ends_with(Some(1))).is_empty());
    }
}
