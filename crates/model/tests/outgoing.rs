//! What capture leaves out of its batch, and what it adopts, by what the service answers.

use std::collections::BTreeSet;
use std::rc::Rc;

use claims_model::capture::{Ends, Id, Log, NamedBucket};
use claims_model::outgoing::{Concessions, Outgoing, Refusal, refusals};
use serde_json::Value;

fn bucket(value: &str) -> NamedBucket {
    NamedBucket { bucket_type: Rc::from("ROUTES"), value: value.to_owned(), is_forbidden: false }
}

fn ends(row: i64, subject: i64) -> Ends {
    Ends {
        subject_type: Rc::from("GROUP"),
        subject_id: Some(Id::Number(subject)),
        source_type: Rc::from("RAILS_TABLE_ROUTES"),
        display: None,
        source_id: Some(Id::Number(row)),
    }
}

/// Of `+a1 -b2`, claims that rows have added and removed.
fn outgoing(changes: &str) -> Outgoing {
    let mut log = Log::default();
    for change in changes.split(' ') {
        let (value, row) = change[1..].split_at(1);
        let row: i64 = row.parse().unwrap();
        log.record(1, bucket(value), ends(row % 10, row), if change.starts_with('+') { 1 } else { -1 });
    }
    Outgoing::new(log.pending().unwrap())
}

/// `+a1 -b2` again, `*` where a destroy names no source.
fn sent(outgoing: &Outgoing) -> String {
    let (creates, destroys) = outgoing.json().unwrap();
    let each = |list: &str, sign: &str| -> Vec<String> {
        let list: Vec<Value> = serde_json::from_str(list).unwrap();
        let text = |record: &Value| {
            let subject = record.get("subject").map_or("*".to_owned(), |subject| subject["id"].to_string());
            format!("{sign}{}{subject}", record["bucket"]["value"].as_str().unwrap())
        };
        list.iter().map(text).collect()
    };
    [each(&creates, "+"), each(&destroys, "-")].concat().join(" ")
}

/// Of `a missing, b taken 1`: the reason and perhaps the cell that has the claim.
fn answer(text: &str) -> Vec<Refusal> {
    let conflict = |text: &str| {
        let words: Vec<_> = text.split(' ').collect();
        let holder = words.get(2).unwrap_or(&"null");
        format!(
            r#"{{"op": "any", "bucket": {{"type": "ROUTES", "value": "{}"}}, "reason": "{}", "retryable": false,
                "holder_cell_id": {holder}, "lease_age_seconds": null}}"#,
            words[0], words[1]
        )
    };
    refusals(&format!("[{}]", text.split(", ").map(conflict).collect::<Vec<_>>().join(","))).unwrap()
}

fn free(values: &str) -> BTreeSet<NamedBucket> {
    values.chars().map(|value| bucket(&value.to_string())).collect()
}

/// What is sent after an answer; "stands" where that is the end of it. The cell is number 1.
fn after(outgoing: &mut Outgoing, text: &str, adoptable: &str) -> String {
    if outgoing.give_way(&answer(text), 1, &free(adoptable)) { sent(outgoing) } else { "stands".to_owned() }
}

#[test]
fn destroys_of_what_is_not_the_rows_are_left_out() {
    let mut batch = outgoing("+d1 -a1 -b2 -c3 -e4");
    assert_eq!(sent(&batch), "+d1 -a1 -b2 -c3 -e4");
    assert_eq!(after(&mut batch, "a missing, b not_owner 2, c other_source 1", ""), "+d1 -e4");
    assert_eq!(batch.concessions(), Concessions { missing: 1, not_owner: 1, other_source: 1, adopted: 0 });
}

#[test]
fn nothing_may_be_left() {
    let mut batch = outgoing("-a1");
    assert_eq!(after(&mut batch, "a missing", ""), "");
    assert!(batch.is_empty());
}

#[test]
fn what_else_is_in_the_way_stands() {
    for reason in ["a leased 1", "a leased 2", "a in_flight", "b taken 2", "b taken 1", "b leased 2"] {
        assert_eq!(after(&mut outgoing("+b1 -a1"), reason, "a"), "stands", "{reason}");
    }
    // It is left to the next answer where something else was given up.
    assert_eq!(after(&mut outgoing("+b1 -a1"), "b taken 2, a missing", ""), "+b1");
}

#[test]
fn the_claim_may_be_that_of_any_row_that_had_the_bucket() {
    let mut batch = outgoing("-a1 -a2 -a3");
    assert_eq!(sent(&batch), "-a1");
    assert_eq!(after(&mut batch, "a other_source 1", ""), "-a2");
    assert_eq!(after(&mut batch, "a other_source 1", ""), "-a3");
    assert_eq!(batch.concessions(), Concessions::default());
    assert_eq!(after(&mut batch, "a other_source 1", ""), "");
    assert_eq!(batch.concessions(), Concessions { other_source: 1, ..Concessions::default() });
}

#[test]
fn a_replace_of_what_is_not_there_is_a_create() {
    let mut batch = outgoing("-a1 +a2");
    assert_eq!(sent(&batch), "+a2 -a1");
    assert_eq!(after(&mut batch, "a missing", ""), "+a2");
    // Somebody else has taken it in between.
    assert_eq!(after(&mut batch, "a taken 2", ""), "stands");
}

#[test]
fn a_name_of_another_cell_does_not_go_to_another_row() {
    let mut batch = outgoing("-a1 +a2");
    assert_eq!(after(&mut batch, "a not_owner 2", ""), "+a2");
    assert_eq!(after(&mut batch, "a taken 2", ""), "stands");
}

#[test]
fn a_row_keeps_the_name_that_it_had() {
    // Row 1 goes from subject 1 to subject 11.
    let mut batch = outgoing("-a1 +a11");
    assert_eq!(after(&mut batch, "a not_owner 2", ""), "");
    let mut batch = outgoing("-a1 +a11");
    assert_eq!(after(&mut batch, "a missing", ""), "+a11");
    assert_eq!(after(&mut batch, "a taken 2", ""), "");
    let mut batch = outgoing("-a1 +a11");
    assert_eq!(after(&mut batch, "a other_source 1", ""), "+a11");
    assert_eq!(after(&mut batch, "a taken 1", "a"), "+a11 -a*");
    let mut batch = outgoing("-a1 +a11");
    assert_eq!(after(&mut batch, "a other_source 1", ""), "+a11");
    assert_eq!(after(&mut batch, "a taken 1", ""), "");
}

#[test]
fn an_own_claim_is_adopted_once_and_where_it_is_free() {
    let mut batch = outgoing("+a1 +b2 +c3 -d1");
    let refused = answer("a taken 1, b taken 1, c taken 2");
    let adoptable: Vec<_> = batch.adoptable(&refused, 1).into_iter().map(|create| create.bucket.clone()).collect();
    assert_eq!(adoptable, [bucket("a"), bucket("b")]);
    assert!(batch.give_way(&refused, 1, &free("a")));
    assert_eq!(sent(&batch), "+a1 +b2 +c3 -a* -d1");
    assert_eq!(batch.concessions(), Concessions { adopted: 1, ..Concessions::default() });
    // It goes, and comes back, in between.
    assert_eq!(after(&mut batch, "a missing", "a"), "+a1 +b2 +c3 -d1");
    assert!(batch.adoptable(&answer("a taken 1"), 1).is_empty());
    assert_eq!(after(&mut batch, "a taken 1", "a"), "stands");
    assert_eq!(batch.concessions(), Concessions::default());
}

#[test]
fn a_type_that_the_service_calls_otherwise_is_known_by_its_value() {
    let text = r#"[{"op":"destroy","bucket":{"type":"PATHS","value":"a"},"reason":"missing"}]"#;
    let refused = refusals(text).unwrap();
    let mut batch = outgoing("-a1 -b2");
    assert!(batch.give_way(&refused, 1, &BTreeSet::new()));
    assert_eq!(sent(&batch), "-b2");
    // Not where two have it.
    let mut log = Log::default();
    for bucket_type in ["ROUTES", "EMAILS"] {
        log.record(
            1,
            NamedBucket { bucket_type: Rc::from(bucket_type), value: "a".to_owned(), is_forbidden: false },
            ends(1, 1),
            -1,
        );
    }
    let mut batch = Outgoing::new(log.pending().unwrap());
    assert!(!batch.give_way(&refused, 1, &BTreeSet::new()));
    let text = text.replace("PATHS", "EMAILS");
    assert!(batch.give_way(&refusals(&text).unwrap(), 1, &BTreeSet::new()));
    assert_eq!(batch.json().unwrap().1.matches("ROUTES").count(), 2);
}

#[test]
fn other_details_are_no_conflicts() {
    for detail in ["", "Key (id)=(1) already exists.", "[1]", "{}", r#"[{"reason": "missing"}]"#] {
        assert_eq!(refusals(detail), None, "{detail}");
    }
}
