//! Errors, lawful and not.

use super::super::lie::{Deed, Fault, Honest, Lie, Place, Step, send};
use super::super::wire::{self, error, fields, message, ready};
use super::{LARGE, piece};

const fn lie(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Deed::Undone, fault: Fault::Refusal, is_long: false, computes: false, tell }
}

pub static LIES: &[Lie] = &[
    lie("an error without fields", |honest| refused(honest, fields(b'E', &[]))),
    lie("an error without SQLSTATE", |honest| refused(honest, fields(b'E', &[(b'S', b"ERROR"), (b'M', b"no state")]))),
    lie("an error without text", |honest| refused(honest, fields(b'E', &[(b'S', b"ERROR"), (b'C', b"22023")]))),
    lie("SQLSTATE of four", |honest| refused(honest, error("2202", "four"))),
    lie("SQLSTATE of six", |honest| refused(honest, error("220233", "six"))),
    lie("SQLSTATE in lower case", |honest| refused(honest, error("hv00a", "lower"))),
    lie("SQLSTATE of signs", |honest| refused(honest, error("%s%n\\", "signs"))),
    lie("SQLSTATE of bytes", |honest| {
        refused(honest, fields(b'E', &[(b'S', b"ERROR"), (b'C', &[0xFF, 0xFE, 0x80, 1, 2]), (b'M', b"bytes")]))
    }),
    lie("SQLSTATE 00000", |honest| refused(honest, error("00000", "success"))),
    lie("SQLSTATE 01000", |honest| refused(honest, error("01000", "warning"))),
    lie("SQLSTATE 02000", |honest| refused(honest, error("02000", "no data"))),
    lie("SQLSTATE ZZZZZ", |honest| refused(honest, error("ZZZZZ", "unknown"))),
    lie("SQLSTATE 08006", |honest| refused(honest, error("08006", "connection failure"))),
    lie("SQLSTATE 25006", |honest| refused(honest, error("25006", "cannot execute in a read-only transaction"))),
    lie("SQLSTATE 26000", |honest| refused(honest, error("26000", "prepared statement does not exist"))),
    lie("SQLSTATE 42P05", |honest| refused(honest, error("42P05", "prepared statement already exists"))),
    lie("SQLSTATE 40001", |honest| refused(honest, error("40001", "could not serialize access"))),
    lie("SQLSTATE 55P03", |honest| refused(honest, error("55P03", "could not obtain lock"))),
    lie("SQLSTATE 57014", |honest| refused(honest, error("57014", "canceling statement due to user request"))),
    lie("SQLSTATE 57P01", |honest| refused(honest, error("57P01", "terminating connection"))),
    lie("SQLSTATE 53300", |honest| refused(honest, error("53300", "too many clients"))),
    lie("SQLSTATE 42883", |honest| refused(honest, error("42883", "function claims.nothing() does not exist"))),
    lie("SQLSTATE P0004", |honest| refused(honest, error("P0004", "assertion failed"))),
    lie("severity PANIC", |honest| {
        refused(honest, fields(b'E', &[(b'S', b"PANIC"), (b'V', b"PANIC"), (b'C', b"58030"), (b'M', b"panic")]))
    }),
    lie("severity LOG", |honest| {
        refused(honest, fields(b'E', &[(b'S', b"LOG"), (b'V', b"LOG"), (b'C', b"58030"), (b'M', b"log")]))
    }),
    lie("its own lease is in the way", |honest| refused(honest, conflict(honest, "leased", true))),
    lie("its own claim is in the way", |honest| refused(honest, conflict(honest, "taken", false))),
    lie("its own names are missing", |honest| refused(honest, conflict(honest, "missing", false))),
    lie("DETAIL of a million brackets", |honest| refused(honest, detailed("[".repeat(1_000_000).as_bytes()))),
    lie("DETAIL of other JSON", |honest| {
        refused(
            honest,
            detailed(br#"[{"reason": 7, "bucket": [], "holder_cell_id": "x", "lease_age_seconds": 1e999}]"#),
        )
    }),
    lie("DETAIL of 90 MB", |honest| refused(honest, detailed(&[b'['; LARGE]))).long(),
    lie("an error of 90 MB", |honest| refused(honest, error("22023", &"x".repeat(LARGE)))).long(),
    lie("a field 90 million times", |honest| {
        let mut body = b"SERROR\0C22023\0".to_vec();
        body.extend(b"Dx\0".repeat(LARGE / 3));
        body.push(0);
        refused(honest, message(b'E', &body))
    })
    .long(),
    lie("an error in no encoding", |honest| {
        refused(
            honest,
            fields(b'E', &[(b'S', b"ERROR"), (b'C', b"22023"), (b'M', &[0xFF, 0xC3, 0x28, 0xED, 0xA0, 0x80])]),
        )
    }),
    lie("an error of format characters", |honest| refused(honest, error("22023", "%s%s%n%x %.999999999d {} {0} \\n"))),
    lie("an error without an end", |honest| refused(honest, message(b'E', b"SERROR\0C22023\0Mno end"))),
    lie("fields of unknown types", |honest| {
        refused(honest, fields(b'E', &[(b'?', b"what"), (1, b"one"), (0xFF, b"many"), (b'C', b"22023")]))
    }),
    lie("a thousand errors", |honest| refused(honest, error("22023", "again").repeat(1000))),
    lie("a flood of errors", |honest| {
        let errors = piece(&error("22023", "again"));
        vec![Step::Send(honest.head.clone()), Step::Flood(Box::new(move |_| errors.clone()))]
    })
    .long(),
    lie("an error, then silence", |honest| vec![send([honest.head.clone(), error("22023", "quiet")]), Step::Silence]),
    lie("an error, then the answer", |honest| vec![send([honest.head.clone(), error("22023", "first"), honest.all()])]),
    lie("the row, then an error", |honest| {
        let rows = [honest.description(), honest.all_rows()].concat();
        vec![send([honest.head.clone(), rows, error("40001", "after all"), ready(b'I')])]
    }),
    lie("the answer, then an error", |honest| {
        let rows = [honest.description(), honest.all_rows(), honest.complete.clone()].concat();
        vec![send([honest.head.clone(), rows, error("40001", "after all"), ready(b'I')])]
    }),
];

/// Returns the answer with this error.
fn refused(honest: &Honest, error: Vec<u8>) -> Vec<Step> {
    vec![send([honest.head.clone(), error, ready(b'I')])]
}

fn detailed(detail: &[u8]) -> Vec<u8> {
    let text = b"could not claim one bucket of the batch".as_slice();
    fields(b'E', &[(b'S', b"ERROR"), (b'C', b"55P03"), (b'M', text), (b'D', detail)])
}

/// Returns a conflict of the cell with itself, about the requested names.
fn conflict(honest: &Honest, reason: &str, retryable: bool) -> Vec<u8> {
    let text = |place: usize| honest.parameters.get(place).cloned().flatten().unwrap_or_default();
    let cell: i64 = String::from_utf8_lossy(&text(0)).parse().unwrap_or(1);
    let records = |place| serde_json::from_slice::<Vec<serde_json::Value>>(&text(place)).unwrap_or_default();
    let conflicts: Vec<_> = [("create", 1), ("destroy", 2)]
        .into_iter()
        .flat_map(|(op, place)| records(place).into_iter().map(move |record| (op, record)))
        .map(|(op, record)| {
            serde_json::json!({"op": op, "bucket": record["bucket"], "reason": reason, "retryable": retryable,
                               "holder_cell_id": cell, "lease_age_seconds": 1.0})
        })
        .collect();
    let sqlstate: &[u8] = if retryable { b"55P03" } else { b"23505" };
    let detail = serde_json::Value::Array(conflicts).to_string();
    wire::fields(b'E', &[(b'S', b"ERROR"), (b'C', sqlstate), (b'M', b"conflict"), (b'D', detail.as_bytes())])
}
