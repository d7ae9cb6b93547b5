//! What holds for every text.

use claims_names::{CANONICAL_BYTES, NAME_CHARS, NameFault, Profile, skeleton};
use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Characters that meet in names, and those that do not.
fn piece() -> impl Strategy<Value = String> {
    let pool = "[a-zA-Z0-9._-]|[\u{C0}-\u{24F}]|[\u{300}-\u{36F}]|[\u{370}-\u{3FF}\u{1F00}-\u{1FFF}]|[А-ё]|[א-ת]|[ء-ٓ٠-٩۰-۹]\
        |[क-ॐ]|[ぁ-ヿ]|[一-三]|[가-힣]|[\u{1100}-\u{11FF}]|[\u{FF01}-\u{FFDC}]|[\u{200B}-\u{200F}]|[\u{B7}\u{375}\u{5F3}\u{30FB}/@ ]\
        |[Ꭰ-ᏽꭰ-ꮿ]|[\u{10400}-\u{1044F}]|[ßẞıİſΣςσǅǰΐ\u{345}\u{37E}\u{212A}\u{212B}]";
    prop_oneof![8 => pool, 1 => any::<char>().prop_map(String::from), 1 => Just("xn--".to_owned())]
}

fn text() -> impl Strategy<Value = String> {
    vec(piece(), 1..12).prop_map(|pieces| pieces.concat())
}

fn domain_like() -> impl Strategy<Value = String> {
    vec(vec(piece(), 1..5).prop_map(|pieces| pieces.concat()), 1..4).prop_map(|labels| labels.join("."))
}

fn for_profile() -> impl Strategy<Value = (Profile, String)> {
    let email = (text(), domain_like()).prop_map(|(local, domain)| format!("{local}@{domain}"));
    let path = vec(text(), 1..4).prop_map(|segments| segments.join("/"));
    prop_oneof![
        2 => (select(Profile::ALL.to_vec()), text()),
        1 => domain_like().prop_map(|text| (Profile::Domain, text)),
        1 => email.prop_map(|text| (Profile::Email, text)),
        1 => path.prop_map(|text| (Profile::Path, text)),
    ]
}

/// One character in capitals, where that is the same letter to the profile whatever is beside it.
fn capital(profile: Profile, c: char) -> char {
    let (cases, capital) = (CaseMapper::new(), CaseMapper::new().simple_uppercase(c));
    let same = match profile {
        Profile::Exact => false,
        // What a sigma becomes depends on its place.
        Profile::Username => !matches!(c, 'σ' | 'ς') && cases.simple_lowercase(capital) == c,
        _ => cases.fold_string(capital.encode_utf8(&mut [0; 4])) == cases.fold_string(c.encode_utf8(&mut [0; 4])),
    };
    if same { capital } else { c }
}

/// The letters of general category Lt, which has had no new ones since Unicode 3.0.
fn is_titlecase(c: char) -> bool {
    matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' | '\u{1F88}'..='\u{1F8F}' | '\u{1F98}'..='\u{1F9F}' | '\u{1FA8}'..='\u{1FAF}')
        || matches!(c, '\u{1FBC}' | '\u{1FCC}' | '\u{1FFC}')
}

/// Other spellings of a name: in capitals, composed, decomposed, and as fullwidth characters where that counts.
fn spellings(profile: Profile, name: &str, choice: u64) -> Vec<String> {
    let nfc = |text: &str| ComposingNormalizerBorrowed::new_nfc().normalize(text).into_owned();
    let nfd = |text: &str| DecomposingNormalizerBorrowed::new_nfd().normalize(text).into_owned();
    let chosen = |index: usize| (choice >> (index % 64)) & 1 == 1;
    let mixed: String =
        name.chars().enumerate().map(|(i, c)| if chosen(i) { capital(profile, c) } else { c }).collect();
    let wide = |c: char| match u32::from(c) {
        // All but the dot: in an e-mail address and in a path it would be another character.
        code @ 0x30..=0x7A if c.is_ascii_alphanumeric() => char::from_u32(code + 0xFEE0).unwrap_or(c),
        _ => c,
    };
    let mut all = vec![nfc(name), nfd(name), mixed.clone(), nfc(&mixed), nfd(&mixed)];
    if profile == Profile::Username {
        all.push(mixed.chars().map(wide).collect());
        // PRECIS allows none, so it is no spelling of anything, also in parts: U+1F88 is the capital of U+1F80.
        all.retain(|spelling| !nfc(spelling).chars().any(is_titlecase));
    }
    if profile == Profile::Domain {
        all.extend([name.replace('.', "\u{3002}"), mixed.chars().map(wide).collect()]);
        // Behind a dot, or behind what is ignored behind a dot, it would be a second one.
        let bare = name.ends_with(|last: char| last.is_ascii_alphanumeric());
        all.extend(bare.then(|| format!("{name}.")));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No panic on any text, nothing empty, nothing beyond the limits, and the canonical form is its own.
    #[test]
    fn idempotent_and_within_limits((profile, given) in for_profile()) {
        if let Ok(canonical) = profile.canonical(&given) {
            prop_assert!(!canonical.is_empty());
            prop_assert!(canonical.len() <= CANONICAL_BYTES && canonical.chars().count() <= NAME_CHARS);
            let again = profile.canonical(&canonical);
            prop_assert_eq!(again.as_deref(), Ok(&*canonical), "{} {:?}", profile, given);
        }
    }

    /// All spellings of a name are one name: those of the name as given, and those of its canonical form.
    #[test]
    fn stable_under_all_spellings((profile, given) in for_profile(), choice: u64) {
        prop_assume!(profile != Profile::Exact);
        if let Ok(canonical) = profile.canonical(&given) {
            for spelling in spellings(profile, &given, 0).into_iter().chain(spellings(profile, &canonical, choice)) {
                let found = profile.canonical(&spelling);
                prop_assert_eq!(found.as_deref(), Ok(&*canonical), "{} {:?} {:?}", profile, given, spelling);
            }
        }
    }

    /// A problem's place is in the name as it was given.
    #[test]
    fn problems_have_a_place_in_what_was_given((profile, given) in for_profile()) {
        if let Err(problem) = profile.canonical(&given) {
            if let claims_names::NamePart::Character { code_point, position } = problem.place {
                prop_assert_eq!(given.chars().nth(position - 1), Some(code_point), "{} {:?} {}", profile, given, problem);
            }
            prop_assert!(!problem.to_string().is_empty());
        }
    }

    /// Skeletons: of any text, stable, and the same for all spellings.
    #[test]
    fn skeletons(text in text()) {
        let found = skeleton(&text);
        prop_assert_eq!(&skeleton(&DecomposingNormalizerBorrowed::new_nfd().normalize(&text)), &found);
        // What the packed tables say is what the library says.
        prop_assert_eq!(&unicode_security::skeleton(&text).collect::<String>(), &found);
        for profile in Profile::ALL {
            if let Ok(canonical) = profile.canonical(&text) {
                profile.skeleton(&canonical);
            }
        }
    }

    /// Names so long that the limits matter.
    #[test]
    fn long_names(one in piece(), times in 300_usize..1100, profile in select(Profile::ALL.to_vec())) {
        let given = one.repeat(times);
        let chars = given.chars().count();
        match profile.canonical(&given) {
            Ok(canonical) => {
                prop_assert!(chars <= NAME_CHARS);
                prop_assert!(canonical.len() <= CANONICAL_BYTES && canonical.chars().count() <= NAME_CHARS);
            }
            Err(problem) => prop_assert_eq!(
                chars > NAME_CHARS,
                problem.reason == NameFault::TooManyChars { got: chars, limit: NAME_CHARS }
            ),
        }
    }
}

#[test]
fn skeletons_of_every_code_point_are_the_librarys() {
    for c in '\0'..=char::MAX {
        for text in [format!("{c}"), format!("a{c}\u{301}")] {
            assert_eq!(skeleton(&text), unicode_security::skeleton(&text).collect::<String>(), "{text:?}");
        }
    }
}

/// One character can become three, and no more; so much longer may a canonical form be than the name as given.
#[test]
fn growth_is_bounded_and_said() {
    let (mut chars, mut bytes) = (0, 0.0_f64);
    for c in '\0'..=char::MAX {
        let given = c.to_string();
        for profile in [Profile::Casefold, Profile::Username, Profile::Path] {
            if let Ok(canonical) = profile.canonical(&given) {
                chars = chars.max(canonical.chars().count());
                bytes = bytes.max(canonical.len() as f64 / given.len() as f64);
            }
        }
    }
    assert_eq!(chars, 3);
    assert!((bytes - 3.0).abs() < f64::EPSILON, "{bytes}");

    let fits = "ß".repeat(NAME_CHARS / 2);
    assert_eq!(Profile::Casefold.canonical(&fits).map(|name| name.chars().count()), Ok(NAME_CHARS));
    let long = "ß".repeat(NAME_CHARS / 2 + 1);
    let problem = Profile::Casefold.canonical(&long).expect_err("longer by folding");
    assert_eq!(problem.reason, NameFault::CanonicalTooManyChars { got: NAME_CHARS + 2, limit: NAME_CHARS });
    assert_eq!(problem.to_string(), "the name has 1026 characters in its canonical form, more than 1024");
    assert!(problem.is_length());
}

/// 866 characters of three bytes fit, 867 do not; under every profile that takes them.
#[test]
fn bytes_are_limited_too() {
    for profile in [Profile::Exact, Profile::Casefold, Profile::Username, Profile::Path] {
        assert!(profile.canonical(&"한".repeat(866)).is_ok());
        let problem = profile.canonical(&"한".repeat(867)).expect_err("too long");
        assert_eq!(problem.reason, NameFault::CanonicalTooManyBytes { got: 2601, limit: CANONICAL_BYTES });
        assert!(problem.is_length());
    }
}

/// Every code point by itself and between letters, of which proptest would see a few.
#[test]
fn every_code_point_is_idempotent_and_stable() {
    // Of the planes of ideographs and of private use, which are all alike, some.
    for c in ('\0'..=char::MAX).filter(|c| *c < '\u{1F000}' || u32::from(*c).is_multiple_of(32)) {
        for given in [format!("{c}"), format!("a{c}b"), format!("Α{c}\u{345}\u{301}"), format!("a@{c}.com")] {
            for profile in Profile::ALL {
                let Ok(canonical) = profile.canonical(&given) else { continue };
                assert_eq!(profile.canonical(&canonical).as_deref(), Ok(&*canonical), "{profile} {given:?}");
                if profile == Profile::Exact {
                    continue;
                }
                for spelling in spellings(profile, &given, 0) {
                    assert_eq!(profile.canonical(&spelling).as_deref(), Ok(&*canonical), "{profile} {spelling:?}");
                }
            }
        }
    }
}
