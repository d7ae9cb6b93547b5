//! Tests the form of a batch, and its normalized form.

use claims_json::testing::Flat;
use claims_model::payload::{compared_text, request_digest};
use claims_model::{BadInput, Batch, Bucket, Problem, StoredBatch, TypeTable, Types};
use proptest::prelude::*;
use serde_json::{Value, json};

fn types() -> Types {
    let table = |names: &[&str]| TypeTable::new((0..).zip(names.iter().map(|name| (*name).to_owned())));
    Types {
        bucket: table(&["UNSPECIFIED", "ROUTES", "ORGANIZATION_PATH"]),
        subject: table(&["UNSPECIFIED", "ORGANIZATION", "GROUP"]),
        source: table(&["UNSPECIFIED", "RAILS_TABLE_USERS", "RAILS_TABLE_EMAILS", "RAILS_TABLE_ROUTES"]),
        ..Types::default()
    }
}

const MAX_RECORDS: usize = 10;

fn read<'a>(creates: &'a Value, destroys: &'a Value, types: &Types) -> Result<Batch<'a>, BadInput> {
    Batch::read(&mut Flat::new(creates), &mut Flat::new(destroys), types, MAX_RECORDS)
}

fn record(value: &str) -> Value {
    json!({
        "bucket": {"type": "ROUTES", "value": value},
        "subject": {"type": "GROUP", "id": 9970},
        "source": {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": 1}
    })
}

/// Returns the path and the problem of a batch whose one record `change` has changed.
fn problem_of(change: impl FnOnce(&mut Value)) -> (String, Problem) {
    let mut bad = record("x");
    change(&mut bad);
    let creates = json!([record("first"), bad]);
    let error = read(&creates, &json!([]), &types()).expect_err("must be refused");
    (error.path, error.problem)
}

/// A path within the record, the problem that is reported there, and the function that gives a valid record this problem.
type Damage = (&'static str, Problem, fn(&mut Value));

#[test]
fn each_malformed_form_has_its_path() {
    let wrong = |wanted, got| Problem::WrongType { wanted, got };
    let cases: Vec<Damage> = vec![
        ("", wrong("an object", "a string"), |r| *r = json!("x")),
        ("", wrong("an object", "null"), |r| *r = Value::Null),
        ("", wrong("an object", "an array"), |r| *r = json!([])),
        (".bucket", Problem::Missing, |r| drop(r.as_object_mut().map(|o| o.remove("bucket")))),
        (".subject", Problem::Missing, |r| drop(r.as_object_mut().map(|o| o.remove("subject")))),
        (".source", Problem::Missing, |r| drop(r.as_object_mut().map(|o| o.remove("source")))),
        (".bucket.value", wrong("a string", "a number"), |r| r["bucket"]["value"] = json!(1)),
        (".bucket.value", wrong("a string", "null"), |r| r["bucket"]["value"] = Value::Null),
        (".bucket.value", wrong("a string", "an object"), |r| r["bucket"]["value"] = json!({"a": [1]})),
        (".bucket.value", Problem::Empty, |r| r["bucket"]["value"] = json!("")),
        (".bucket.value", Problem::TooLong { limit: 1024 }, |r| r["bucket"]["value"] = json!("😀".repeat(1025))),
        (".subject.id", Problem::TooLong { limit: 128 }, |r| r["subject"]["id"] = json!("1".repeat(129))),
        (".subject.id", Problem::NotAnInteger { got: "1.5".into() }, |r| r["subject"]["id"] = json!(1.5)),
        (".subject.id", Problem::NotAnInteger { got: "9223372036854775808".into() }, |r| {
            r["subject"]["id"] = json!(9_223_372_036_854_775_808_u64)
        }),
        (".subject.id", wrong("a string or a number", "a boolean"), |r| r["subject"]["id"] = json!(true)),
        (".bucket.type", Problem::Unspecified { kind: "bucket" }, |r| r["bucket"]["type"] = json!("UNSPECIFIED")),
        (".subject.type", Problem::Unspecified { kind: "subject" }, |r| r["subject"]["type"] = json!(0)),
        (".source.type", Problem::UnknownType { kind: "source", got: "NONE".into() }, |r| {
            r["source"]["type"] = json!("NONE")
        }),
        (".source.type", Problem::UnknownType { kind: "source", got: "-1".into() }, |r| {
            r["source"]["type"] = json!(-1)
        }),
        (".more", Problem::UnknownKey { allowed: "bucket, subject, source" }, |r| r["more"] = json!(1)),
        (".bucket.kind", Problem::UnknownKey { allowed: "type, value" }, |r| r["bucket"]["kind"] = json!(1)),
        (".source.id", Problem::TwoSpellings { first: "rails_primary_key_id".into() }, |r| {
            r["source"]["id"] = json!(1)
        }),
        (".bucket", Problem::Duplicate { first: "create_records[0].bucket".into() }, |r| {
            r["bucket"]["value"] = json!("first")
        }),
    ];
    for (path, problem, change) in cases {
        let found = problem_of(change);
        // The order of the keys in the object decides which of two spellings is the second.
        if let (Problem::TwoSpellings { .. }, (at, Problem::TwoSpellings { .. })) = (&problem, &found) {
            assert!(at.starts_with("create_records[1].source."), "{at}");
            continue;
        }
        assert_eq!(found, (format!("create_records[1]{path}"), problem));
    }
}

#[test]
fn limits_count_both_lists_and_an_empty_batch_is_refused() {
    let types = types();
    let many =
        |prefix: &str, count: usize| Value::Array((0..count).map(|at| record(&format!("{prefix}{at}"))).collect());
    assert!(read(&many("a", 6), &many("b", 4), &types).is_ok());
    let error = read(&many("a", 6), &many("b", 5), &types).expect_err("eleven are too many");
    assert_eq!(error, BadInput::new("destroy_records", Problem::TooManyRecords { got: 11, limit: 10 }));
    let error = read(&json!([]), &json!([]), &types).expect_err("nothing is too few");
    assert_eq!(error.problem, Problem::EmptyBatch);
    let (creates, destroys) = (json!([record("a")]), json!([record("b"), record("a"), record("b")]));
    let twice = Problem::Duplicate { first: "destroy_records[0].bucket".into() };
    assert_eq!(read(&creates, &destroys, &types), Err(BadInput::new("destroy_records[2].bucket", twice)));
}

#[test]
fn a_destroy_needs_its_bucket_and_what_else_it_names_is_whole() {
    let types = types();
    let creates = json!([]);
    let wrong = |wanted, got| Problem::WrongType { wanted, got };
    for (part, value, place, problem) in [
        ("subject", json!(null), "destroy_records[0].subject", wrong("an object", "null")),
        ("source", json!(1.5), "destroy_records[0].source", wrong("an object", "a number")),
        ("subject", json!({"type": "GROUP"}), "destroy_records[0].subject.id", Problem::Missing),
        ("source", json!({"id": 1}), "destroy_records[0].source.type", Problem::Missing),
    ] {
        let destroys = json!([{"bucket": {"type": 1, "value": "x"}, part: value}]);
        assert_eq!(read(&creates, &destroys, &types), Err(BadInput::new(place, problem)));
    }
    let destroys = json!([{"bucket": {"type": 1, "value": "x"}}]);
    let batch = read(&creates, &destroys, &types).expect("is well formed");
    assert_eq!(batch.destroys[0].bucket.value, "x");
}

#[test]
fn a_bucket_in_both_lists_is_one_claim_that_is_replaced() {
    let types = types();
    let (creates, destroys) = (json!([record("b"), record("a")]), json!([record("c"), record("b")]));
    let batch = read(&creates, &destroys, &types).expect("is well formed");
    let values =
        |buckets: Vec<&Bucket>| buckets.iter().map(|bucket| bucket.value.clone().into_owned()).collect::<Vec<_>>();
    assert_eq!(batch.claims(), 3);
    assert_eq!(values(batch.creates_in_lock_order().iter().map(|claim| &claim.bucket).collect()), ["a"]);
    assert_eq!(values(batch.destroys_in_lock_order().iter().map(|destroy| &destroy.bucket).collect()), ["b", "c"]);
    assert_eq!(values(batch.buckets().collect()), ["a", "c", "b"]);
    let stored = StoredBatch::read(&mut Flat::new(&creates), &mut Flat::new(&destroys), &types).expect("can be read");
    assert_eq!(stored.claims(), 3);
    assert_eq!(values(stored.creates.iter().collect()), ["a"]);
    assert_eq!(values(stored.destroys.iter().collect()), ["c"]);
    assert_eq!(stored.replaces, [batch.creates[0].clone()]);
}

#[test]
fn a_destroy_means_the_claim_that_has_what_it_names() {
    let types = types();
    let (creates, destroys) = (json!([record("x")]), json!([record("x")]));
    let batch = read(&creates, &destroys, &types).expect("is well formed");
    let (claim, destroy) = (&batch.creates[0], &batch.destroys[0]);
    assert!(destroy.means(&claim.subject, &claim.source));
    let mut other = claim.source.clone();
    other.id = "2".into();
    assert!(!destroy.means(&claim.subject, &other));
    other = claim.subject.clone();
    other.type_id += 1;
    assert!(!destroy.means(&other, &claim.source));
    let none = json!([]);
    let bare = json!([{"bucket": {"type": 1, "value": "x"}}]);
    let batch = read(&none, &bare, &types).expect("is well formed");
    assert!(batch.destroys[0].means(&other, &other));
}

/// Returns the record in another form: numbers for names, strings for numbers, another spelling.
fn respelled(value: &str) -> Value {
    json!({
        "source": {"railsPrimaryKeyId": "1", "type": 3},
        "subject": {"id": "9970", "type": 2},
        "bucket": {"value": value, "type": 1}
    })
}

fn normal_form(creates: &Value, destroys: &Value, types: &Types) -> String {
    compared_text(&read(creates, destroys, types).expect("is well formed"), types)
}

proptest! {
    #[test]
    fn spelling_does_not_change_the_request(values in proptest::collection::hash_set("\\PC{1,40}", 1..8)) {
        let types = types();
        let some: Value = values.iter().map(|value| record(value)).collect();
        let same: Value = values.iter().map(|value| respelled(value)).collect();
        let (one, other) = (normal_form(&some, &json!([]), &types), normal_form(&same, &json!([]), &types));
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(request_digest(&one, None), request_digest(&other, None));
        prop_assert_ne!(request_digest(&one, None), request_digest(&one, Some(0)));
    }

    #[test]
    fn the_normal_form_names_what_the_batch_names(values in proptest::collection::hash_set("\\PC{1,40}", 1..8), split in 0usize..8) {
        let types = types();
        let records: Vec<Value> = values.iter().map(|value| record(value)).collect();
        let (creates, destroys) = records.split_at(split.min(records.len()));
        let (creates, destroys) = (Value::from(creates.to_vec()), Value::from(destroys.to_vec()));
        let batch = read(&creates, &destroys, &types).expect("is well formed");
        let payload: Value = serde_json::from_str(&normal_form(&creates, &destroys, &types)).expect("is JSON");
        let (mut made, mut gone) = (Flat::new(&payload["create_records"]), Flat::new(&payload["destroy_records"]));
        let stored = StoredBatch::read(&mut made, &mut gone, &types).expect("can be read back");
        prop_assert!(stored.creates.iter().eq(batch.creates.iter().map(|claim| &claim.bucket)));
        prop_assert!(stored.destroys.iter().eq(batch.destroys.iter().map(|destroy| &destroy.bucket)));
        // Reading the normalized form as a request gives an equal normalized form.
        let again = normal_form(&payload["create_records"], &payload["destroy_records"], &types);
        prop_assert_eq!(serde_json::from_str::<Value>(&again).expect("is JSON"), payload);
    }

    #[test]
    fn the_lock_order_is_the_same_whatever_the_order_of_the_request(values in proptest::collection::hash_set("\\PC{1,10}", 1..8)) {
        let types = types();
        let records: Vec<Value> = values.iter().map(|value| record(value)).collect();
        let backwards: Value = records.iter().rev().cloned().collect();
        let forwards = Value::from(records);
        let empty = json!([]);
        let (one, other) = (read(&forwards, &empty, &types), read(&backwards, &empty, &types));
        let (one, other) = (one.expect("is well formed"), other.expect("is well formed"));
        prop_assert_eq!(one.creates_in_lock_order(), other.creates_in_lock_order());
    }

    #[test]
    fn no_document_makes_the_reader_panic(document in any_json()) {
        let types = types();
        let _ = read(&document, &json!([]), &types);
        let _ = read(&json!([]), &document, &types);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let keys = prop_oneof!["bucket|subject|source|type|value|id|rails_primary_key_id|railsPrimaryKeyId", "[a-z]{0,3}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "ROUTES|GROUP|RAILS_TABLE_ROUTES|UNSPECIFIED|\\PC{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map(keys.clone(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Returns types in which the paths of organizations are compared without regard to case.
fn folding_types() -> Types {
    let naming = claims_model::Naming { profile: claims_model::Profile::Path, ..Default::default() };
    Types { naming: [(2, naming)].into(), ..types() }
}

fn path(value: &str) -> Value {
    let mut record = record(value);
    record["bucket"]["type"] = json!("ORGANIZATION_PATH");
    record
}

#[test]
fn a_batch_has_canonical_forms() {
    let types = folding_types();
    let (creates, destroys) = (json!([path("Acme"), record("Acme"), path("same")]), json!([path("ACME")]));
    let batch = read(&creates, &destroys, &types).expect("no bucket comes twice");
    let names: Vec<_> = batch.creates.iter().map(|claim| (&*claim.bucket.value, claim.display.as_deref())).collect();
    assert_eq!(names, [("acme", Some("Acme")), ("Acme", None), ("same", None)]);
    // The batch creates one spelling and destroys another, so the claim is replaced.
    assert_eq!((batch.claims(), batch.creates.iter().any(|claim| claim.display.is_some())), (3, true));
}

#[test]
fn two_spellings_in_one_list_are_one_bucket() {
    let creates = json!([path("Acme"), path("aCME")]);
    let error = read(&creates, &json!([]), &folding_types()).expect_err("one bucket");
    let first = "create_records[0].bucket".to_owned();
    assert_eq!(error, BadInput { path: "create_records[1].bucket".into(), problem: Problem::Duplicate { first } });
    assert!(read(&creates, &json!([]), &types()).is_ok());
}

#[test]
fn a_refused_name_has_its_path() {
    let creates = json!([path("ok"), path("a//b")]);
    let error = read(&creates, &json!([]), &folding_types()).expect_err("no path");
    assert_eq!(error.path, "create_records[1].bucket.value");
    assert!(matches!(error.problem, Problem::NoName { .. }));
}

#[test]
fn requests_do_not_depend_on_spellings() {
    let types = folding_types();
    let (one, other, none) = (json!([path("Acme")]), json!([path("ACME")]), json!([]));
    let (one, other) = (read(&one, &none, &types).unwrap(), read(&other, &none, &types).unwrap());
    assert_ne!(one.creates, other.creates);
    assert_eq!(compared_text(&one, &types), compared_text(&other, &types));
}

#[test]
fn stored_payloads_do_not_depend_on_the_profile() {
    let mut create = path("acme");
    create["bucket"]["display_value"] = "Acme".into();
    let (creates, destroys) = (json!([create]), json!([path("acme")]));
    let held = StoredBatch::read(&mut Flat::new(&creates), &mut Flat::new(&destroys), &types()).unwrap();
    assert_eq!((&*held.replaces[0].bucket.value, held.replaces[0].display.as_deref()), ("acme", Some("Acme")));
}
