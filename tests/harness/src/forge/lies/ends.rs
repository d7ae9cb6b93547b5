//! Answers that end too early, too late, or twice.

use super::super::lie::Deed::{Done, Undone};
use super::super::lie::{Fault, Honest, Lie, Place, Step, send};
use super::super::wire::{message, ready};

const fn lie(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Undone, fault: Fault::Every, is_long: false, computes: false, tell }
}

const fn odd(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Done, fault: Fault::None, is_long: false, computes: false, tell }
}

pub static LIES: &[Lie] = &[
    lie("a bare ReadyForQuery", |_| vec![Step::Send(ready(b'I'))]),
    lie("ReadyForQuery first", |honest| vec![send([ready(b'I'), honest.all()])]),
    lie("ReadyForQuery before the row", |honest| {
        vec![send([honest.head.clone(), honest.description(), ready(b'I'), honest.all_rows(), honest.end()])]
    }),
    lie("ReadyForQuery after the row", |honest| {
        vec![send([honest.head.clone(), honest.description(), honest.all_rows(), ready(b'I')])]
    }),
    lie("no ReadyForQuery", |honest| {
        let rows = honest.all_rows();
        vec![send([honest.head.clone(), honest.description(), rows, honest.complete.clone()]), Step::Silence]
    }),
    lie("a transaction left open", |honest| with_status(honest, b'T')),
    lie("a transaction that has failed", |honest| with_status(honest, b'E')),
    lie("ReadyForQuery of an odd status", |honest| with_status(honest, b'?')),
    lie("two results", |honest| {
        let result = [honest.description(), honest.all_rows(), honest.complete.clone()].concat();
        vec![send([honest.head.clone(), result.clone(), result, ready(b'I')])]
    }),
    lie("a hundred thousand results", |honest| {
        let result = [honest.description(), honest.all_rows(), honest.complete.clone()].concat();
        vec![send([honest.head.clone(), result.repeat(100_000), ready(b'I')])]
    })
    .long(),
    lie("a result, then none", |honest| {
        let result = [honest.description(), honest.all_rows(), honest.complete.clone()].concat();
        vec![send([honest.head.clone(), result, message(b'C', b"SET\0"), ready(b'I')])]
    }),
    lie("a command without rows", |honest| honest.around(message(b'n', &[]))),
    lie("an empty query", |honest| {
        vec![send([honest.head.clone(), message(b'n', &[]), message(b'I', &[]), ready(b'I')])]
    }),
    lie("a suspended portal", |honest| {
        let suspended = message(b's', &[]);
        vec![send([honest.head.clone(), honest.description(), honest.all_rows(), suspended, ready(b'I')])]
    }),
    odd("two ReadyForQuery", |honest| vec![send([honest.all(), ready(b'I')])]),
    odd("a hundred ReadyForQuery", |honest| vec![send([honest.all(), ready(b'I').repeat(100)])]),
    odd("the answer twice", |honest| vec![send([honest.all(), honest.all()])]),
    odd("the answer to nothing", |honest| {
        let rest = [honest.description(), honest.all_rows(), honest.complete.clone()].concat();
        vec![send([honest.all(), rest])]
    }),
    odd("the end of another command", |honest| {
        let tag = message(b'C', b"DROP TABLE\0");
        vec![send([honest.head.clone(), honest.description(), honest.all_rows(), tag, ready(b'I')])]
    }),
];

fn with_status(honest: &Honest, status: u8) -> Vec<Step> {
    let rows = honest.all_rows();
    vec![send([honest.head.clone(), honest.description(), rows, honest.complete.clone(), ready(status)])]
}
