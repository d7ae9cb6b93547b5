//! Tests the records that capture skips and the claims that it adopts, by the service's conflicts.

use std::collections::BTreeSet;
use std::rc::Rc;

use claims_model::capture::{Ends, Id, Log, NamedBucket};
use claims_model::origin::Origin;
use claims_model::outgoing::{Outgoing, Refusal, SkippedDestroys, refusals};
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
        origin: Origin::default(),
    }
}

/// Builds a batch of changes like `+a1 -b2`: claims that rows have added and removed.
fn outgoing(changes: &str) -> Outgoing {
    let mut log = Log::default();
    for change in changes.split(' ') {
        let (value, row) = change[1..].split_at(1);
        let row: i64 = row.parse().unwrap();
        log.record(1, bucket(value), ends(row % 10, row), if change.starts_with('+') { 1 } else { -1 });
    }
    Outgoing::new(log.pending().unwrap())
}

/// Formats the batch like `+a1 -b2`, with `*` for a destroy without source.
fn sent(outgoing: &Outgoing) -> String {
    let (creates, destroys) = outgoing.json();
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

/// Parses conflicts like `a missing, b taken 1`: the reason, and for some the cell that holds the claim.
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

/// Returns the batch after the conflicts, or "stands" if they are final. The cell is number 1.
fn after(outgoing: &mut Outgoing, text: &str, adoptable: &str) -> String {
    if outgoing.apply_refusals(&answer(text), 1, &free(adoptable)) { sent(outgoing) } else { "stands".to_owned() }
}

#[test]
fn destroys_of_claims_of_other_rows_are_skipped() {
    let mut batch = outgoing("+d1 -a1 -b2 -c3 -e4");
    assert_eq!(sent(&batch), "+d1 -a1 -b2 -c3 -e4");
    assert_eq!(after(&mut batch, "a missing, b not_owner 2, c other_source 1", ""), "+d1 -e4");
    assert_eq!(batch.skipped_destroys(), SkippedDestroys { missing: 1, not_owner: 1, other_source: 1, adopted: 0 });
}

#[test]
fn the_batch_may_become_empty() {
    let mut batch = outgoing("-a1");
    assert_eq!(after(&mut batch, "a missing", ""), "");
    assert!(batch.is_empty());
}

#[test]
fn other_conflicts_are_final() {
    for reason in ["a leased 1", "a leased 2", "a in_flight", "b taken 2", "b taken 1", "b leased 2"] {
        assert_eq!(after(&mut outgoing("+b1 -a1"), reason, "a"), "stands", "{reason}");
    }
    // The conflict stays for the next answer, because another record was skipped.
    assert_eq!(after(&mut outgoing("+b1 -a1"), "b taken 2, a missing", ""), "+b1");
}

#[test]
fn the_claim_may_be_that_of_any_row_that_had_the_bucket() {
    let mut batch = outgoing("-a1 -a2 -a3");
    assert_eq!(sent(&batch), "-a1");
    assert_eq!(after(&mut batch, "a other_source 1", ""), "-a2");
    assert_eq!(after(&mut batch, "a other_source 1", ""), "-a3");
    assert_eq!(batch.skipped_destroys(), SkippedDestroys::default());
    assert_eq!(after(&mut batch, "a other_source 1", ""), "");
    assert_eq!(batch.skipped_destroys(), SkippedDestroys { other_source: 1, ..SkippedDestroys::default() });
}

#[test]
fn a_replace_of_what_is_not_there_is_a_create() {
    let mut batch = outgoing("-a1 +a2");
    assert_eq!(sent(&batch), "+a2 -a1");
    assert_eq!(after(&mut batch, "a missing", ""), "+a2");
    // Another cell has claimed it meanwhile.
    assert_eq!(after(&mut batch, "a taken 2", ""), "stands");
}

#[test]
fn a_name_of_another_cell_does_not_go_to_another_row() {
    let mut batch = outgoing("-a1 +a2");
    assert_eq!(after(&mut batch, "a not_owner 2", ""), "+a2");
    assert_eq!(after(&mut batch, "a taken 2", ""), "stands");
}

#[test]
fn a_row_that_had_the_name_keeps_it() {
    // Row 1 changes from subject 1 to subject 11.
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
    assert!(batch.apply_refusals(&refused, 1, &free("a")));
    assert_eq!(sent(&batch), "+a1 +b2 +c3 -a* -d1");
    assert_eq!(batch.skipped_destroys(), SkippedDestroys { adopted: 1, ..SkippedDestroys::default() });
    // The claim disappears after it was adopted.
    assert_eq!(after(&mut batch, "a missing", "a"), "+a1 +b2 +c3 -d1");
    assert!(batch.adoptable(&answer("a taken 1"), 1).is_empty());
    assert_eq!(after(&mut batch, "a taken 1", "a"), "stands");
    assert_eq!(batch.skipped_destroys(), SkippedDestroys::default());
}

#[test]
fn a_type_that_the_service_calls_otherwise_is_known_by_its_value() {
    let text = r#"[{"op":"destroy","bucket":{"type":"PATHS","value":"a"},"reason":"missing"}]"#;
    let refused = refusals(text).unwrap();
    let mut batch = outgoing("-a1 -b2");
    assert!(batch.apply_refusals(&refused, 1, &BTreeSet::new()));
    assert_eq!(sent(&batch), "-b2");
    // It does not identify the bucket if two have this value.
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
    assert!(!batch.apply_refusals(&refused, 1, &BTreeSet::new()));
    let text = text.replace("PATHS", "EMAILS");
    assert!(batch.apply_refusals(&refusals(&text).unwrap(), 1, &BTreeSet::new()));
    assert_eq!(batch.json().1.matches("ROUTES").count(), 2);
}

#[test]
fn other_details_are_no_conflicts() {
    for detail in ["", "Key (id)=(1) already exists.", "[1]", "{}", r#"[{"reason": "missing"}]"#] {
        assert_eq!(refusals(detail), None, "{detail}");
    }
}

/// Divides a batch whose names of the type `looks` have their first letter as skeleton.
fn divided(changes: &str, limit: usize, looks: bool) -> Vec<String> {
    let skeleton = |bucket: &NamedBucket| {
        let hash = uuid::Uuid::from_u128(u128::from(bucket.value.as_bytes()[0] & 3));
        looks.then_some(claims_model::lookalike::Skeleton { bucket_type: 1, hash })
    };
    outgoing(changes).divide(limit, skeleton).iter().map(sent).collect()
}

#[test]
fn a_large_batch_is_divided_in_the_order_of_its_names() {
    assert_eq!(divided("+a1 +b2 +c3", 10, false), ["+a1 +b2 +c3"]);
    assert_eq!(divided("+a1 +b2 -c3 +d4 +e5", 2, false), ["+a1 +b2", "+d4 -c3", "+e5"]);
    // Rows that swap their names: each name is replaced within one batch.
    assert_eq!(divided("-a1 +a2 -b2 +b1 +c3", 3, false), ["+a2 -a1", "+b1 +c3 -b2"]);
    // A part that is larger than the limit stays whole.
    assert_eq!(divided("-a1 +a2 +b3", 1, false), ["+a2 -a1", "+b3"]);
}

#[test]
fn names_that_look_alike_stay_together() {
    // a and e have one skeleton, b and f another one.
    assert_eq!(divided("-a1 +e1 +b2 -f2 +c3", 2, true), ["+e1 -a1", "+b2 -f2", "+c3"]);
    assert_eq!(divided("-a1 +e1 +b2 -f2 +c3", 2, false), ["+b2 -a1", "+c3 +e1", "-f2"]);
}

#[test]
fn a_batch_takes_a_hundred_thousand_conflicts_in_a_time_that_is_linear_in_them() {
    let started = std::time::Instant::now();
    let mut log = Log::default();
    for id in 0..50_000 {
        log.record(1, bucket(&format!("old{id}")), ends(id, id), -1);
        log.record(1, bucket(&format!("new{id}")), ends(id, id), 1);
    }
    let mut batch = Outgoing::new(log.pending().unwrap());
    let conflict = |name: &str, id: i64, reason: &str| {
        format!(r#"{{"bucket":{{"type":"ROUTES","value":"{name}{id}"}},"reason":"{reason}","holder_cell_id":1}}"#)
    };
    let all = (0..50_000).flat_map(|id| [conflict("old", id, "missing"), conflict("new", id, "taken")]);
    let refused = refusals(&format!("[{}]", all.collect::<Vec<_>>().join(","))).unwrap();
    assert_eq!(batch.adoptable(&refused, 1).len(), 50_000);
    let free = (0..50_000).map(|id| bucket(&format!("new{id}"))).collect();
    assert!(batch.apply_refusals(&refused, 1, &free));
    assert_eq!(
        (batch.records(), batch.skipped_destroys().missing, batch.skipped_destroys().adopted),
        (100_000, 50_000, 50_000)
    );
    let rows = batch.rows();
    assert!(refused.iter().filter(|refusal| rows.row_of(&refusal.bucket).is_some()).count() == 50_000);
    // It took minutes when each conflict searched the lists. A debug build on a busy machine needs a few seconds.
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
