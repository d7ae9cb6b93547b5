//! Tests how the changes of observed names are separated from the enforced ones, and what is left of a refused batch.

use std::rc::Rc;

use claims_model::capture::{Ends, Id, Log, NamedBucket, Pending};
use claims_model::observed::separate;
use claims_model::origin::Origin;
use claims_model::outgoing::{Outgoing, refusals};

fn bucket(value: &str) -> NamedBucket {
    NamedBucket { bucket_type: Rc::from("ROUTES"), value: value.to_owned(), is_forbidden: value.starts_with('!') }
}

/// Builds changes like `+a1 -b2`: names that rows have added and removed. Row 0 has no subject.
fn pending(changes: &str) -> Pending {
    let mut log = Log::default();
    for change in changes.split_whitespace() {
        let (value, row) = change[1..].split_at(change.len() - 2);
        let row: i64 = row.parse().unwrap();
        let ends = Ends {
            subject_type: Rc::from("GROUP"),
            subject_id: (row > 0).then_some(Id::Number(row)),
            source_type: Rc::from("RAILS_TABLE_ROUTES"),
            source_id: Some(Id::Number(row)),
            display: None,
            origin: Origin::default(),
        };
        log.record(1, bucket(value), ends, if change.starts_with('+') { 1 } else { -1 });
    }
    log.pending().unwrap()
}

fn shown(pending: &Pending) -> String {
    let id = |ends: &Ends| match ends.source_id {
        Some(Id::Number(number)) => number.to_string(),
        _ => "?".to_owned(),
    };
    let creates = pending.creates.iter().map(|create| format!("+{}{}", create.bucket.value, id(&create.ends)));
    let destroys = pending.destroys.iter().map(|destroy| {
        let mut ids: Vec<_> = destroy.ends.iter().map(id).collect();
        ids.sort_unstable();
        format!("-{}{}", destroy.bucket.value, ids.join(","))
    });
    creates.chain(destroys).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_bucket_belongs_to_one_of_the_batches() {
    // Enforced and observed changes; then both batches, and the observed claims that cannot be made.
    let cases = [
        ("+a1", "+b2", "+a1 | +b2 | "),
        ("+a1", "+a2", "+a1 |  | a doubled"),
        ("+a1", "-a2", "+a1 |  | "),
        ("-a1", "+a2", " | +a2 -a1 | "),
        ("-a1", "-a2", "-a1,2 |  | "),
        ("-a1 +c3", "+a2 -c4 -b5 +d6", "+c3 | +a2 +d6 -a1 -b5 | "),
        ("", "+a1 +a2", " |  | a doubled"),
        ("", "-a1 +a2 +a3", " |  | a doubled"),
        ("", "+a0 +!b1 +c2", " | +c2 | !b forbidden, a no_key"),
        ("+a1 +a2", "+a3", "+a1 |  | a doubled"),
    ];
    for (enforced_changes, observed_changes, expected) in cases {
        let (mut enforced, mut observed) = (pending(enforced_changes), pending(observed_changes));
        let missed = separate(&mut enforced, &mut observed);
        let mut missed: Vec<_> =
            missed.iter().map(|missed| format!("{} {}", missed.create.bucket.value, missed.outcome)).collect();
        missed.sort_unstable();
        let got = format!("{} | {} | {}", shown(&enforced), shown(&observed), missed.join(", "));
        assert_eq!(got, expected, "{enforced_changes} and {observed_changes}");
    }
}

#[test]
fn what_is_refused_is_removed() {
    let conflict = |value: &str, reason: &str| {
        format!(r#"{{"bucket":{{"type":"ROUTES","value":"{value}"}},"reason":"{reason}","holder_cell_id":2}}"#)
    };
    let list = |conflicts: &[String]| refusals(&format!("[{}]", conflicts.join(","))).unwrap();
    let mut outgoing = Outgoing::new(pending("+a1 +b2 -c3 -d4 +d5 -e6"));
    let missed =
        outgoing.remove_refused(&list(&[conflict("a", "taken"), conflict("c", "missing"), conflict("d", "leased")]));
    let missed: Vec<_> = missed
        .unwrap()
        .into_iter()
        .map(|missed| (missed.create.bucket.value, missed.outcome, missed.holder_cell_id))
        .collect();
    let expected =
        [("a", "taken"), ("d", "leased")].map(|(name, reason)| (name.to_owned(), reason.to_owned(), Some(2)));
    assert_eq!(missed, expected);
    let (creates, destroys) = outgoing.json();
    assert!(creates.contains(r#""b""#) && !creates.contains(r#""d""#), "{creates}");
    assert!(destroys.contains(r#""e""#) && !destroys.contains(r#""c""#) && !destroys.contains(r#""d""#), "{destroys}");
    assert!(outgoing.remove_refused(&list(&[conflict("unknown", "taken")])).is_none());
    assert_eq!(outgoing.take_rows().len(), 2);
    assert!(outgoing.is_empty());
}
