//! Tests the examples of RFC 8265, 3.5, and the RFC's remarks on them.

use std::borrow::Cow;

use claims_names::{NameFault, NamePart, Profile};

fn username(input: &str) -> Result<Cow<'_, str>, claims_names::NameProblem> {
    Profile::Username.canonical(input)
}

#[test]
fn table_1_legal_user_names() {
    for (input, canonical) in [
        ("juliet@example.com", "juliet@example.com"),
        ("fussball", "fussball"),
        ("fu\u{DF}ball", "fu\u{DF}ball"),
        ("\u{3C0}", "\u{3C0}"),
        ("\u{3A3}", "\u{3C3}"),
        ("\u{3C3}", "\u{3C3}"),
        ("\u{3C2}", "\u{3C2}"),
    ] {
        assert_eq!(username(input).as_deref(), Ok(canonical));
    }
    // "The usernames in examples 2 and 3 are different"; 5 and 6 match, 7 matches neither.
    assert_ne!(username("fussball"), username("fu\u{DF}ball"));
    assert_eq!(username("\u{3A3}"), username("\u{3C3}"));
    assert_ne!(username("\u{3C2}"), username("\u{3C3}"));
}

#[test]
fn table_2_what_is_no_user_name() {
    for (input, code_point, position, kind) in [
        ("foo bar", ' ', 4, "a space"),
        ("henry\u{2163}", '\u{2163}', 6, "a compatibility form of other characters"),
        ("\u{265A}", '\u{265A}', 1, "a symbol"),
    ] {
        let problem = username(input).expect_err(input);
        assert_eq!(problem.place, NamePart::Character { code_point, position });
        assert_eq!(problem.reason, NameFault::Forbidden(kind));
    }
    assert_eq!(username("").expect_err("empty").reason, NameFault::Empty);
}

/// Tests the rules of RFC 8265, 3.3.1.
#[test]
fn width_case_and_composition() {
    assert_eq!(username("ＡＤＡ").as_deref(), Ok("ada"));
    assert_eq!(username("ｶﾞ").as_deref(), Ok("ガ"));
    assert_eq!(username("E\u{301}").as_deref(), Ok("é"));
    assert_eq!(username("ОДИН").as_deref(), Ok("один"));
    // Unicode's toLowerCase() maps a sigma at the end of a word to the final sigma.
    assert_eq!(username("ΟΔΟΣ").as_deref(), Ok("οδος"));
    assert_eq!(username("\u{1112}\u{1161}\u{11AB}").as_deref(), Ok("한"));
}

/// Tests the Bidi rule of RFC 5893, 2.
#[test]
fn the_bidi_rule() {
    let direction = |input: &str| match username(input) {
        Err(problem) => match (problem.reason, problem.place) {
            (NameFault::Direction(rule), NamePart::Character { position, .. }) => (position, rule),
            other => panic!("{input:?}: {other:?}"),
        },
        Ok(_) => (0, ""),
    };
    let first = "it cannot be the first character";
    let last = "it cannot be the last character";
    let mixed = "both directions in one name";
    let digits = "both European and Arabic digits in one name";
    assert_eq!(direction("\u{5D0}\u{5D1}"), (0, ""));
    assert_eq!(direction("\u{5D0}1"), (0, ""));
    assert_eq!(direction("\u{5D0}\u{5B0}"), (0, ""), "a mark may end it");
    assert_eq!(direction("1\u{5D0}"), (1, first), "condition 1");
    assert_eq!(direction("\u{5D0}a"), (2, mixed), "condition 2");
    assert_eq!(direction("\u{5D0}-"), (2, last), "condition 3");
    assert_eq!(direction("\u{5D0}1\u{660}"), (3, digits), "condition 4");
    assert_eq!(direction("\u{5D0}\u{660}1"), (3, digits), "condition 4");
    assert_eq!(direction("a\u{5D0}"), (2, mixed), "condition 5");
    assert_eq!(direction("a-"), (0, ""), "no name from right to left: no rule");
    assert_eq!(direction("a\u{661}"), (2, mixed), "Arabic digits are text from right to left");
}

/// Tests RFC 5892, A.1 to A.9.
#[test]
fn the_contextual_rules() {
    let cases = [
        ("\u{915}\u{94D}\u{200C}\u{937}", true, "A.1: behind a virama"),
        ("\u{628}\u{200C}\u{628}", true, "A.1: between letters that join"),
        ("\u{628}\u{64B}\u{200C}\u{64B}\u{628}", true, "A.1: with transparent marks"),
        ("\u{627}\u{200C}\u{628}", false, "A.1: alef does not join to its left"),
        ("\u{628}\u{200C}", false, "A.1: nothing behind"),
        ("a\u{200C}b", false, "A.1: Latin"),
        ("\u{915}\u{94D}\u{200D}\u{937}", true, "A.2: behind a virama"),
        ("\u{628}\u{200D}\u{628}", false, "A.2: not between letters that join"),
        ("l\u{B7}l", true, "A.3"),
        ("L\u{B7}L", true, "A.3: in capitals"),
        ("l\u{B7}a", false, "A.3"),
        ("\u{B7}l", false, "A.3"),
        ("\u{375}\u{3B1}", true, "A.4"),
        ("\u{375}a", false, "A.4"),
        ("\u{5D0}\u{5F3}", true, "A.5"),
        ("a\u{5F3}", false, "A.5"),
        ("\u{5D0}\u{5F4}\u{5D1}", true, "A.6"),
        ("a\u{30FB}\u{30A2}", true, "A.7"),
        ("a\u{30FB}b", false, "A.7"),
        ("\u{628}\u{660}", true, "A.8"),
        ("\u{628}\u{660}\u{6F0}", false, "A.8"),
        ("\u{628}\u{6F0}\u{660}", false, "A.9"),
        ("\u{628}\u{6F0}", true, "A.9"),
    ];
    for (input, taken, rule) in cases {
        assert_eq!(username(input).is_ok(), taken, "{rule}: {input:?}");
    }
}
