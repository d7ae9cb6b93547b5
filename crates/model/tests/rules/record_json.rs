//! Tests the JSON of records against serde_json, and its exact form: the digest of a request must stay the same in every version.

use std::rc::Rc;

use claims_json::testing::Flat;
use claims_model::capture::{Ends, Id, NamedBucket, records_json};
use claims_model::origin::Origin;
use claims_model::payload::compared_text;
use claims_model::{Batch, TypeTable, Types};
use proptest::prelude::*;
use serde_json::{Value, json};

fn bucket(bucket_type: &str, value: &str) -> NamedBucket {
    NamedBucket { bucket_type: Rc::from(bucket_type), value: value.to_owned(), is_forbidden: false }
}

fn ends(subject_id: Option<Id>, source_id: Option<Id>, display: Option<&str>) -> Ends {
    let (subject_type, source_type) = (Rc::from("GROUP"), Rc::from("RAILS_TABLE_ROUTES"));
    Ends {
        subject_type,
        subject_id,
        source_type,
        source_id,
        display: display.map(str::to_owned),
        origin: Origin::default(),
    }
}

/// Any characters: those of proptest's own strings leave out control characters.
fn text() -> impl Strategy<Value = String> {
    let range = prop::char::range;
    let special = prop_oneof![range('\0', '\u{a0}'), Just('"'), Just('\\'), range('\u{10000}', char::MAX)];
    let character = prop_oneof![special, any::<char>()];
    prop::collection::vec(character, 0..12).prop_map(String::from_iter)
}

fn id() -> impl Strategy<Value = Option<Id>> {
    prop_oneof![Just(None), any::<i64>().prop_map(|id| Some(Id::Number(id))), text().prop_map(|id| Some(Id::Text(id)))]
}

fn id_value(id: &Option<Id>) -> Value {
    match id {
        None => Value::Null,
        Some(Id::Number(number)) => (*number).into(),
        Some(Id::Text(text)) => text.as_str().into(),
    }
}

proptest! {
    #[test]
    fn serde_reads_what_is_sent(
        records in prop::collection::vec((text(), text(), id(), id(), prop::option::of(text()), any::<bool>()), 0..4)
    ) {
        let records: Vec<_> = records
            .into_iter()
            .map(|(bucket_type, value, subject, source, display, has_ends)| {
                (bucket(&bucket_type, &value), ends(subject, source, display.as_deref()), has_ends)
            })
            .collect();
        let sent = records_json(records.iter().map(|(bucket, ends, has_ends)| (bucket, has_ends.then_some(ends))));
        let wanted = records.iter().map(|(bucket, ends, has_ends)| {
            let display = ends.display.as_ref().filter(|_| *has_ends);
            let mut record = json!({"bucket": {"type": &*bucket.bucket_type, "value": display.unwrap_or(&bucket.value)}});
            if *has_ends {
                record["subject"] = json!({"type": "GROUP", "id": id_value(&ends.subject_id)});
                record["source"] =
                    json!({"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": id_value(&ends.source_id)});
            }
            record
        });
        prop_assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), wanted.collect::<Value>());
    }
}

#[test]
fn each_character_is_written_as_serde_writes_it() {
    for character in '\0'..='\u{ffff}' {
        let sent = records_json([(&bucket("ROUTES", &character.to_string()), None)].into_iter());
        let wanted = json!([{"bucket": {"type": "ROUTES", "value": character.to_string()}}]).to_string();
        assert_eq!(sent, wanted);
    }
}

#[test]
fn the_compared_text_has_one_form() {
    let table = |name: &str| TypeTable::new([(1, name.to_owned())]);
    let types = Types { bucket: table("B\"B"), subject: table("S"), source: table("R"), ..Types::default() };
    let (subject, source) = (json!({"type": 1, "id": "s\n"}), json!({"type": 1, "rails_primary_key_id": 7}));
    let create = |value: &str| json!({"bucket": {"type": 1, "value": value}, "subject": subject, "source": source});
    let creates = json!([create("it's \\ \"é\"\u{7f}\t\u{1}"), create("b")]);
    let destroys = json!([{"bucket": {"type": 1, "value": "gone"}}, create("b")]);
    let batch = Batch::read(&mut Flat::new(&creates), &mut Flat::new(&destroys), &types, 10).unwrap();
    let ends = r#","subject":{"type":"S","id":"s\n"},"source":{"type":"R","rails_primary_key_id":"7"}}"#;
    let wanted = [
        r#"{"create_records":[{"bucket":{"type":"B\"B","value":"it's \\ \"é\""#,
        "\u{7f}",
        r#"\t\u0001"}"#,
        ends,
        r#",{"bucket":{"type":"B\"B","value":"b"}"#,
        ends,
        r#"],"destroy_records":[{"bucket":{"type":"B\"B","value":"gone"}},{"bucket":{"type":"B\"B","value":"b"}"#,
        ends,
        "]}",
    ];
    assert_eq!(compared_text(&batch, &types), wanted.concat());
}

/// Returns the JSON of one record with a bucket of type ROUTES.
fn created(value: &str, subject_id: Id, source_id: Id) -> String {
    records_json([(&bucket("ROUTES", value), Some(&ends(Some(subject_id), Some(source_id), None)))].into_iter())
}

#[test]
fn records_are_what_begin_update_takes() {
    assert_eq!(
        created("it's \\ \"é\"", Id::Number(i64::MAX), Id::Number(i64::MAX)),
        r#"[{"bucket":{"type":"ROUTES","value":"it's \\ \"é\""},"#.to_owned()
            + r#""subject":{"type":"GROUP","id":9223372036854775807},"#
            + r#""source":{"type":"RAILS_TABLE_ROUTES","rails_primary_key_id":9223372036854775807}}]"#
    );
}

#[test]
fn ids_that_are_texts_are_sent_as_texts() {
    assert_eq!(
        created("a", Id::Text("42".to_owned()), Id::Text("é\"".to_owned())),
        r#"[{"bucket":{"type":"ROUTES","value":"a"},"subject":{"type":"GROUP","id":"42"},"#.to_owned()
            + r#""source":{"type":"RAILS_TABLE_ROUTES","rails_primary_key_id":"é\""}}]"#
    );
}
