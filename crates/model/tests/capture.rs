//! What a transaction's changes come to, also across savepoints.

use std::collections::BTreeMap;
use std::rc::Rc;

use claims_model::capture::{Create, Ends, Id, Log, NamedBucket, TooMany, records_json};
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
    }
}

fn added(log: &mut Log, level: u32, value: &str, id: i64) {
    log.record(level, bucket(value), ends(id), 1);
}

fn removed(log: &mut Log, level: u32, value: &str, id: i64) {
    log.record(level, bucket(value), ends(id), -1);
}

fn renamed(log: &mut Log, level: u32, id: i64, from: &str, to: &str) {
    removed(log, level, from, id);
    added(log, level, to, id);
}

/// `+created -destroyed`, in the order of the batch.
fn net(log: &Log) -> String {
    let pending = log.pending().unwrap();
    let creates = pending.creates.iter().map(|create| format!("+{}", create.bucket.value));
    let destroys = pending.destroys.iter().map(|destroy| format!("-{}", destroy.bucket.value));
    creates.chain(destroys).collect::<Vec<_>>().join(" ")
}

#[test]
fn changes_of_one_row_are_netted() {
    let mut log = Log::default();
    renamed(&mut log, 1, 1, "a", "b");
    renamed(&mut log, 1, 1, "b", "c");
    assert_eq!(net(&log), "+c -a");
    renamed(&mut log, 1, 1, "c", "a");
    assert_eq!(net(&log), "");
}

/// The same with the ids of subject and source, `+a2 -a1`.
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
    assert_eq!(log.pending().unwrap().doubled, [bucket("a")]);
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
    // A row that gets its subject only now.
    let mut log = Log::default();
    log.record(1, bucket("a"), Ends { subject_id: None, ..ends(1) }, -1);
    added(&mut log, 1, "a", 1);
    assert_eq!(net_with_ids(&log), "+a1");
    added(&mut log, 1, "a", 2);
    assert_eq!(log.pending().unwrap().doubled, [bucket("a")]);
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
fn a_rolled_back_savepoint_leaves_no_trace() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    renamed(&mut log, 2, 1, "a", "b");
    added(&mut log, 3, "c", 3);
    log.release(3, 2);
    assert_eq!(net(&log), "+b +c");
    log.roll_back(2);
    assert_eq!(net(&log), "+a");
}

#[test]
fn a_released_savepoint_is_part_of_its_parent() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    renamed(&mut log, 2, 1, "a", "b");
    log.release(2, 1);
    renamed(&mut log, 1, 1, "b", "c");
    assert_eq!(net(&log), "+c");
}

#[test]
fn what_was_sent_is_not_sent_again() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    log.mark_sent(1);
    assert_eq!(net(&log), "");
    renamed(&mut log, 1, 1, "a", "b");
    assert_eq!(net(&log), "+b -a");
}

#[test]
fn rolling_back_over_the_sending_makes_it_pending_again() {
    let mut log = Log::default();
    added(&mut log, 1, "a", 1);
    added(&mut log, 2, "b", 2);
    log.mark_sent(2);
    added(&mut log, 2, "c", 3);
    assert_eq!(net(&log), "+c");
    log.roll_back(2);
    assert_eq!(net(&log), "+a");
    added(&mut log, 4, "d", 4);
    log.mark_sent(4);
    log.release(4, 1);
    assert_eq!(net(&log), "");
}

#[test]
fn too_many_are_an_answer_of_their_own() {
    let mut log = Log::with_limit(2);
    added(&mut log, 1, "a", 1);
    added(&mut log, 2, "b", 2);
    added(&mut log, 2, "c", 3);
    assert_eq!(log.pending(), Err(TooMany));
    removed(&mut log, 2, "c", 3);
    assert_eq!(log.pending(), Err(TooMany));
    log.roll_back(2);
    assert_eq!(net(&log), "+a");
    added(&mut log, 5, "b", 2);
    added(&mut log, 5, "c", 3);
    log.release(5, 1);
    assert_eq!(log.pending(), Err(TooMany));
    log.mark_sent(1);
    assert_eq!(net(&log), "");
}

fn creates_json(creates: &[Create]) -> String {
    records_json(creates.iter().map(|create| (&create.bucket, Some(&create.ends)))).unwrap()
}

#[test]
fn records_are_what_begin_update_takes() {
    let mut log = Log::default();
    added(&mut log, 1, "it's \\ \"é\"", i64::MAX);
    assert_eq!(
        creates_json(&log.pending().unwrap().creates),
        r#"[{"bucket":{"type":"ROUTES","value":"it's \\ \"é\""},"#.to_owned()
            + r#""subject":{"type":"GROUP","id":9223372036854775807},"#
            + r#""source":{"type":"RAILS_TABLE_ROUTES","rails_primary_key_id":9223372036854775807}}]"#
    );
}

#[test]
fn ids_that_are_texts_are_sent_as_texts() {
    let mut log = Log::default();
    let [subject_id, source_id] = ["42", "é\""].map(|id| Some(Id::Text(id.to_owned())));
    log.record(1, bucket("a"), Ends { subject_id, source_id, ..ends(0) }, 1);
    assert_eq!(
        creates_json(&log.pending().unwrap().creates),
        r#"[{"bucket":{"type":"ROUTES","value":"a"},"subject":{"type":"GROUP","id":"42"},"#.to_owned()
            + r#""source":{"type":"RAILS_TABLE_ROUTES","rails_primary_key_id":"é\""}}]"#
    );
}

/// What a program of savepoints does.
#[derive(Debug, Clone)]
enum Deed {
    Rename(usize, u8),
    Send,
    Savepoint,
    Release,
    RollBack,
}

fn action() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (0..4usize, 0..6u8).prop_map(|(row, name)| Deed::Rename(row, name)),
        1 => Just(Deed::Send),
        2 => Just(Deed::Savepoint),
        1 => Just(Deed::Release),
        1 => Just(Deed::RollBack),
    ]
}

/// Rows by number, and the names as they were sent last.
type Sums = (Vec<u8>, Vec<u8>);

proptest! {
    /// Against the definition: the names with their rows now, without those of the last sending, and the other way round.
    #[test]
    fn the_batch_is_the_difference_of_two_sets(actions in prop::collection::vec(action(), 0..60)) {
        let mut log = Log::default();
        let start: Sums = (vec![0, 1, 2, 3], vec![0, 1, 2, 3]);
        let mut stack: Vec<(u32, Sums)> = vec![(1, start)];
        let mut next_level = 2;
        for action in actions {
            let (level, state) = stack.last_mut().unwrap();
            match action {
                Deed::Rename(row, name) => {
                    renamed(&mut log, *level, row as i64, &state.0[row].to_string(), &name.to_string());
                    state.0[row] = name;
                }
                Deed::Send => {
                    log.mark_sent(*level);
                    state.1 = state.0.clone();
                }
                Deed::Savepoint => {
                    let copy = state.clone();
                    stack.push((next_level, copy));
                    next_level += 1;
                }
                Deed::Release if stack.len() > 1 => {
                    let (level, state) = stack.pop().unwrap();
                    let (parent, of_parent) = stack.last_mut().unwrap();
                    *of_parent = state;
                    log.release(level, *parent);
                }
                Deed::RollBack if stack.len() > 1 => log.roll_back(stack.pop().unwrap().0),
                _ => {}
            }
            let (_, (now, sent)) = stack.last().unwrap();
            let rows = |names: &[u8]| names.iter().zip(0..).fold(BTreeMap::new(), |mut rows, (name, row)| {
                rows.entry(name.to_string()).or_insert_with(Vec::new).push(row);
                rows
            });
            // Names that several rows have are only known by the table: this is about names that one row has at most.
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
