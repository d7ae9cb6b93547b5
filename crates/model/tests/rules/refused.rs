//! Tests how the conflicts of a refused save are assigned to rows, and which of them weighs most.

use std::rc::Rc;

use claims_model::capture::{Ends, Id, Log, NamedBucket};
use claims_model::origin::{Declared, Origin};
use claims_model::outgoing::{Outgoing, refusals};
use claims_model::refused::{refused_names, weightiest};

fn ends(id: i64, column: &str, display: Option<&str>) -> Ends {
    Ends {
        subject_type: Rc::from("GROUP"),
        subject_id: Some(Id::Number(id)),
        source_type: Rc::from("RAILS_TABLE_ROUTES"),
        source_id: Some(Id::Text(format!("row {id}"))),
        display: display.map(str::to_owned),
        origin: Origin(Some(Rc::new(Declared { column_name: column.to_owned(), ..Declared::default() }))),
    }
}

fn bucket(value: &str) -> NamedBucket {
    NamedBucket { bucket_type: Rc::from("ROUTES"), value: value.to_owned(), is_forbidden: false }
}

fn conflict(op: &str, value: &str, reason: &str) -> String {
    format!(r#"{{"op":"{op}","bucket":{{"type":"OTHER","value":"{value}"}},"reason":"{reason}","holder_cell_id":2}}"#)
}

#[test]
fn conflicts_have_the_row_and_the_declaration() {
    let mut log = Log::default();
    log.record(1, bucket("ada"), ends(1, "username", Some("Ada")), 1);
    log.record(1, bucket("bob"), ends(2, "nick", None), -1);
    log.record(1, bucket("bob"), ends(3, "username", None), 1);
    log.record(1, bucket("gone"), ends(4, "nick", None), -1);
    let outgoing = Outgoing::new(log.pending().unwrap());
    let detail = [("create", "ada"), ("destroy", "bob"), ("destroy", "gone"), ("create", "unknown")]
        .map(|(op, value)| conflict(op, value, "taken"))
        .join(",");
    let names = refused_names(refusals(&format!("[{detail}]")).unwrap(), |bucket| outgoing.rows().row_of(bucket));
    let found: Vec<_> = names
        .iter()
        .map(|name| {
            let column = name.origin.0.as_ref().map_or("-", |declared| &*declared.column_name);
            let source = name.source_id.as_deref().unwrap_or("-");
            format!("{} {} {} {column} {source}", name.bucket_type, name.bucket_value, name.given)
        })
        .collect();
    let expected = [
        "ROUTES ada Ada username row 1",
        "ROUTES bob bob username row 3",
        "ROUTES gone gone nick row 4",
        "OTHER unknown unknown - -",
    ];
    assert_eq!(found, expected);
    assert!(refusals("no JSON").is_none());
    assert!(refusals("{}").is_none());
}

#[test]
fn the_weightiest_conflict_decides() {
    let weightiest_of = |reasons: &[&str]| {
        let list: Vec<_> = reasons.iter().map(|reason| conflict("create", reason, reason)).collect();
        let names = refused_names(refusals(&format!("[{}]", list.join(","))).unwrap(), |_| None);
        weightiest(&names).map(|name| name.reason.clone())
    };
    assert_eq!(weightiest_of(&["leased", "taken", "in_flight"]).as_deref(), Some("taken"));
    assert_eq!(weightiest_of(&["leased", "confusable", "reserved"]).as_deref(), Some("reserved"));
    assert_eq!(weightiest_of(&["invented", "in_flight"]).as_deref(), Some("in_flight"));
    assert_eq!(weightiest_of(&[]), None);
}
