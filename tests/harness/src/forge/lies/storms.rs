//! Messages that may come at any time, and come without an end.

use super::super::lie::Deed::{Done, Undone};
use super::super::lie::{Fault, Honest, Lie, Place, Step, send};
use super::super::wire::{fields, notification, parameter};
use super::{LARGE, PIECE, piece};

const fn lie(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Undone, fault: Fault::Every, is_long: false, computes: false, tell }
}

const fn odd(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Done, fault: Fault::None, is_long: false, computes: false, tell }
}

pub static LIES: &[Lie] = &[
    lie("a flood of notices", |honest| flood(honest, piece(&notice("again")))).long(),
    lie("a flood of notifications", |honest| flood(honest, piece(&notification("again")))).long(),
    lie("a flood of one parameter", |honest| flood(honest, piece(&parameter("application_name", "again")))).long(),
    lie("a flood of parameters", |honest| {
        vec![Step::Send(honest.head.clone()), Step::Flood(Box::new(distinct_parameters))]
    })
    .long(),
    lie("large notices without an end", |honest| {
        let large = notice(&"x".repeat(30_000_000));
        vec![Step::Send(honest.head.clone()), Step::Flood(Box::new(move |_| large.clone()))]
    })
    .long(),
    odd("a thousand notices", |honest| honest.after(notice("again").repeat(1000))),
    odd("a thousand notifications", |honest| honest.after(notification("again").repeat(1000))),
    odd("a thousand parameters", |honest| {
        honest.after((0..1000).flat_map(|number| parameter(&format!("claims.p{number}"), "1")).collect())
    }),
    odd("a notice of 90 MB", |honest| honest.after(notice(&"x".repeat(LARGE)))).long(),
    odd("a notice in the row", |honest| {
        let rows = [honest.description(), notice("in between"), honest.all_rows(), notice("again")].concat();
        honest.around(rows)
    }),
    odd("client_encoding LATIN1", |honest| honest.after(parameter("client_encoding", "LATIN1"))),
    odd("client_encoding SJIS", |honest| honest.after(parameter("client_encoding", "SJIS"))),
    odd("client_encoding of no name", |honest| honest.after(parameter("client_encoding", "\u{1}nothing"))),
    odd("another server_version", |honest| honest.after(parameter("server_version", "6.5.999999999999999999999"))),
    odd("standard_conforming_strings off", |honest| honest.after(parameter("standard_conforming_strings", "off")))
        .long(),
];

fn notice(text: &str) -> Vec<u8> {
    fields(b'N', &[(b'S', b"NOTICE"), (b'V', b"NOTICE"), (b'C', b"00000"), (b'M', text.as_bytes())])
}

fn flood(honest: &Honest, piece: Vec<u8>) -> Vec<Step> {
    vec![send([honest.head.clone()]), Step::Flood(Box::new(move |_| piece.clone()))]
}

/// Returns parameters with distinct names.
pub fn distinct_parameters(number: u64) -> Vec<u8> {
    const EACH: usize = 20;
    (0..PIECE / EACH).flat_map(|place| parameter(&format!("p{number}.{place}"), "")).collect()
}
