//! Wrong starts of a connection.

use super::super::lie::Moment::{self, Authenticated, Challenge, Encryption, Key, Ready, Request, Signature};
use super::super::lie::{Deed, Fault, Honest, Lie, Place, Step, send};
use super::super::wire::{authentication, error, fields, message, notification, parameter, ready, row, with_length};
use super::storms::distinct_parameters;
use super::{LARGE, piece};

/// Declares a lie with which no connection may succeed.
const fn lie(moment: Moment, name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie {
        name,
        place: Place::Greeting(moment),
        deed: Deed::Done,
        fault: Fault::Every,
        is_long: false,
        computes: false,
        tell,
    }
}

/// Declares a lie with which a connection may succeed, and continue honestly.
const fn odd(moment: Moment, name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie {
        name,
        place: Place::Greeting(moment),
        deed: Deed::Done,
        fault: Fault::None,
        is_long: false,
        computes: false,
        tell,
    }
}

pub static LIES: &[Lie] = &[
    Lie { fault: Fault::Truth, ..odd(Ready, "a true beginning", |honest| vec![Step::Send(honest.all())]) },
    lie(Encryption, "silence about encryption", |_| vec![Step::Silence]),
    lie(Encryption, "encryption, and noise", |_| vec![Step::Send([b"S".as_slice(), &[0x42; 500]].concat())]),
    lie(Encryption, "encryption, and silence", |_| vec![Step::Send(b"S".into()), Step::Silence]),
    lie(Encryption, "an odd byte about encryption", |_| vec![Step::Send(b"?".into()), Step::Silence]),
    lie(Encryption, "an error about encryption", |_| vec![Step::Send(error("08P01", "no")), Step::Silence]),
    lie(Encryption, "no encryption, and a session at once", |_| {
        let session = [b"N".to_vec(), authentication(0, &[]), ready(b'I')];
        vec![send(session), Step::Silence]
    }),
    lie(Request, "silence before authentication", |_| vec![Step::Silence]),
    lie(Request, "the end before authentication", |_| vec![Step::Close]),
    lie(Request, "half a request", |honest| vec![Step::Send(honest.all()[..6].to_vec()), Step::Silence]),
    lie(Request, "half a request, and the end", |honest| vec![Step::Send(honest.all()[..6].to_vec()), Step::Close]),
    lie(Request, "a byte a second before authentication", |honest| vec![Step::Slowly(honest.all())]),
    lie(Request, "an unknown request", |_| vec![Step::Send(authentication(99, &[])), Step::Silence]),
    lie(Request, "a request of 2 GB", |_| vec![Step::Send(with_length(b'R', i32::MAX, &[0, 0, 0, 10])), Step::Silence]),
    lie(Request, "a request of length 0", |_| vec![Step::Send(with_length(b'R', 0, &[])), Step::Silence]),
    lie(Request, "no password wanted", |_| {
        let session = [authentication(0, &[]), parameter("server_version", "15.0"), ready(b'I')];
        vec![send(session), Step::Silence]
    }),
    lie(Request, "passwords without an end", |_| vec![Step::Exchange(authentication(3, &[]))]).long(),
    lie(Request, "MD5 without an end", |_| vec![Step::Exchange(authentication(5, b"salt"))]).long(),
    lie(Request, "SCRAM without mechanisms", |_| vec![Step::Send(authentication(10, &[0])), Step::Silence]),
    lie(Request, "SCRAM of an unknown kind", |_| vec![Step::Send(authentication(10, b"SCRAM-MD4\0\0")), Step::Silence]),
    lie(Request, "SCRAM without a list's end", |_| {
        vec![Step::Send(authentication(10, b"SCRAM-SHA-256")), Step::Silence]
    }),
    lie(Request, "GSS", |_| vec![Step::Send(authentication(7, &[])), Step::Silence]),
    lie(Request, "SSPI", |_| vec![Step::Send(authentication(9, &[])), Step::Silence]),
    lie(Request, "Kerberos", |_| vec![Step::Send(authentication(2, &[])), Step::Silence]),
    lie(Request, "another version", |_| {
        vec![Step::Send(message(b'v', &[0, 2, 0, 0, 0, 0, 0, 1, b'_', b'p', 0])), Step::Silence]
    }),
    lie(Request, "a session without authentication", |_| vec![Step::Send(ready(b'I')), Step::Silence]),
    lie(Request, "a row before authentication", |_| vec![Step::Send(row(&[Some(b"1".into())])), Step::Silence]),
    lie(Request, "an error of an old server", |_| vec![Step::Send(b"Efatal: too old\0".into()), Step::Close]),
    lie(Request, "an error without fields at first", |_| vec![Step::Send(fields(b'E', &[])), Step::Close]),
    lie(Request, "an error of 90 MB at first", |_| vec![Step::Send(error("28000", &"x".repeat(LARGE))), Step::Close])
        .long(),
    lie(Request, "an error in no encoding at first", |_| {
        vec![Step::Send(fields(b'E', &[(b'S', b"FATAL"), (b'C', b"28P01"), (b'M', &[0xFF; 300])])), Step::Close]
    }),
    lie(Request, "too many clients", |_| {
        vec![Step::Send(error("53300", "sorry, too many clients already")), Step::Close]
    }),
    lie(Request, "starting up", |_| {
        vec![Step::Send(error("57P03", "the database system is starting up")), Step::Close]
    }),
    lie(Request, "noise before authentication", |_| vec![Step::Send(vec![0xA5; 4096]), Step::Close]),
    lie(Request, "notices before authentication", |_| {
        let notices = piece(&fields(b'N', &[(b'S', b"NOTICE"), (b'M', b"wait")]));
        vec![Step::Flood(Box::new(move |_| notices.clone()))]
    })
    .long(),
    lie(Challenge, "silence after the first proof", |_| vec![Step::Silence]),
    lie(Challenge, "another client's nonce", |_| challenged("r=someoneelse,s=c2FsdHNhbHRzYWx0c2E=,i=4096")),
    lie(Challenge, "no salt", |honest| challenged(&challenge(honest, |_, iterations| ("".into(), iterations)))),
    lie(Challenge, "no iterations", |honest| challenged(&challenge(honest, |salt, _| (salt, "".into())))),
    lie(Challenge, "zero iterations", |honest| challenged(&challenge(honest, |salt, _| (salt, "0".into())))),
    lie(Challenge, "negative iterations", |honest| challenged(&challenge(honest, |salt, _| (salt, "-1".into())))),
    lie(Challenge, "two billion iterations", |honest| {
        challenged(&challenge(honest, |salt, _| (salt, "2147483647".into())))
    })
    .computing(),
    lie(Challenge, "four million iterations", |honest| {
        challenged(&challenge(honest, |salt, _| (salt, "4000000".into())))
    })
    .computing(),
    lie(Challenge, "a challenge without an end", |honest| vec![Step::Exchange(honest.all())]).long(),
    lie(Signature, "a wrong signature", |_| {
        vec![Step::Send(authentication(12, b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")), Step::Silence]
    }),
    lie(Signature, "an error for a signature", |_| {
        vec![Step::Send(authentication(12, b"e=other-error")), Step::Silence]
    }),
    lie(Signature, "signatures without an end", |honest| {
        let signatures = piece(&honest.all());
        vec![Step::Flood(Box::new(move |_| signatures.clone()))]
    })
    .long(),
    lie(Authenticated, "silence after authentication", |honest| vec![Step::Send(honest.all()), Step::Silence]),
    lie(Authenticated, "the end after authentication", |honest| vec![Step::Send(honest.all()), Step::Close]),
    lie(Authenticated, "authenticated without an end", |honest| {
        let again = piece(&honest.all());
        vec![Step::Flood(Box::new(move |_| again.clone()))]
    })
    .long(),
    lie(Authenticated, "an error after authentication", |honest| {
        vec![send([honest.all(), error("3D000", "database does not exist")]), Step::Close]
    }),
    lie(Authenticated, "a flood of notices at first", |honest| {
        let notices = piece(&fields(b'N', &[(b'S', b"NOTICE"), (b'M', b"wait")]));
        vec![Step::Send(honest.all()), Step::Flood(Box::new(move |_| notices.clone()))]
    })
    .long(),
    lie(Authenticated, "a flood of parameters at first", |honest| {
        vec![Step::Send(honest.all()), Step::Flood(Box::new(distinct_parameters))]
    })
    .long(),
    lie(Authenticated, "a flood of notifications at first", |honest| {
        let all = piece(&notification("early"));
        vec![Step::Send(honest.all()), Step::Flood(Box::new(move |_| all.clone()))]
    })
    .long(),
    odd(Authenticated, "client_encoding LATIN1 at first", |honest| {
        vec![send([honest.all(), parameter("client_encoding", "LATIN1")])]
    }),
    odd(Authenticated, "a server of version 1", |honest| vec![send([honest.all(), parameter("server_version", "1")])]),
    odd(Key, "no key", |_| Vec::new()),
    odd(Key, "two keys", |honest| vec![send([honest.all(), honest.all()])]),
    odd(Key, "the key of nobody", |_| vec![Step::Send(message(b'K', &[0; 8]))]),
    odd(Key, "a key of another length", |_| vec![Step::Send(message(b'K', &[1; 32]))]),
    odd(Key, "a key too short", |_| vec![Step::Send(message(b'K', &[1, 2]))]),
    lie(Ready, "never ready", |_| vec![Step::Silence]),
    lie(Ready, "the end instead of ReadyForQuery", |_| vec![Step::Close]),
    lie(Ready, "COPY instead of ReadyForQuery", |_| vec![Step::Send(message(b'H', &[0, 0, 1, 0, 0])), Step::Silence]),
    lie(Ready, "a row instead of ReadyForQuery", |_| vec![Step::Send(row(&[None])), Step::Silence]),
    odd(Ready, "ready twice", |honest| vec![send([honest.all(), honest.all()])]),
    lie(Ready, "ready within a transaction", |_| vec![Step::Send(ready(b'T'))]),
    lie(Ready, "ready within a transaction that has failed", |_| vec![Step::Send(ready(b'E'))]),
];

fn challenged(text: &str) -> Vec<Step> {
    vec![Step::Send(authentication(11, text.as_bytes())), Step::Silence]
}

/// Returns the server's first message of SCRAM, with another salt or another number of iterations.
fn challenge(honest: &Honest, change: fn(String, String) -> (String, String)) -> String {
    let text = String::from_utf8_lossy(&honest.messages[0].body[4..]).into_owned();
    let part = |key: &str| text.split(',').find_map(|part| part.strip_prefix(key)).unwrap_or_default().to_owned();
    let (salt, iterations) = change(part("s="), part("i="));
    format!("r={},s={salt},i={iterations}", part("r="))
}
