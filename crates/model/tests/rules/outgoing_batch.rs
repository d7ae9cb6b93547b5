//! Compares an outgoing batch with the batch that the service reads from its JSON.

use std::rc::Rc;

use claims_json::testing::Flat;
use claims_model::capture::{Ends, Id, Log, NamedBucket};
use claims_model::origin::Origin;
use claims_model::outgoing::Outgoing;
use claims_model::{Batch, Naming, Profile, StoredBatch, TypeTable, Types};
use proptest::prelude::*;
use serde_json::Value;

/// The types of the database, with ROUTES under a profile.
fn types(profile: Profile) -> Types {
    let table = |names: &[&str]| TypeTable::new((0..).zip(names.iter().map(|name| (*name).to_owned())));
    Types {
        bucket: table(&["UNSPECIFIED", "ROUTES", "EMAILS"]),
        subject: table(&["UNSPECIFIED", "GROUP", "USER"]),
        source: table(&["UNSPECIFIED", "RAILS_TABLE_ROUTES"]),
        naming: [(1, Naming { profile, ..Naming::default() })].into(),
    }
}

/// A row that has a name, as capture records it with the profile of that moment.
#[derive(Debug, Clone)]
struct Row {
    bucket_type: &'static str,
    name: String,
    subject_type: &'static str,
    subject: Option<Id>,
    source: Option<Id>,
    by: i64,
}

fn record(log: &mut Log, row: &Row, profile: Profile) {
    let profile = if row.bucket_type == "ROUTES" { profile } else { Profile::Exact };
    let Ok((bucket, display)) = NamedBucket::named(Rc::from(row.bucket_type), profile, row.name.clone()) else {
        return;
    };
    let ends = Ends {
        subject_type: Rc::from(row.subject_type),
        subject_id: row.subject.clone(),
        source_type: Rc::from("RAILS_TABLE_ROUTES"),
        source_id: row.source.clone(),
        display,
        origin: Origin::default(),
    };
    log.record(1, bucket, ends, row.by);
}

fn outgoing(rows: &[Row], profile: Profile) -> Outgoing {
    let mut log = Log::default();
    rows.iter().for_each(|row| record(&mut log, row, profile));
    Outgoing::new(log.pending().unwrap())
}

/// Returns whether the service takes the batch, after a comparison of what it reads with what the cell makes without JSON.
fn is_taken(outgoing: &Outgoing, types: &Types) -> bool {
    let (creates, destroys) = outgoing.json();
    let [creates, destroys] = [creates, destroys].map(|list| serde_json::from_str::<Value>(&list).unwrap());
    let read = Batch::read(&mut Flat::new(&creates), &mut Flat::new(&destroys), types, 100);
    let made = outgoing.batch(types);
    if let Some(made) = &made {
        assert_eq!(read.as_ref(), Ok(made));
        let stored = StoredBatch::of(made);
        assert_eq!(stored.claims(), made.claims());
        let names = |batch: &StoredBatch| (batch.creates.len(), batch.replaces.len(), batch.destroys.len());
        let replaced = made.changes_in_lock_order().iter().filter(|(_, claim)| claim.is_some()).count();
        assert_eq!(names(&stored), (made.creates.len() - replaced, replaced, made.destroys.len() - replaced));
    }
    made.is_some()
}

fn id() -> impl Strategy<Value = Option<Id>> {
    prop_oneof![
        8 => any::<i64>().prop_map(|number| Some(Id::Number(number))),
        8 => "[a-c]{1,3}".prop_map(|text| Some(Id::Text(text))),
        1 => Just(Some(Id::Text(String::new()))),
        1 => Just(Some(Id::Text("\u{e9}".repeat(129)))),
        1 => Just(Some(Id::Text("\u{e9}".repeat(128)))),
        1 => Just(None),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let bucket_type =
        prop_oneof![8 => Just("ROUTES"), 4 => Just("EMAILS"), 1 => Just("UNSPECIFIED"), 1 => Just("UNKNOWN")];
    let name = prop_oneof![12 => "[aAbB]{1,2}", 1 => Just(String::new()), 1 => Just("a//b".to_owned()), 1 => Just("x".repeat(1024))];
    let subject_type = prop_oneof![8 => Just("GROUP"), 8 => Just("USER"), 1 => Just("NOBODY")];
    let parts = (bucket_type, name, subject_type, id(), id(), prop_oneof![Just(1), Just(-1)]);
    parts.prop_map(|(bucket_type, name, subject_type, subject, source, by)| Row {
        bucket_type,
        name,
        subject_type,
        subject,
        source,
        by,
    })
}

proptest! {
    #[test]
    fn it_is_what_the_service_reads(rows in prop::collection::vec(row(), 1..6), captured in 0..3_usize, now in 0..3_usize) {
        let profiles = [Profile::Exact, Profile::Path, Profile::Casefold];
        is_taken(&outgoing(&rows, profiles[captured]), &types(profiles[now]));
    }

    #[test]
    fn every_valid_batch_is_made(names in prop::collection::btree_map("[aAbBcC]{1,3}", any::<bool>(), 1..6)) {
        let row = |(number, (name, is_new)): (usize, (&String, &bool))| Row {
            bucket_type: "ROUTES",
            name: name.clone(),
            subject_type: "GROUP",
            subject: Some(Id::Number(1)),
            source: Some(Id::Number(number as i64)),
            by: if *is_new { 1 } else { -1 },
        };
        let rows: Vec<_> = names.iter().enumerate().map(row).collect();
        let outgoing = outgoing(&rows, Profile::Path);
        prop_assert!(outgoing.is_empty() || is_taken(&outgoing, &types(Profile::Path)));
    }
}

#[test]
fn a_profile_that_has_changed_is_left_to_the_service() {
    let row = Row {
        bucket_type: "ROUTES",
        name: "Ada".to_owned(),
        subject_type: "GROUP",
        subject: Some(Id::Number(1)),
        source: Some(Id::Number(1)),
        by: 1,
    };
    let (exact, path) = (Profile::Exact, Profile::Path);
    let captured = |profile| outgoing(std::slice::from_ref(&row), profile);
    assert!(is_taken(&captured(exact), &types(exact)) && is_taken(&captured(path), &types(path)));
    assert!(!is_taken(&captured(exact), &types(path)));
}
