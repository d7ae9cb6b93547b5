//! Checks that everything that decides about names has one Unicode version. The crates that name their version are
//! checked where they are used. This file compares the tables code point by code point, and so checks the other crates,
//! too.

mod common;

use claims_names::{Profile, UNICODE_VERSION};
use common::every_char;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, Script};
use unicode_normalization::UnicodeNormalization;
use unicode_properties::UnicodeGeneralCategory;
use unicode_script::UnicodeScript;

#[test]
fn is_the_version_that_the_documentation_names() {
    assert_eq!(UNICODE_VERSION, "18.0.0");
    let number = |(major, minor, update): (u64, u64, u64)| format!("{major}.{minor}.{update}");
    assert_eq!(number(unicode_security::UNICODE_VERSION), UNICODE_VERSION);
    assert_eq!(number(unicode_script::UNICODE_VERSION), UNICODE_VERSION);
    assert_eq!(number(unicode_properties::UNICODE_VERSION), UNICODE_VERSION);
    let (major, minor, update) = unicode_normalization::UNICODE_VERSION;
    assert_eq!(format!("{major}.{minor}.{update}"), UNICODE_VERSION);
    let (major, minor, update) = focaccia::UNICODE_VERSION;
    assert_eq!(format!("{major}.{minor}.{update}"), UNICODE_VERSION);
}

#[test]
fn categories_are_those_of_another_crate() {
    let categories = CodePointMapData::<GeneralCategory>::new();
    for c in every_char() {
        assert_eq!(format!("{:?}", categories.get(c)), format!("{:?}", c.general_category()), "{c:?}");
    }
}

#[test]
fn scripts_are_those_of_another_crate() {
    use unicode_script::Script as Other;
    let scripts = CodePointMapData::<Script>::new();
    let pairs = [
        (Script::Greek, Other::Greek),
        (Script::Hebrew, Other::Hebrew),
        (Script::Hiragana, Other::Hiragana),
        (Script::Katakana, Other::Katakana),
        (Script::Han, Other::Han),
    ];
    for c in every_char() {
        for (ours, theirs) in pairs {
            assert_eq!(scripts.get(c) == ours, c.script() == theirs, "{c:?} {ours:?}");
        }
    }
}

#[test]
fn both_normalizers_agree() {
    let (nfc, nfd) = (ComposingNormalizerBorrowed::new_nfc(), DecomposingNormalizerBorrowed::new_nfd());
    for c in every_char() {
        // The character alone, and with a mark that composes with many letters.
        for text in [c.to_string(), format!("{c}\u{301}"), format!("a{c}\u{323}")] {
            assert_eq!(nfc.normalize(&text), text.nfc().collect::<String>(), "{text:?}");
            assert_eq!(nfd.normalize(&text), text.nfd().collect::<String>(), "{text:?}");
        }
    }
}

/// Checks idna, which does not name its version. It reads the tables of ICU4X, so it must know the newest letters of
/// ICU4X.
#[test]
fn idna_has_the_same_tables() {
    let categories = CodePointMapData::<GeneralCategory>::new();
    let older = icu_properties_old::maps::general_category();
    let mut newer = 0;
    for c in every_char() {
        let category = categories.get(c);
        let known = older.get(c) != icu_properties_old::GeneralCategory::Unassigned;
        let domain = Profile::Domain.canonical(c.encode_utf8(&mut [0; 4])).map(|found| found.into_owned());
        if category == GeneralCategory::Unassigned {
            assert!(domain.is_err(), "{c:?} is not assigned");
        } else if !known && matches!(category, GeneralCategory::LowercaseLetter | GeneralCategory::OtherLetter) {
            assert!(domain.is_ok(), "{c:?} is new: {domain:?}");
            newer += 1;
        }
    }
    // Unicode 16 has 5,185 new characters, 17 has 4,803, most of them letters.
    assert!(newer > 5_000, "{newer}");
}

/// Checks that no other version of a crate with tables is linked, except those for the upgrade test.
#[test]
fn nothing_else_is_linked() {
    let lock = include_str!("../../../Cargo.lock");
    let versions = |name: &str| {
        let wanted = format!("name = \"{name}\"");
        let mut lines = lock.lines();
        let mut found = Vec::new();
        while lines.by_ref().any(|line| line == wanted) {
            found.extend(lines.next().and_then(|line| line.strip_prefix("version = ")));
        }
        found
    };
    assert_eq!(versions("icu_normalizer"), ["\"1.5.0\"", "\"2.4.0\""]);
    assert_eq!(versions("icu_normalizer_data"), ["\"1.5.1\"", "\"2.4.0\""]);
    assert_eq!(versions("icu_properties_data"), ["\"1.5.1\"", "\"2.4.0\""]);
    assert_eq!(versions("icu_casemap_data"), ["\"1.5.1\"", "\"2.4.0\""]);
    assert_eq!(versions("idna_adapter"), ["\"1.2.2\""]);
    assert_eq!(versions("unicode-security"), ["\"0.1.3\""]);
    assert_eq!(versions("unicode-normalization"), ["\"0.1.26\""]);
}

/// Checks that `cargo update` changes no crate with tables: a new Unicode version is a release of its own.
#[test]
fn every_dependency_is_pinned_exactly() {
    let manifest = include_str!("../Cargo.toml");
    let (_, rest) = manifest.split_once("[dependencies]\n").expect("dependencies");
    let (dependencies, dev) = rest.split_once("[dev-dependencies]\n").expect("dev-dependencies");
    let named = |section: &'static str| {
        section.lines().filter_map(|line| line.split_once(" = ")).filter(|(name, _)| !name.starts_with('#'))
    };
    assert!(named(dependencies).count() >= 11);
    for (name, version) in named(dependencies) {
        assert!(version.contains("\"="), "{name} {version}");
    }
    // The crates that serve as a comparison are pinned, too.
    for (name, version) in
        named(dev).filter(|(name, _)| !matches!(*name, "proptest" | "serde_json" | "name" | "harness"))
    {
        assert!(version.contains("\"="), "{name} {version}");
    }
}
