//! Tests an upgrade of Unicode with two real versions: the profiles run with the tables of 15.1 and with the current
//! ones. The older version refuses code points that it does not know, so every name that it accepted keeps its
//! canonical form.

#![expect(deprecated, reason = "the numbers are all that two major versions of ICU4X have in common")]

use std::borrow::Cow;

use icu_locid_old::LanguageIdentifier;
use icu_properties::props::{BidiClass, GeneralCategory, HangulSyllableType, JoiningType, Script};
use icu_properties_old::{maps, sets};
use idna::uts46::DnsLength;
use proptest::prelude::*;

use crate::tables::{Pinned, UnicodeTables};
use crate::{NameFault, Profile};

/// Unicode 15.1 of ICU4X 1.5, and UTS #46 of idna 0.5.
struct Older;

impl UnicodeTables for Older {
    fn category(c: char) -> GeneralCategory {
        GeneralCategory::try_from(maps::general_category().get(c) as u8).unwrap_or(GeneralCategory::Unassigned)
    }

    fn bidi_class(c: char) -> BidiClass {
        BidiClass::from_icu4c_value(maps::bidi_class().get(c).0)
    }

    fn joining_type(c: char) -> JoiningType {
        JoiningType::from_icu4c_value(maps::joining_type().get(c).0)
    }

    fn script(c: char) -> Script {
        Script::from_icu4c_value(maps::script().get(c).0)
    }

    fn is_virama(c: char) -> bool {
        maps::canonical_combining_class().get(c) == icu_properties_old::CanonicalCombiningClass::Virama
    }

    fn hangul_syllable_type(c: char) -> HangulSyllableType {
        HangulSyllableType::from_icu4c_value(maps::hangul_syllable_type().get(c).0)
    }

    fn is_default_ignorable(c: char) -> bool {
        sets::default_ignorable_code_point().contains(c)
    }

    fn nfc(text: &str) -> Cow<'_, str> {
        Cow::Owned(icu_normalizer_old::ComposingNormalizer::new_nfc().normalize(text))
    }

    fn is_nfkc(text: &str) -> bool {
        icu_normalizer_old::ComposingNormalizer::new_nfkc().is_normalized(text)
    }

    fn lower_case(text: &str) -> Cow<'_, str> {
        Cow::Owned(icu_casemap_old::CaseMapper::new().lowercase_to_string(text, &LanguageIdentifier::UND))
    }

    fn fold_case(text: &str) -> Cow<'_, str> {
        Cow::Owned(icu_casemap_old::CaseMapper::new().fold_string(text))
    }

    fn domain_to_ascii(domain: &str, length: DnsLength) -> Option<Cow<'_, str>> {
        // The root's dot and hyphens do not depend on the Unicode version, so the current idna checks them.
        let config = idna_old::Config::default().use_std3_ascii_rules(true).verify_dns_length(false);
        let ascii = config.to_ascii(domain).ok()?;
        Pinned::domain_to_ascii(&ascii, length).map(|ascii| Cow::Owned(ascii.into_owned()))
    }
}

const FOLDING: [Profile; 5] = [Profile::Casefold, Profile::Username, Profile::Domain, Profile::Email, Profile::Path];

/// Names that contain a character, in the contexts that profiles check.
fn frames(profile: Profile, c: char) -> Vec<String> {
    let texts = [format!("{c}"), format!("a{c}\u{301}b"), format!("\u{5D0}{c}\u{5D0}"), format!("Σ{c}Σ")];
    match profile {
        Profile::Email => vec![format!("{c}@example.com"), format!("a@{c}.com")],
        _ => texts.into(),
    }
}

fn changed_code_points() -> Vec<char> {
    ('\0'..=char::MAX).filter(|c| !Older::is_assigned(*c) && Pinned::is_assigned(*c)).collect()
}

#[test]
fn the_older_tables_are_older() {
    assert!(Older::is_assigned('\u{2FFC}') && !Older::is_assigned('\u{1C89}'), "15.1 and not 16.0");
    assert!(changed_code_points().len() > 9_000);
    assert!(('\0'..=char::MAX).all(|c| !Older::is_assigned(c) || Pinned::is_assigned(c)), "nothing is taken away");
}

#[test]
fn the_older_version_refuses_unknown_code_points() {
    for c in changed_code_points() {
        for profile in FOLDING {
            for text in frames(profile, c) {
                let problem = profile.canonical_with::<Older>(&text).expect_err(&text);
                assert_eq!(problem.reason, NameFault::Unassigned, "{profile}: {text:?}");
            }
        }
        let text = c.to_string();
        assert_eq!(Profile::Exact.canonical_with::<Older>(&text).as_deref(), Ok(text.as_str()), "but for exact");
    }
}

#[test]
fn the_newer_version_accepts_them() {
    let taken = |profile: Profile| {
        changed_code_points().iter().filter(|c| profile.canonical(c.encode_utf8(&mut [0; 4])).is_ok()).count()
    };
    assert_eq!(taken(Profile::Casefold), changed_code_points().len());
    assert!(taken(Profile::Username) > 5_000);
    assert!(taken(Profile::Domain) > 5_000);
}

/// Marks of Balinese and Ahom whose direction Unicode has corrected. They are refused only in a name from right to
/// left, where nobody writes them.
const LOST: [char; 4] = ['\u{1B3A}', '\u{1B3C}', '\u{1B42}', '\u{1171E}'];

/// The marks of `LOST`, and two spellings that lead to another name. U+0295 is no longer a cased letter, so `ΣʕΣ` ends
/// in another sigma. UTS #46 maps a capital sharp s to a small one, and no longer to `ss`.
const SPELLED: [(Profile, char); 7] = [
    (Profile::Username, '\u{295}'),
    (Profile::Username, LOST[0]),
    (Profile::Username, LOST[1]),
    (Profile::Username, LOST[2]),
    (Profile::Domain, 'ẞ'),
    (Profile::Email, 'ẞ'),
    (Profile::Username, LOST[3]),
];

/// The code points with another result in the newer version, in some context. `lost` has those whose canonical form
/// from the older version is no longer canonical.
struct Changes {
    spelled: Vec<(Profile, char)>,
    lost: Vec<(Profile, char)>,
}

fn changes() -> Changes {
    let mut changes = Changes { spelled: Vec::new(), lost: Vec::new() };
    // All planes except those for private use.
    for c in ('\0'..'\u{F0000}').filter(|c| Older::is_assigned(*c)) {
        for profile in FOLDING {
            let older = frames(profile, c).into_iter().filter_map(|text| {
                let older = profile.canonical_with::<Older>(&text).ok()?.into_owned();
                Some((text, older))
            });
            let (mut spelled, mut lost) = (false, false);
            for (text, older) in older {
                lost |= profile.canonical(&older).as_deref() != Ok(&*older);
                spelled |= profile.canonical(&text).as_deref() != Ok(&*older);
            }
            changes.spelled.extend(spelled.then_some((profile, c)));
            changes.lost.extend(lost.then_some((profile, c)));
        }
    }
    changes
}

#[test]
fn names_of_the_older_version_keep_their_canonical_form() {
    let changes = changes();
    let hex = |found: &[(Profile, char)]| -> String { found.iter().map(|(p, c)| format!("{p} {c:X?} ")).collect() };
    assert_eq!(
        changes.lost,
        LOST.map(|c| (Profile::Username, c)),
        "lost: {} {}",
        changes.lost.len(),
        hex(&changes.lost)
    );
    assert_eq!(changes.spelled, SPELLED, "spelled: {} {}", changes.spelled.len(), hex(&changes.spelled));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn names_of_many_characters_too(text in "[a-zA-Z\u{C0}-\u{24F}\u{300}-\u{36F}Α-ωА-яა-ჿא-תء-ي०-९가-힣ｦ-ﾟ\u{1E00}-\u{1FFF}.-]{1,12}") {
        for profile in FOLDING {
            if let Ok(older) = profile.canonical_with::<Older>(&text) {
                if text.contains('ẞ') && profile == Profile::Domain {
                    continue;
                }
                prop_assert_eq!(profile.canonical(&text), Ok(older));
            }
        }
    }
}
