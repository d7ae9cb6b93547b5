//! Compares the profiles with independent data: Unicode's own test files, and tables of Debian's packages.

mod common;

use std::collections::BTreeSet;

use claims_names::{Profile, skeleton};
use common::{crate_file, debian_file, every_char, fields, from_hex};
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

fn casefold(text: &str) -> String {
    Profile::Casefold.canonical(text).unwrap_or_else(|problem| panic!("{text:?}: {problem}")).into_owned()
}

/// Runs NormalizationTest.txt of Unicode 18.0, which ICU4X ships.
#[test]
fn normalization_test() {
    let (nfc, nfd) = (ComposingNormalizerBorrowed::new_nfc(), DecomposingNormalizerBorrowed::new_nfd());
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let file = crate_file("icu_normalizer", "2.4.0", "tests/data/NormalizationTest.txt");
    assert!(file.starts_with("# NormalizationTest-18.0.0.txt"));
    let mut cases = 0;
    for columns in file.lines().filter_map(fields) {
        let c: Vec<String> = columns.iter().take(5).filter_map(|codes| from_hex(codes)).collect();
        let [c1, c2, c3, c4, c5] = c.as_slice() else { panic!("{columns:?}") };
        for text in [c1, c2, c3] {
            assert_eq!(nfc.normalize(text), *c2, "NFC of {columns:?}");
            assert_eq!(nfd.normalize(text), *c3, "NFD of {columns:?}");
            assert_eq!(nfkc.normalize(text), *c4, "NFKC of {columns:?}");
            assert_eq!(casefold(text), casefold(c1), "one name: {columns:?}");
        }
        for text in [c4, c5] {
            assert_eq!(nfc.normalize(text), *c4, "NFC of {columns:?}");
        }
        // The profile `username` accepts all canonical spellings of a text, or none.
        let usernames: BTreeSet<_> = [c1, c2, c3].map(|text| Profile::Username.canonical(text).ok()).into();
        assert_eq!(usernames.len(), 1, "{columns:?}");
        cases += 1;
    }
    assert!(cases > 19_000, "{cases}");
}

/// Compares `casefold` with another implementation of Unicode 18.0's full case folding.
#[test]
fn case_folding_of_every_code_point() {
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    for c in every_char().filter(|c| is_assigned(*c)) {
        // The profile applies NFC first.
        let text = nfc.normalize(c.encode_utf8(&mut [0; 4])).into_owned();
        assert!(focaccia::CaseFold::Full.case_eq(&casefold(&text), &text), "{c:?}");
    }
}

/// Compares `casefold` with CaseFolding.txt of Debian (15.0 in Debian 12). Unicode never changes the folding of a code
/// point.
#[test]
fn case_folding_file() {
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    let file = debian_file("unicode-data", "/usr/share/unicode/CaseFolding.txt");
    let mut folded = BTreeSet::new();
    for columns in file.lines().filter_map(fields) {
        let [code, status, mapping, ..] = columns.as_slice() else { panic!("{columns:?}") };
        if matches!(*status, "C" | "F") {
            let (code, mapping) = (from_hex(code).expect("a code"), from_hex(mapping).expect("codes"));
            // The profile applies NFC first, which turns some code points into others.
            if nfc.is_normalized(&code) {
                assert_eq!(casefold(&code), nfc.normalize(&mapping), "{columns:?}");
            }
            folded.insert(code);
        }
    }
    assert!(folded.len() > 1_400);
    // Nothing else of that Unicode version is folded.
    let age = debian_file("unicode-data", "/usr/share/unicode/DerivedAge.txt");
    for c in age.lines().filter_map(fields).flat_map(|columns| range(columns[0])) {
        let text = c.to_string();
        if !folded.contains(&text) && nfc.is_normalized(&text) && is_assigned(c) {
            assert_eq!(casefold(&text), text);
        }
    }
}

/// Parses `0041..005A`, and leaves out surrogates.
fn range(codes: &str) -> impl Iterator<Item = char> + use<> {
    let (first, last) = codes.split_once("..").unwrap_or((codes, codes));
    let parse = |code: &str| u32::from_str_radix(code, 16).expect("a code point");
    (parse(first)..=parse(last)).filter_map(char::from_u32)
}

fn is_assigned(c: char) -> bool {
    Profile::Casefold.canonical(c.encode_utf8(&mut [0; 4])).is_ok()
}

/// Runs IdnaTestV2.txt of Unicode 16.0, which idna ships. With CheckHyphens the file also refuses hyphens in the third
/// and fourth position (V2), and it refuses the root's dot (A4_2). The profile accepts both on purpose, so these cases
/// are counted separately, like code points that Unicode has assigned since (V7).
#[test]
fn idna_test() {
    let file = crate_file("idna", "1.1.0", "tests/IdnaTestV2.txt");
    let (mut good, mut bad, mut ours) = (0, 0, 0);
    let mut wrong = Vec::new();
    for columns in file.lines().filter_map(fields) {
        let [source, unicode, unicode_status, ascii, ascii_status, ..] = columns.as_slice() else {
            panic!("{columns:?}")
        };
        let Some(source) = unescape(source) else { continue };
        let or = |own: &str, other: &str| if own.is_empty() { other.to_owned() } else { own.to_owned() };
        let status = or(ascii_status, unicode_status);
        let expected_unicode = unescape(&or(unicode, &source)).unwrap_or_default();
        let expected = if ascii.is_empty() { expected_unicode.clone() } else { (*ascii).to_owned() };
        let found = Profile::Domain.canonical(&source);
        let codes: BTreeSet<&str> =
            status.trim_matches(['[', ']']).split(", ").filter(|code| !code.is_empty()).collect();
        if codes.is_empty() {
            good += 1;
            if found.as_deref() != Ok(expected.as_str()) {
                wrong.push(format!("{source:?}: {found:?} instead of {expected:?}"));
            }
        } else if codes
            .iter()
            .all(|code| matches!(*code, "V2" | "A4_2") || *code == "V7" && expected_unicode.chars().any(is_new))
        {
            // The profile accepts it or refuses it for another reason, but never maps it to another name.
            ours += 1;
            if let Ok(found) = found {
                assert_eq!(found.trim_end_matches('.'), expected.trim_end_matches('.'), "{source:?}");
            }
        } else {
            bad += 1;
            if let Ok(found) = found {
                wrong.push(format!("{source:?} taken as {found:?}, against {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), good + bad, wrong.join("\n"));
    assert!(good > 500 && bad > 5_500 && ours > 100, "{good} {bad} {ours}");
}

/// Returns whether a character is new in Unicode 16.0 or later.
fn is_new(c: char) -> bool {
    use icu_properties_old::{GeneralCategory, maps};
    maps::general_category().get(c) == GeneralCategory::Unassigned && is_assigned(c)
}

/// Decodes `\u0061` and `\x{61}`; returns None for lone surrogates.
fn unescape(text: &str) -> Option<String> {
    if text == "\"\"" {
        return Some(String::new());
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (code, next) = match rest[at + 1..].strip_prefix("x{") {
            Some(braced) => braced.split_once('}')?,
            None => rest.get(at + 2..)?.split_at_checked(4)?,
        };
        out.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
        rest = next;
    }
    out.push_str(rest);
    Some(out)
}

/// Checks the pairs of Debian's confusable-homoglyphs, which has Unicode's confusables.txt of 2022. Prototypes change
/// with versions: 218 of 12,614 pairs are no longer confusable.
#[test]
fn confusables() {
    let path = "/usr/lib/python3/dist-packages/confusable_homoglyphs/confusables.json";
    let file = debian_file("python3-confusable-homoglyphs", path);
    let pairs: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&file).expect("JSON");
    let (mut alike, mut other) = (0, Vec::new());
    for (text, look_alikes) in &pairs {
        for look_alike in look_alikes.as_array().into_iter().flatten().filter_map(|one| one["c"].as_str()) {
            if skeleton(text) == skeleton(look_alike) {
                alike += 1;
            } else {
                other.push(format!("{text:?} {look_alike:?}"));
            }
        }
    }
    assert!(alike > 12_000, "{alike}");
    assert!(other.len() <= 218, "{} of {}: {}", other.len(), alike + other.len(), other.join("\n"));
}
