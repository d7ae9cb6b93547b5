//! Messages that break the protocol's rules for messages.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::lie::Deed::{Done, Undone};
use super::super::lie::{Fault, Honest, Lie, Place, Step, send};
use super::super::wire::{self, message, with_length};

const fn lie(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Undone, fault: Fault::Every, is_long: false, computes: false, tell }
}

const fn odd(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Done, fault: Fault::None, is_long: false, computes: false, tell }
}

/// The largest possible length.
const HUGE: i32 = i32::MAX;

pub static LIES: &[Lie] = &[
    lie("a row without description", |honest| honest.around(honest.all_rows())),
    lie("two descriptions", |honest| {
        honest.around([honest.description(), honest.description(), honest.all_rows()].concat())
    }),
    lie("more values than columns", |honest| {
        let rows = honest.rows.iter().flat_map(|row| wire::row(&[row.clone(), vec![None]].concat()));
        honest.around([honest.description(), rows.collect()].concat())
    }),
    lie("fewer values than columns", |honest| {
        let rows = honest.rows.iter().flat_map(|row| wire::row(&row[1..]));
        honest.around([honest.description(), rows.collect()].concat())
    }),
    lie("a negative number of values", |honest| {
        honest.around([honest.description(), message(b'D', &wire::row_body(-1, &[]))].concat())
    }),
    lie("fewer values than said", |honest| {
        let rows = honest.rows.iter().flat_map(|row| message(b'D', &wire::row_body(row.len() as i16, &row[1..])));
        honest.around([honest.description(), rows.collect()].concat())
    }),
    lie("a value longer than its message", |honest| {
        honest.around([honest.description(), with_value_length(honest, 1000)].concat())
    }),
    lie("a value of 2 GB in a short message", |honest| {
        honest.around([honest.description(), with_value_length(honest, HUGE)].concat())
    }),
    Lie {
        fault: Fault::Values,
        ..lie("a value of length -2", |honest| {
            honest.around([honest.description(), with_value_length(honest, -2)].concat())
        })
    },
    lie("an unknown message", |honest| honest.around(message(b'~', b"unknown"))),
    lie("a message of type 0", |honest| honest.around(message(0, &[]))),
    lie("a message of type 255", |honest| honest.around(message(255, &[0; 100]))),
    lie("a client's message", |honest| honest.around(message(b'Q', b"SELECT 1\0"))),
    lie("a function's result", |honest| honest.around(message(b'V', &[0, 0, 0, 1, b'x']))),
    lie("a request for a password", |honest| honest.around(wire::authentication(3, &[]))),
    lie("another version's negotiation", |honest| honest.around(message(b'v', &[0, 3, 0, 0, 0, 0, 0, 0]))),
    lie("a length of 0", |honest| vec![send([honest.head.clone(), with_length(b'D', 0, &[]), honest.end()])]),
    lie("a length of 3", |honest| vec![send([honest.head.clone(), with_length(b'C', 3, &[]), honest.end()])]),
    lie("a length of -1", |honest| vec![send([honest.head.clone(), with_length(b'D', -1, &[]), honest.end()])]),
    lie("the least length", |honest| {
        vec![send([honest.head.clone(), with_length(b'Z', i32::MIN, b"I"), honest.end()])]
    }),
    lie("a row of 2 GB that does not come", |honest| {
        vec![send([honest.head.clone(), honest.description(), with_length(b'D', HUGE, &[0; 100])]), Step::Silence]
    }),
    lie("a row of 2 GB that comes", |honest| {
        let zeros = vec![0; super::PIECE];
        let head = send([honest.head.clone(), honest.description(), with_length(b'D', HUGE - 3, &[0, 2])]);
        vec![head, Step::Flood(Box::new(move |_| zeros.clone()))]
    })
    .long(),
    lie("a tag of 2 GB", |honest| {
        vec![send([honest.head.clone(), with_length(b'C', HUGE, b"SELECT 1\0")]), Step::Silence]
    }),
    lie("a long ReadyForQuery", |honest| {
        vec![send([honest.head.clone(), honest.description(), honest.complete.clone(), message(b'Z', &[b'I'; 1000])])]
    }),
    lie("a tag without an end", |honest| {
        let tag = message(b'C', b"SELECT 1");
        vec![send([honest.head.clone(), honest.description(), honest.all_rows(), tag, wire::ready(b'I')])]
    }),
    lie("noise", |_| vec![Step::Send(noise(4096))]),
    lie("zeros", |_| vec![Step::Send(vec![0; 4096])]),
    lie("another protocol", |_| {
        vec![Step::Send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into())]
    }),
    odd("a surplus CloseComplete", |honest| honest.after(message(b'3', &[]))),
    odd("a surplus ParseComplete", |honest| honest.after(message(b'1', &[]))),
    odd("a surplus ParameterDescription", |honest| honest.after(message(b't', &[0, 1, 0, 0, 0, 23]))),
    odd("another key", |honest| honest.after(message(b'K', &[0xFF; 8]))),
    odd("a short key", |honest| honest.after(message(b'K', &[1]))),
];

/// Returns the rows, whose first values claim to have some length.
fn with_value_length(honest: &Honest, length: i32) -> Vec<u8> {
    let changed = |row: &Vec<wire::Value>| {
        let mut body = wire::row_body(row.len() as i16, row);
        body[2..6].copy_from_slice(&length.to_be_bytes());
        // A missing value has no bytes.
        if length < 0 {
            body.drain(6..6 + row[0].as_ref().map_or(0, Vec::len));
        }
        message(b'D', &body)
    };
    honest.rows.iter().flat_map(changed).collect()
}

/// Returns random bytes, always the same ones.
fn noise(length: usize) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(1);
    (0..length).map(|_| rng.random()).collect()
}
