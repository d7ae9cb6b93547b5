//! Tests what a log forgets when a transaction changes too many names: first those of types without a service.

use std::rc::Rc;

use claims_model::capture::{Capacity, Ends, Id, Log, NamedBucket, Pending, TooMany};
use claims_model::origin::Origin;
use proptest::prelude::*;

/// The type that has a service, and those that have none.
const ROUTED: &str = "EMAILS";
const UNROUTED: [&str; 2] = ["ROUTES", "USERNAMES"];

fn bucket(bucket_type: &str, value: usize) -> NamedBucket {
    NamedBucket { bucket_type: Rc::from(bucket_type), value: value.to_string(), is_forbidden: false }
}

fn ends() -> Ends {
    let id = Some(Id::Number(1));
    let (subject_type, source_type) = (Rc::from("USER"), Rc::from("RAILS_TABLE_USERS"));
    Ends { subject_type, subject_id: id.clone(), source_type, source_id: id, display: None, origin: Origin::default() }
}

fn is_routed(bucket_type: &str) -> bool {
    bucket_type == ROUTED
}

fn record(log: &mut Log, level: u32, bucket: NamedBucket, by: i64) {
    if log.record(level, bucket, ends(), by) {
        log.forget_excess(is_routed);
    }
}

fn log_of(buckets: usize) -> Log {
    Log::with_capacity(Capacity { buckets, bytes: 1_000_000 })
}

/// Formats the changes of some types.
fn changes(pending: &Pending, of: impl Fn(&str) -> bool) -> Vec<String> {
    let creates = pending.creates.iter().map(|create| ('+', &create.bucket));
    let all = creates.chain(pending.destroys.iter().map(|destroy| ('-', &destroy.bucket)));
    let chosen = all.filter(|(_, bucket)| of(&bucket.bucket_type));
    chosen.map(|(sign, bucket)| format!("{sign}{} {}", bucket.bucket_type, bucket.value)).collect()
}

#[test]
fn names_without_a_service_do_not_count_against_those_with_one() {
    let mut log = log_of(3);
    record(&mut log, 1, bucket(ROUTED, 0), 1);
    (0..10).for_each(|value| record(&mut log, 1, bucket("ROUTES", value), 1));
    record(&mut log, 1, bucket(ROUTED, 1), 1);
    assert_eq!(changes(&log.pending_for(is_routed).unwrap(), |_| true), ["+EMAILS 0", "+EMAILS 1"]);
    // A call that needs all of them gets an error, and so does automatic mode once the type has a service.
    assert_eq!(log.pending(), Err(TooMany::Buckets));
    assert_eq!(log.begin_sending(1, |bucket_type| bucket_type == "ROUTES"), Err(TooMany::Buckets));
    // A type of which nothing was forgotten is complete.
    record(&mut log, 1, bucket("USERNAMES", 0), 1);
    assert_eq!(changes(&log.pending_for(|other| other == "USERNAMES").unwrap(), |_| true).len(), 3);
    // What was forgotten stays so after a sending, and after changes of the same names.
    let (sending, pending) = log.begin_sending(1, is_routed).unwrap();
    assert_eq!(pending.creates.len(), 3);
    log.mark_sent(sending, |bucket_type| !is_routed(bucket_type));
    (0..10).for_each(|value| record(&mut log, 1, bucket("ROUTES", value), -1));
    assert_eq!(log.pending(), Err(TooMany::Buckets));
    assert_eq!(changes(&log.pending_for(is_routed).unwrap(), |_| true), ["+USERNAMES 0"]);
    assert!(!log.is_all_sent());
}

#[test]
fn too_many_names_with_a_service_are_an_error_as_before() {
    let mut log = log_of(3);
    (0..3).for_each(|value| record(&mut log, 1, bucket(ROUTED, value), 1));
    record(&mut log, 1, bucket("ROUTES", 0), 1);
    assert_eq!(log.pending_for(is_routed).unwrap().creates.len(), 3);
    record(&mut log, 2, bucket(ROUTED, 3), 1);
    assert_eq!(log.pending_for(is_routed), Err(TooMany::Buckets));
    log.roll_back(2);
    assert_eq!(log.pending_for(is_routed).unwrap().creates.len(), 3);
}

#[test]
fn the_rollback_of_a_savepoint_brings_back_what_was_forgotten_for_it() {
    let mut log = log_of(3);
    record(&mut log, 1, bucket("ROUTES", 0), 1);
    (1..9).for_each(|value| record(&mut log, 2, bucket("ROUTES", value), 1));
    assert_eq!(log.pending(), Err(TooMany::Buckets));
    log.roll_back(2);
    assert_eq!(changes(&log.pending().unwrap(), |_| true), ["+ROUTES 0"]);
    (1..9).for_each(|value| record(&mut log, 3, bucket("ROUTES", value), 1));
    log.release(3, 1);
    assert_eq!(log.pending(), Err(TooMany::Buckets));
    // If that does not make room enough, changes from before the savepoint are forgotten, too.
    let mut log = log_of(3);
    (0..3).for_each(|value| record(&mut log, 1, bucket("ROUTES", value), 1));
    record(&mut log, 2, bucket(ROUTED, 0), 1);
    assert_eq!(changes(&log.pending_for(is_routed).unwrap(), |_| true), ["+EMAILS 0"]);
    log.roll_back(2);
    assert_eq!(log.pending(), Err(TooMany::Buckets));
}

/// Names of the type that has a service. Each level of savepoints can change all of them within the capacity.
const NAMES: usize = 3;
const DEPTH: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Deed {
    Change(Option<usize>, usize, bool),
    Send,
    Savepoint,
    Release,
    RollBack,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..NAMES, any::<bool>()).prop_map(|(value, is_added)| Deed::Change(None, value, is_added)),
        8 => (0..2usize, 0..30usize, any::<bool>()).prop_map(|(of, value, is_added)| Deed::Change(Some(of), value, is_added)),
        1 => Just(Deed::Send),
        2 => Just(Deed::Savepoint),
        1 => Just(Deed::Release),
        1 => Just(Deed::RollBack),
    ]
}

proptest! {
    /// Compares a log with one that forgets nothing: names with a service are never forgotten, and whatever set of types a call needs, it
    /// gets the same changes or an error.
    #[test]
    fn no_call_misses_changes_that_were_forgotten(deeds in prop::collection::vec(deed(), 0..80)) {
        // A sending that is rolled back can leave the changes of a level in two entries, and a name counts in each of them.
        let sendings = deeds.iter().filter(|deed| matches!(deed, Deed::Send)).count();
        let (mut log, mut whole) = (log_of(NAMES * DEPTH * (1 + sendings)), log_of(usize::MAX));
        let (mut levels, mut next) = (vec![1_u32], 2);
        for deed in deeds {
            let level = *levels.last().unwrap();
            match deed {
                Deed::Change(of, value, is_added) => {
                    let bucket = bucket(of.map_or(ROUTED, |of| UNROUTED[of]), value);
                    let by = if is_added { 1 } else { -1 };
                    record(&mut log, level, bucket.clone(), by);
                    record(&mut whole, level, bucket, by);
                }
                Deed::Send => for log in [&mut log, &mut whole] {
                    let (sending, _) = log.begin_sending(level, is_routed).unwrap();
                    log.mark_sent(sending, |bucket_type| !is_routed(bucket_type));
                },
                Deed::Savepoint if levels.len() < DEPTH => {
                    levels.push(next);
                    next += 1;
                }
                Deed::Release if levels.len() > 1 => {
                    levels.pop();
                    [&mut log, &mut whole].into_iter().for_each(|log| log.release(level, *levels.last().unwrap()));
                }
                Deed::RollBack if levels.len() > 1 => {
                    levels.pop();
                    [&mut log, &mut whole].into_iter().for_each(|log| log.roll_back(level));
                }
                _ => {}
            }
            prop_assert!(log.pending_for(is_routed).is_ok());
            for needed in [&[ROUTED] as &[&str], &UNROUTED[..1], &UNROUTED[1..], &UNROUTED] {
                let is_needed = |bucket_type: &str| needed.contains(&bucket_type);
                if let Ok(pending) = log.pending_for(is_needed) {
                    let wanted = changes(&whole.pending_for(is_needed).unwrap(), is_needed);
                    prop_assert_eq!(changes(&pending, is_needed), wanted);
                }
            }
        }
    }
}
