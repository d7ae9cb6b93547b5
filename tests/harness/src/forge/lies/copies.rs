//! COPY responses that were not requested.

use super::super::lie::{Deed, Fault, Honest, Lie, Place, Step, send};
use super::super::wire::{message, ready};
use super::piece;

const fn lie(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Deed::Undone, fault: Fault::Every, is_long: false, computes: false, tell }
}

/// The format: text, one column.
const FORMAT: [u8; 5] = [0, 0, 1, 0, 0];

pub static LIES: &[Lie] = &[
    lie("COPY OUT, and silence", |honest| begun(honest, b'H', Step::Silence)),
    lie("COPY IN, and silence", |honest| begun(honest, b'G', Step::Silence)),
    lie("COPY BOTH, and silence", |honest| begun(honest, b'W', Step::Silence)),
    lie("COPY OUT, and the end", |honest| begun(honest, b'H', Step::Close)),
    lie("COPY IN, and the end", |honest| begun(honest, b'G', Step::Close)),
    lie("COPY OUT from its beginning to its end", |honest| {
        let data = [message(b'd', b"1\n"), message(b'c', &[]), message(b'C', b"COPY 1\0"), ready(b'I')];
        begun(honest, b'H', send(data))
    }),
    lie("COPY OUT without an end", |honest| begun(honest, b'H', flood())).long(),
    lie("COPY BOTH without an end", |honest| begun(honest, b'W', flood())).long(),
    lie("COPY OUT, then the answer", |honest| begun(honest, b'H', Step::Send(honest.all()))),
    lie("COPY IN, then the answer", |honest| begun(honest, b'G', Step::Send(honest.all()))),
    lie("COPY without columns", |honest| {
        vec![send([honest.head.clone(), message(b'H', &[0, 0xFF, 0xFF])]), Step::Silence]
    }),
    lie("data of a COPY that never began", |honest| vec![Step::Send(honest.head.clone()), flood()]).long(),
];

fn begun(honest: &Honest, tag: u8, then: Step) -> Vec<Step> {
    vec![send([honest.head.clone(), message(tag, &FORMAT)]), then]
}

fn flood() -> Step {
    let data = piece(&message(b'd', &[b'x'; 1000]));
    Step::Flood(Box::new(move |_| data.clone()))
}
