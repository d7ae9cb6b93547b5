//! Tests the net changes of a transaction, also across savepoints.

use std::collections::BTreeMap;
use std::rc::Rc;

use claims_model::capture::{Capacity, Ends, Id, Log, NamedBucket, Sending, TooMany};
use claims_model::origin::Origin;
use claims_model::{Problem, Profile};
use proptest::prelude::*;

fn bucket(value: &str) -> NamedBucket {
    NamedBucket { bucket_type: Rc::from("ROUTES"), value: value.to_owned(), is_forbidden: false }
}

fn ends(id: i64) -> Ends {
    Ends {
        subject_type: Rc::from("GROUP"),
        subject_id: Some(Id::Number(id)),
        source_type: Rc::from("RAILS_TABLE_ROUTES"),
        display: None,
        source_id: Some(Id::Number(id)),
        origin: Origin::default(),
    }
}

fn doubled(log: &Log) -> Vec<NamedBucket> {
    log.pending().unwrap().doubled.into_iter().map(|create| create.bucket).collect()
}

/// Records a change of a type that has a service.
fn record(log: &mut Log, level: u32, bucket: NamedBucket, ends: Ends, by: i64) {
    if log.record(level, bucket, ends, by) {
        log.forget_excess(|_| true);
    }
}

fn added(log: &mut Log, level: u32, value: &str, id: i64) {
    record(log, level, bucket(value), ends(id), 1);
}

fn removed(log: &mut Log, level: u32, value: &str, id: i64) {
    record(log, level, bucket(value), ends(id), -1);
}

fn renamed(log: &mut Log, level: u32, id: i64, from: &str, to: &str) {
    removed(log, level, from, id);
    added(log, level, to, id);
}

fn send(log: &mut Log, level: u32) {
    let (sending, _) = log.begin_sending(level, |_| true).unwrap();
    log.mark_sent(sending, |_| false);
}

/// Formats the batch as `+created -destroyed`, in its order.
fn net(log: &Log) -> String {
    let pending = log.pending().unwrap();
    let creates = pending.creates.iter().map(|create| format!("+{}", create.bucket.value));
    let destroys = pending.destroys.iter().map(|destroy| format!("-{}", destroy.bucket.value));
    creates.chain(destroys).collect::<Vec<_>>().join(" ")
}

/// Like [`net`], with the ids of subject and source: `+a2 -a1`.
fn net_with_ids(log: &Log) -> String {
    let id = |ends: &Ends| match (&ends.subject_id, &ends.source_id) {
        (Some(Id::Number(subject)), Some(Id::Number(source))) if subject == source => subject.to_string(),
        other => format!("{other:?}"),
    };
    let pending = log.pending().unwrap();
    let creates = pending.creates.iter().map(|create| format!("+{}{}", create.bucket.value, id(&create.ends)));
    let destroys = pending.destroys.iter().map(|destroy| {
        format!("-{}{}", destroy.bucket.value, destroy.ends.iter().map(id).collect::<Vec<_>>().join("/"))
    });
    creates.chain(destroys).collect::<Vec<_>>().join(" ")
}

#[test]
fn rows_that_swap_names_replace_their_claims() {
    let mut log = Log::default();
    renamed(&mut log, 1, 1, "a", "b");
    assert_eq!(net_with_ids(&log), "+b1 -a1");
    renamed(&mut log, 1, 2, "b", "a");
    assert_eq!(net_with_ids(&log), "+a2 +b1 -a1 -b2");
    renamed(&mut log, 1, 1, "b", "a");
    renamed(&mut log, 1, 2, "a", "b");
    assert_eq!(net(&log), "");
}

#[test]
fn a_new_row_or_subject_on_an_old_bucket_is_a_replace() {
    let mut log = Log::default();
    removed(&mut log, 1, "a", 1);
    added(&mut log, 1, "a", 2);
    assert_eq!(net_with_ids(&log), "+a2 -a1");
    removed(&mut log, 1, "a", 2);
    assert_eq!(net_with_ids(&log), "-a1");
    added(&mut log, 1, "a", 1);
    assert_eq!(net(&log), "");
    let new_subject = Ends { subject_id: Some(Id::Number(7)), ..ends(1) };
    removed(&mut log, 1, "a", 1);
    log.record(1, bucket("a"), new_subject.clone(), 1);
    let pending = log.pending().unwrap();
    assert_eq!((&pending.creates[0].ends, &pending.destroys[0].ends), (&new_subject, &vec![ends(1)]));
}

#[test]
fn of_rows_that_had_one_bucket_each_may_have_the_claim() {
    let mut log = Log::default();
    removed(&mut log, 1, "a", 2);
    removed(&mut log, 1, "a", 1);
    assert_eq!(net_with_ids(&log), "-a1/2");
    added(&mut log, 1, "a", 3);
    assert_eq!(net_with_ids(&log), "+a3 -a1/2");
    added(&mut log, 1, "a", 4);
    assert_eq!(net_with_ids(&log), "+a3 -a1/2");
    added(&mut log, 1, "a", 5);
    assert_eq!(doubled(&log), [bucket("a")]);
}

#[test]
fn what_can_have_had_no_claim_is_not_given_up() {
    let gone = |value: &str, ends: Ends| {
        let mut log = Log::default();
        log.record(1, bucket(value), ends, -1);
        log.pending().unwrap()
    };
    let id = |text: &str| Some(Id::Text(text.to_owned()));
    for ends in [
        Ends { subject_id: None, ..ends(1) },
        Ends { source_id: None, ..ends(1) },
        Ends { source_id: id(""), ..ends(1) },
        Ends { subject_id: id(&"x".repeat(129)), ..ends(1) },
    ] {
        assert!(gone("a", ends.clone()).is_empty(), "{ends:?}");
    }
    assert!(gone("", ends(1)).is_empty());
    assert!(gone(&"x".repeat(1025), ends(1)).is_empty());
    assert!(!gone(&"x".repeat(1024), Ends { source_id: id(&"x".repeat(128)), ..ends(1) }).is_empty());
    // The row gets its subject only now.
    let mut log = Log::default();
    log.record(1, bucket("a"), Ends { subject_id: None, ..ends(1) }, -1);
    added(&mut log, 1, "a", 1);
    assert_eq!(net_with_ids(&log), "+a1");
    added(&mut log, 1, "a", 2);
    assert_eq!(doubled(&log), [bucket("a")]);
}

#[test]
fn a_new_bucket_has_its_last_subject() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    removed(&mut log, 1, "a", 1);
    added(&mut log, 1, "a", 2);
    assert_eq!(log.pending().unwrap().creates[0].ends, ends(2));
}

#[test]
fn one_of_two_rows_that_have_a_name_may_go() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    added(&mut log, 1, "a", 2);
    assert_eq!(log.pending().unwrap().creates[0].rows, 2);
    removed(&mut log, 1, "a", 1);
    let pending = log.pending().unwrap();
    assert_eq!((pending.creates[0].rows, &pending.creates[0].ends), (1, &ends(2)));
}

#[test]
fn too_many_are_an_answer_of_their_own() {
    let mut log = Log::with_capacity(Capacity { buckets: 2, bytes: 1000 });
    added(&mut log, 1, "a", 1);
    added(&mut log, 2, "b", 2);
    added(&mut log, 2, "c", 3);
    assert_eq!(log.pending(), Err(TooMany::Buckets));
    removed(&mut log, 2, "c", 3);
    assert_eq!(log.pending(), Err(TooMany::Buckets));
    log.roll_back(2);
    assert_eq!(net(&log), "+a");
    added(&mut log, 5, "b", 2);
    added(&mut log, 5, "c", 3);
    log.release(5, 1);
    assert_eq!(log.pending(), Err(TooMany::Buckets));
    assert_eq!(log.begin_sending(1, |_| true), Err(TooMany::Buckets));
    assert!(!log.is_sending() && !log.is_all_sent());
}

#[test]
fn the_bytes_of_all_texts_are_bounded() {
    let mut log = Log::with_capacity(Capacity { buckets: 100, bytes: 10 });
    let texts = |id: &str, display: Option<&str>| Ends {
        subject_id: Some(Id::Text(id.to_owned())),
        display: display.map(str::to_owned),
        ..ends(1)
    };
    record(&mut log, 1, bucket("four"), texts("two", Some("one")), 1);
    assert_eq!(net(&log), "+four");
    record(&mut log, 2, bucket("x"), ends(2), 1);
    assert_eq!(log.pending(), Err(TooMany::Bytes));
    log.roll_back(2);
    // Changes that cancel each other out do not count.
    record(&mut log, 1, bucket("four"), texts("two", Some("one")), -1);
    record(&mut log, 1, bucket("0123456789"), ends(3), 1);
    assert_eq!(net(&log), "+0123456789");
    // Changes that were sent do not count either.
    send(&mut log, 1);
    record(&mut log, 1, bucket("abcdefghij"), ends(4), 1);
    assert_eq!(net(&log), "+abcdefghij");
    record(&mut log, 1, bucket("k"), ends(5), 1);
    assert_eq!(log.pending(), Err(TooMany::Bytes));
    // A name that returns in another subtransaction counts there, too, until both are joined.
    log.roll_back(1);
    record(&mut log, 1, bucket("abcdef"), ends(4), 1);
    record(&mut log, 2, bucket("abcd"), ends(5), 1);
    log.release(2, 1);
    record(&mut log, 1, bucket("abcdef"), ends(4), -1);
    record(&mut log, 1, bucket("ghijkl"), ends(4), 1);
    assert_eq!(net(&log), "+abcd +ghijkl");
}

#[test]
fn what_is_captured_while_it_is_sent_stays_pending() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    let (sending, pending) = log.begin_sending(1, |_| true).unwrap();
    assert_eq!(pending.creates.len(), 1);
    assert!(log.is_sending());
    added(&mut log, 1, "b", 2);
    removed(&mut log, 1, "a", 1);
    log.mark_sent(sending, |_| false);
    assert!(!log.is_sending() && !log.is_all_sent());
    assert_eq!(net(&log), "+b -a");
    send(&mut log, 1);
    assert!(log.is_all_sent());
}

#[test]
fn a_sending_that_is_rolled_back_has_sent_nothing() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    let (sending, _) = log.begin_sending(2, |_| true).unwrap();
    log.roll_back(2);
    assert!(!log.is_sending());
    log.mark_sent(sending, |_| false);
    assert_eq!(net(&log), "+a");
    assert!(!log.is_all_sent());
}

#[test]
fn names_without_a_service_stay_pending() {
    let mut log = Log::default();
    let stays = |bucket_type: &str| bucket_type == "EMAILS";
    let email = |log: &mut Log, by| {
        record(log, 1, NamedBucket { bucket_type: Rc::from("EMAILS"), ..bucket("s1") }, ends(2), by);
    };
    added(&mut log, 1, "a", 1);
    email(&mut log, 1);
    let (sending, _) = log.begin_sending(2, |_| true).unwrap();
    added(&mut log, 2, "b", 3);
    log.mark_sent(sending, stays);
    assert_eq!(net(&log), "+s1 +b");
    // Neither is sent twice, nor lost, when the subtransaction that has sent is rolled back.
    log.roll_back(2);
    assert_eq!(net(&log), "+s1 +a");
    let (sending, _) = log.begin_sending(1, |_| true).unwrap();
    log.mark_sent(sending, stays);
    email(&mut log, -1);
    assert_eq!(net(&log), "");
    send(&mut log, 1);
    assert!(log.is_all_sent());
}

#[test]
fn a_name_that_is_too_long_is_no_bucket() {
    let named = |profile, name: &str| NamedBucket::named(Rc::from("ROUTES"), profile, name.to_owned());
    assert_eq!(named(Profile::Exact, &"a".repeat(1025)), Err(Problem::TooLong { limit: 1024 }));
    assert_eq!(named(Profile::Exact, &"😀".repeat(651)), Err(Problem::TooManyBytes { got: 2604, limit: 2600 }));
    assert!(named(Profile::Exact, &"a".repeat(1024)).is_ok());
    assert!(matches!(named(Profile::Casefold, &"A".repeat(1025)), Err(Problem::NameTooLong { .. })));
    // The service refuses a name that its profile forbids.
    assert!(named(Profile::Username, "a b").is_ok_and(|(bucket, _)| bucket.is_forbidden));
}

/// A step of a program with savepoints.
#[derive(Debug, Clone)]
enum Deed {
    Rename(usize, u8),
    Send,
    BeginSending,
    EndSending,
    Savepoint,
    Release,
    RollBack,
}

fn action() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (0..4usize, 0..6u8).prop_map(|(row, name)| Deed::Rename(row, name)),
        1 => Just(Deed::Send),
        1 => Just(Deed::BeginSending),
        2 => Just(Deed::EndSending),
        2 => Just(Deed::Savepoint),
        1 => Just(Deed::Release),
        1 => Just(Deed::RollBack),
    ]
}

/// The names of rows by number: the current ones, and those that were sent last.
type Sums = (Vec<u8>, Vec<u8>);

proptest! {
    /// Compares the batch with its definition: the current names with their rows, without those of the last sending,
    /// and vice versa.
    #[test]
    fn the_batch_is_the_difference_of_two_sets(actions in prop::collection::vec(action(), 0..60)) {
        let mut log = Log::default();
        let start: Sums = (vec![0, 1, 2, 3], vec![0, 1, 2, 3]);
        let mut stack: Vec<(u32, Sums)> = vec![(1, start)];
        let mut next_level = 2;
        // The savepoints at the start of the unfinished sending, and the names that it sends.
        let mut open: Option<(usize, Sending, Vec<u8>)> = None;
        for action in actions {
            let depth = stack.len();
            let (level, state) = stack.last_mut().unwrap();
            match action {
                Deed::Rename(row, name) => {
                    renamed(&mut log, *level, row as i64, &state.0[row].to_string(), &name.to_string());
                    state.0[row] = name;
                }
                Deed::Send if open.is_none() => {
                    send(&mut log, *level);
                    state.1 = state.0.clone();
                }
                Deed::BeginSending if open.is_none() => {
                    let (sending, _) = log.begin_sending(*level, |_| true).unwrap();
                    open = Some((depth, sending, state.0.clone()));
                }
                Deed::EndSending if open.as_ref().is_some_and(|(begun, ..)| *begun == depth) => {
                    if let Some((_, sending, names)) = open.take() {
                        log.mark_sent(sending, |_| false);
                        state.1 = names;
                    }
                }
                Deed::Savepoint => {
                    let copy = state.clone();
                    stack.push((next_level, copy));
                    next_level += 1;
                }
                // A sending ends in the savepoint in which it began.
                Deed::Release if depth > 1 && open.as_ref().is_none_or(|(begun, ..)| *begun < depth) => {
                    let (level, state) = stack.pop().unwrap();
                    let (parent, of_parent) = stack.last_mut().unwrap();
                    *of_parent = state;
                    log.release(level, *parent);
                }
                Deed::RollBack if depth > 1 => {
                    log.roll_back(stack.pop().unwrap().0);
                    open = open.filter(|(begun, ..)| *begun < depth);
                }
                _ => {}
            }
            let (_, (now, sent)) = stack.last().unwrap();
            let rows = |names: &[u8]| names.iter().zip(0..).fold(BTreeMap::new(), |mut rows, (name, row)| {
                rows.entry(name.to_string()).or_insert_with(Vec::new).push(row);
                rows
            });
            // Only the table knows names that several rows have, so the test is about names that at most one row has.
            let (now, sent): (BTreeMap<_, Vec<i64>>, BTreeMap<_, _>) = (rows(now), rows(sent));
            if now.values().chain(sent.values()).all(|rows| rows.len() == 1) {
                let without = |some: &BTreeMap<String, Vec<i64>>, others: &BTreeMap<String, Vec<i64>>, sign: &str| {
                    let left = some.iter().filter(|(name, rows)| others.get(*name) != Some(*rows));
                    left.map(|(name, rows)| format!("{sign}{name}{}", rows[0])).collect::<Vec<_>>()
                };
                let wanted = [without(&now, &sent, "+"), without(&sent, &now, "-")].concat().join(" ");
                prop_assert_eq!(net_with_ids(&log), wanted);
            }
        }
    }
}
