//! Measures the time for one canonical form: `cargo bench -p claims-names`. Fails if it exceeds the promised limits.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use claims_names::Profile;

const CALLS: u32 = 20_000;

fn main() -> ExitCode {
    let started = Instant::now();
    black_box(Profile::Username.canonical(black_box("Жuk한"))).ok();
    println!("first call                                     {:>10.0?}", started.elapsed());

    let micros = Duration::from_micros;
    let cases = [
        ("username, 30 ASCII, lower case", Profile::Username, "ada.lovelace-1815_example-name", Some(micros(5))),
        ("username, 30 ASCII, capitals", Profile::Username, "Ada.Lovelace-1815_Example-Name", Some(micros(5))),
        (
            "username, 30 of mixed scripts",
            Profile::Username,
            "Ädaе́Жукλόγος한국어カタカナ漢字देवनागरीxy",
            Some(micros(20)),
        ),
        (
            "username, 30 decomposed",
            Profile::Username,
            "A\u{308}e\u{301}o\u{302}u\u{308}n\u{303}c\u{327}A\u{30A}E\u{300}I\u{308}O\u{303}U\u{301}Y\u{301}z\u{30C}s\u{30C}g\u{306}",
            Some(micros(20)),
        ),
        ("username, 30 from right to left", Profile::Username, "שלוםעולםשלוםעולםשלוםעולםשלוםעו", Some(micros(20))),
        ("exact, 30 of mixed scripts", Profile::Exact, "Ädaе́Жукλόγος한국어カタカナ漢字देवनागरीxy", None),
        ("casefold, 30 ASCII, capitals", Profile::Casefold, "Ada.Lovelace-1815_Example-Name", None),
        ("casefold, 30 of mixed scripts", Profile::Casefold, "Ädaе́Жукλόγος한국어カタカナ漢字देवनागरीxy", None),
        ("path, ASCII", Profile::Path, "Gitlab-Org/Sub-Group/A-Project", None),
        ("domain, ASCII", Profile::Domain, "www.Example-Domain-Name.co.uk", None),
        ("domain, umlauts", Profile::Domain, "www.Bücher-und-Käse.example.de", None),
        ("email, ASCII", Profile::Email, "Ada.Lovelace+1@Mail.Example.com", None),
    ];
    let mut slow = false;
    for (what, profile, name, limit) in cases {
        let each = measure(|| drop(black_box(profile.canonical(black_box(name)))));
        slow |= report(what, each, limit);
    }
    let each = measure(|| drop(black_box(claims_names::skeleton(black_box("ada.lovelace-1815_example-name")))));
    slow |= report("skeleton, 30 ASCII", each, None);
    if slow { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns the time of the fastest of ten rounds. Slower rounds were disturbed by other processes.
fn measure(call: impl Fn()) -> Duration {
    let round = || {
        let started = Instant::now();
        (0..CALLS).for_each(|_| call());
        started.elapsed() / CALLS
    };
    (0..10).map(|_| round()).min().unwrap_or_default()
}

fn report(what: &str, each: Duration, limit: Option<Duration>) -> bool {
    let slow = limit.is_some_and(|limit| each > limit);
    println!("{what:<45} {each:>10.0?}{}", if slow { "  too slow" } else { "" });
    slow
}
