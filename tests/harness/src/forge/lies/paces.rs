//! Right answers that come slowly, in part, or not at all.

use std::time::Duration;

use super::super::lie::Deed::{Done, Undone};
use super::super::lie::{Fault, Honest, Lie, Place, Step, send};
use super::super::wire::message;

const fn lie(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Undone, fault: Fault::Every, is_long: false, computes: false, tell }
}

pub static LIES: &[Lie] = &[
    Lie { deed: Done, fault: Fault::Truth, ..lie("the truth", |honest| vec![Step::Send(honest.all())]) },
    lie("silence", |_| vec![Step::Silence]),
    lie("silence after the first message", |honest| vec![Step::Send(first(honest)), Step::Silence]),
    lie("silence in a message's head", |honest| vec![cut(honest.all(), 3), Step::Silence]),
    lie("silence in the row", |honest| vec![up_to_half_of(honest, honest.row()), Step::Silence]),
    lie("a byte a second", |honest| vec![Step::Slowly(honest.all())]),
    lie("a notice every 20 ms", |honest| {
        let notice = message(b'N', b"SNOTICE\0Mwait\0\0");
        vec![Step::Send(honest.head.clone()), Step::Drip(notice, Duration::from_millis(20))]
    }),
    lie("a row every 20 ms", |honest| {
        let begun = send([honest.head.clone(), honest.description()]);
        vec![begun, Step::Drip(honest.row(), Duration::from_millis(20))]
    }),
    lie("an answer, a byte every 20 ms", |honest| {
        // Fast enough to make progress, and too slow to finish in time.
        let mut steps = vec![Step::Send(honest.head.clone())];
        let rest = [honest.description(), honest.all_rows(), honest.end()].concat();
        steps.extend(rest.into_iter().flat_map(|byte| [Step::Send(vec![byte]), Step::Wait(Duration::from_millis(20))]));
        steps
    }),
    lie("the end at once", |_| vec![Step::Close]),
    lie("the end, late", |_| vec![Step::Wait(super::super::TIMEOUT * 3 / 4), Step::Close]),
    lie("the end in the first message", |honest| vec![cut(first(honest), 3), Step::Close]),
    lie("the end in the description", |honest| {
        let description = honest.description();
        let half = description[..description.len() / 2].to_vec();
        vec![send([honest.head.clone(), half]), Step::Close]
    }),
    lie("the end in the row", |honest| vec![up_to_half_of(honest, honest.row()), Step::Close]),
    lie("the end after the row", |honest| {
        vec![send([honest.head.clone(), honest.description(), honest.all_rows()]), Step::Close]
    }),
    lie("the end in CommandComplete", |honest| {
        vec![up_to_half_of(honest, [honest.all_rows(), honest.complete.clone()].concat()), Step::Close]
    }),
    lie("the end before ReadyForQuery", |honest| {
        let rows = honest.all_rows();
        vec![send([honest.head.clone(), honest.description(), rows, honest.complete.clone()]), Step::Close]
    }),
    lie("the end in ReadyForQuery", |honest| vec![cut(honest.all(), honest.all().len() - 1), Step::Close]),
    Lie {
        deed: Done,
        ..lie("the end of what was done", |honest| vec![cut(honest.all(), honest.all().len() - 6), Step::Close])
    },
    Lie {
        deed: Done,
        fault: Fault::None,
        ..lie("the answer, and the end", |honest| vec![Step::Send(honest.all()), Step::Close])
    },
];

fn first(honest: &Honest) -> Vec<u8> {
    honest.messages[0].bytes()
}

fn cut(mut bytes: Vec<u8>, length: usize) -> Step {
    bytes.truncate(length);
    Step::Send(bytes)
}

/// Returns the answer up to half of what follows its description.
fn up_to_half_of(honest: &Honest, rest: Vec<u8>) -> Step {
    send([honest.head.clone(), honest.description(), rest[..rest.len().div_ceil(2)].to_vec()])
}
