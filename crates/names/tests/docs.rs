//! Compares the table of spellings in docs/internals/names.md with the code.
//! `UPDATE_DOCS=1 cargo test -p claims-names --test docs` writes it.

use std::{env, fs};

use claims_names::{NameProblem, Profile};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/names.md");
const START: &str = "<!-- spellings -->\n";
const END: &str = "<!-- /spellings -->";

const SPELLINGS: [(Profile, &[&str]); 6] = [
    (Profile::Exact, &["Ada", "ada", "e\u{301}", "é", "a\u{378}"]),
    (
        Profile::Casefold,
        &["Ada Lovelace", "E\u{301}cole", "ÉCOLE", "Straße", "STRASSE", "ΟΔΟΣ", "İ", "ı", "a\u{200B}b", "a\u{378}"],
    ),
    (
        Profile::Username,
        &[
            "Ada",
            "ＡＤＡ",
            "E\u{301}va",
            "Straße",
            "ΟΔΟΣ",
            "\u{1112}\u{1161}\u{11AB}",
            "ｶﾞﾝ",
            "COL·LEGI",
            "ada_l.99@x",
            "שלום",
            "ada lovelace",
            "a\u{200B}da",
            "ada😀",
            "Ⅳ",
            "a·b",
            "adaש",
            "a\u{378}",
        ],
    ),
    (
        Profile::Domain,
        &[
            "Example.COM",
            "example.com.",
            "Bücher.example",
            "BU\u{308}CHER。example",
            "XN--BCHER-KVA.example",
            "faß.de",
            "r3---sn.example.com",
            "a..b",
            "under_score.com",
            "-a.com",
            "xn--a.com",
        ],
    ),
    (
        Profile::Email,
        &[
            "Ada@Example.COM",
            "ada.l+tag@example.com",
            "Dvořák@Bücher.example",
            "\"ada\"@example.com",
            "a da@example.com",
            "ada",
            "@example.com",
        ],
    ),
    (
        Profile::Path,
        &["Gitlab-Org/GitLab", "gitlab-org/gitlab", "Équipe/x", "a.b/.c", "/a", "a//b", "a/", "a/../b", "."],
    ),
];

/// Formats a text as code, with its code points where a reader could not recognize them.
fn shown(text: &str) -> String {
    if text.chars().all(|c| matches!(c, ' '..='~' | 'À'..='ÿ' | 'ř')) {
        return format!("`{text}`");
    }
    let codes: Vec<String> =
        text.chars().filter(|c| !c.is_ascii()).map(|c| format!("U+{:04X}", u32::from(c))).collect();
    let visible: String = text.chars().filter(|c| !matches!(c, '\u{200B}' | '\u{378}')).collect();
    format!("`{visible}` ({})", codes.join(" "))
}

fn outcome(canonical: Result<std::borrow::Cow<'_, str>, NameProblem>) -> String {
    match canonical {
        Ok(canonical) => shown(&canonical),
        Err(problem) => format!("refused: {problem}"),
    }
}

fn table() -> String {
    let mut out = String::from("| profile | given | becomes |\n|---|---|---|\n");
    for (profile, spellings) in SPELLINGS {
        for input in spellings {
            out += &format!("| `{profile}` | {} | {} |\n", shown(input), outcome(profile.canonical(input)));
        }
    }
    out
}

#[test]
fn the_documented_table_is_what_the_code_does() {
    let text = fs::read_to_string(FILE).expect("docs/internals/names.md");
    let (before, rest) = text.split_once(START).expect("the table's start");
    let (documented, after) = rest.split_once(END).expect("the table's end");
    let table = table();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(FILE, format!("{before}{START}{table}{END}{after}")).expect("docs/internals/names.md is written");
        return;
    }
    assert!(documented == table, "docs/internals/names.md differs; UPDATE_DOCS=1 writes this:\n{table}");
}

#[test]
fn the_documentation_names_the_version_and_the_libraries() {
    let text = fs::read_to_string(FILE).expect("docs/internals/names.md");
    assert!(text.contains(&format!("All tables are of Unicode {}", claims_names::UNICODE_VERSION)));
    let manifest = include_str!("../Cargo.toml");
    for (name, version) in [
        ("icu_normalizer", "2.4.0"),
        ("icu_casemap", "2.4.0"),
        ("icu_properties", "2.4.0"),
        ("idna", "1.1.0"),
        ("unicode-security", "0.1.3"),
        ("unicode-normalization", "0.1.26"),
    ] {
        assert!(text.contains(&format!("`{name}`")) && text.contains(version), "{name} {version}");
        assert!(
            manifest
                .lines()
                .any(|line| line.starts_with(&format!("{name} = ")) && line.contains(&format!("\"={version}\""))),
            "{name} {version}"
        );
    }
}
