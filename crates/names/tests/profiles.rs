//! Tests the canonical form of each profile, and the reasons for which it refuses names.

use claims_names::{Confusables, Profile, skeleton};

/// Returns the canonical form, or the problem as text.
fn outcome(profile: Profile, input: &str) -> String {
    match profile.canonical(input) {
        Ok(canonical) => canonical.into_owned(),
        Err(problem) => format!("! {problem}"),
    }
}

fn expect(profile: Profile, cases: &[(&str, &str)]) {
    for (input, expected) in cases {
        assert_eq!(outcome(profile, input), *expected, "{profile}: {input:?}");
    }
}

#[test]
fn names_of_profiles_and_choices() {
    let names = Profile::ALL.map(Profile::name);
    assert_eq!(names, ["exact", "casefold", "username", "domain", "email", "path"]);
    for profile in Profile::ALL {
        assert_eq!(Profile::parse(profile.name()), Some(profile));
    }
    for choice in Confusables::ALL {
        assert_eq!(Confusables::parse(choice.name()), Some(choice));
    }
    for unknown in ["", "Exact", "exact ", "nickname"] {
        assert_eq!((Profile::parse(unknown), Confusables::parse(unknown)), (None, None));
    }
    assert_eq!((Profile::default(), Confusables::default()), (Profile::Exact, Confusables::Allow));
}

#[test]
fn exact() {
    expect(
        Profile::Exact,
        &[
            ("Ada", "Ada"),
            ("e\u{301}", "e\u{301}"),
            (" a\u{378}\n", " a\u{378}\n"),
            ("", "! the name is empty"),
            (&"a".repeat(1025), "! the name has 1025 characters, more than 1024"),
            (&"😀".repeat(651), "! the name has 2604 bytes in its canonical form, more than 2600"),
        ],
    );
}

#[test]
fn casefold() {
    expect(
        Profile::Casefold,
        &[
            ("Ada Lovelace", "ada lovelace"),
            ("E\u{301}cole", "école"),
            ("STRASSE", "strasse"),
            ("Straße", "strasse"),
            ("ΟΔΟΣ", "οδοσ"),
            ("οδος", "οδοσ"),
            ("ᾳ", "αι"),
            ("ΑΙ", "αι"),
            ("Ꭰꭰ", "ᎠᎠ"),
            ("İ", "i\u{307}"),
            ("a\u{378}", "! character 2 (U+0378) is not assigned in Unicode 18.0.0"),
            ("a\u{FFFF}", "! character 2 (U+FFFF) is not assigned in Unicode 18.0.0"),
        ],
    );
}

#[test]
fn username() {
    expect(
        Profile::Username,
        &[
            ("Ada", "ada"),
            ("Straße", "straße"),
            ("\u{212A}elvin", "kelvin"),
            ("a\u{378}", "! character 2 (U+0378) is not assigned in Unicode 18.0.0"),
            ("a\u{200B}b", "! character 2 (U+200B) is an invisible character"),
            ("a\u{7}", "! character 2 (U+0007) is a control character"),
            ("aＡ b", "! character 3 (U+0020) is a space"),
            ("a\u{E000}", "! character 2 (U+E000) is for private use"),
            ("a😀", "! character 2 (U+1F600) is a symbol"),
            ("\u{1F88}", "! character 1 (U+1F88) is a titlecase letter"),
            ("e\u{301}a·b", "! character 4 (U+00B7) may stand only between two letters l"),
            ("l·la·", "! character 5 (U+00B7) may stand only between two letters l"),
            (
                "ＡB\u{5D0}",
                "! character 3 (U+05D0) breaks the rule for text from right to left: both directions in one name",
            ),
        ],
    );
}

#[test]
fn domain() {
    let long = "a".repeat(64);
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
    expect(
        Profile::Domain,
        &[
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BU\u{308}CHER\u{3002}example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("faß.de", "xn--fa-hia.de"),
            ("my--site.example", "my--site.example"),
            ("r3---sn.example", "r3---sn.example"),
            (&longest, &longest),
            (".", "! the name is empty"),
            ("a..b", "! label 2 of the domain is empty"),
            ("a.b..", "! label 3 of the domain is empty"),
            (".a", "! label 1 of the domain is empty"),
            ("a\u{AD}.\u{AD}", "a"),
            ("a.\u{AD}.b", "! label 2 of the domain is empty"),
            ("b.-a", "! label 2 of the domain starts or ends with a hyphen"),
            ("under_score.com", "! character 6 (U+005F) is nothing that a domain can have"),
            ("a b.com", "! character 2 (U+0020) is nothing that a domain can have"),
            ("a.b\u{378}", "! character 4 (U+0378) is not assigned in Unicode 18.0.0"),
            (&format!("b.{long}"), "! label 2 of the domain has more than 63 octets"),
            (&format!("{longest}a"), "! the name has more than 253 octets"),
            (
                "xn--a.com",
                "! label 1 of the domain is no A-label: what stands behind xn-- does not decode to a valid label",
            ),
            (
                "xn--xn--a--gua.pt",
                "! label 1 of the domain is no A-label: what stands behind xn-- does not decode to a valid label",
            ),
            (
                "a\u{200D}b.com",
                "! label 1 of the domain breaks a rule of UTS #46: on its first character, joiners, or direction",
            ),
            ("\u{5D0}.1a", "! the domain breaks the rule for text from right to left: labels that do not go together"),
        ],
    );
}

#[test]
fn email() {
    expect(
        Profile::Email,
        &[
            ("Ada@Example.COM", "ada@example.com"),
            ("ada.l+tag@example.com.", "ada.l+tag@example.com"),
            ("Dvořák@BÜCHER.example", "dvořák@xn--bcher-kva.example"),
            ("..a..@example.com", "..a..@example.com"),
            ("ada", "! the name has no @"),
            ("@example.com", "! the part before the @ is empty"),
            ("ada@", "! the domain is empty"),
            ("ada@.", "! the domain is empty"),
            ("a@b@c.com", "! character 2 (U+0040) is a second @"),
            ("a b@c.com", "! character 2 (U+0020) is a space"),
            ("a\u{A0}b@c.com", "! character 2 (U+00A0) is a space"),
            ("a\n@c.com", "! character 2 (U+000A) is a control character"),
            ("\"a\"@c.com", "! character 1 (U+0022) is a quotation mark, and quoted addresses are not taken"),
            ("é\u{37E}@c.com", "! character 2 (U+037E) is a special character, which an unquoted address cannot have"),
            ("ada@under_score.com", "! character 10 (U+005F) is nothing that a domain can have"),
            ("ada@[127.0.0.1]", "! character 5 (U+005B) is nothing that a domain can have"),
            ("a@b..c", "! label 2 of the domain is empty"),
            (&format!("a@{}.com", "b".repeat(64)), "! label 1 of the domain has more than 63 octets"),
            (&format!("a@{}com", "b.".repeat(126)), "! the domain has more than 253 octets"),
        ],
    );
}

#[test]
fn path() {
    expect(
        Profile::Path,
        &[
            ("Gitlab-Org/GitLab", "gitlab-org/gitlab"),
            ("a/.b/..c/...", "a/.b/..c/..."),
            ("E\u{301}/x", "é/x"),
            ("/a", "! segment 1 of the path is empty"),
            ("a//b", "! segment 2 of the path is empty"),
            ("a/", "! segment 2 of the path is empty"),
            ("a/./b", "! segment 2 of the path is . or .."),
            ("é/..", "! segment 2 of the path is . or .."),
            ("a/\u{378}", "! character 3 (U+0378) is not assigned in Unicode 18.0.0"),
        ],
    );
}

#[test]
fn look_alikes_have_one_skeleton() {
    for (one, other) in [("paypal", "pаypаl"), ("rnicrosoft", "microsoft"), ("admin", "аdmin"), ("l0l", "1Ol")] {
        assert_ne!(one, other);
        assert_eq!(skeleton(one), skeleton(other));
    }
    assert_ne!(skeleton("ada"), skeleton("eve"));
}

/// People see the letters of a domain, not its A-labels.
#[test]
fn domains_are_compared_as_they_are_shown() {
    let canonical = |input| Profile::Domain.canonical(input).expect("a domain").into_owned();
    let (latin, cyrillic) = (canonical("scope.example"), canonical("ѕсоре.example"));
    assert!(cyrillic.starts_with("xn--"));
    assert_eq!(Profile::Domain.skeleton(&latin), Profile::Domain.skeleton(&cyrillic));
    assert_eq!(Profile::Email.skeleton(&format!("ada@{latin}")), Profile::Email.skeleton(&format!("аdа@{cyrillic}")));
    assert_ne!(Profile::Exact.skeleton(&latin), Profile::Exact.skeleton(&cyrillic), "its bytes do not look like it");
}
