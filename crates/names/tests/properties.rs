//! Properties that hold for every text.

use claims_names::{CANONICAL_BYTES, NAME_CHARS, NameFault, Profile, skeleton};
use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Generates characters that names combine, and some that they do not.
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

/// Returns the capital letter, if the profile treats it like `c` in every context.
fn capital(profile: Profile, c: char) -> char {
    let (cases, capital) = (CaseMapper::new(), CaseMapper::new().simple_uppercase(c));
    let same = match profile {
        Profile::Exact => false,
        // The lower case of a sigma depends on its position.
        Profile::Username => !matches!(c, 'σ' | 'ς') && cases.simple_lowercase(capital) == c,
        _ => cases.fold_string(capital.encode_utf8(&mut [0; 4])) == cases.fold_string(c.encode_utf8(&mut [0; 4])),
    };
    if same { capital } else { c }
}

/// Returns whether a letter has general category Lt. Unicode has assigned no new ones since 3.0.
fn is_titlecase(c: char) -> bool {
    matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' | '\u{1F88}'..='\u{1F8F}' | '\u{1F98}'..='\u{1F9F}' | '\u{1FA8}'..='\u{1FAF}')
        || matches!(c, '\u{1FBC}' | '\u{1FCC}' | '\u{1FFC}')
}

/// Returns other spellings of a name: in capitals, composed, decomposed, and in fullwidth characters where the profile
/// maps them.
fn spellings(profile: Profile, name: &str, choice: u64) -> Vec<String> {
    let nfc = |text: &str| ComposingNormalizerBorrowed::new_nfc().normalize(text).into_owned();
    let nfd = |text: &str| DecomposingNormalizerBorrowed::new_nfd().normalize(text).into_owned();
    let chosen = |index: usize| (choice >> (index % 64)) & 1 == 1;
    let mixed: String =
        name.chars().enumerate().map(|(i, c)| if chosen(i) { capital(profile, c) } else { c }).collect();
    let wide = |c: char| match u32::from(c) {
        // All but the dot, which is another character in an e-mail address and in a path.
        code @ 0x30..=0x7A if c.is_ascii_alphanumeric() => char::from_u32(code + 0xFEE0).unwrap_or(c),
        _ => c,
    };
    let mut all = vec![nfc(name), nfd(name), mixed.clone(), nfc(&mixed), nfd(&mixed)];
    if profile == Profile::Username {
        all.push(mixed.chars().map(wide).collect());
        // PRECIS refuses titlecase letters, so these are no spellings. U+1F88 is the capital of U+1F80, so they occur
        // in parts, too.
        all.retain(|spelling| !nfc(spelling).chars().any(is_titlecase));
    }
    if profile == Profile::Domain {
        all.extend([name.replace('.', "\u{3002}"), mixed.chars().map(wide).collect()]);
        // A dot behind a dot, or behind ignored characters that follow a dot, would be a second one.
        let bare = name.ends_with(|last: char| last.is_ascii_alphanumeric());
        all.extend(bare.then(|| format!("{name}.")));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No text causes a panic, an empty result or one beyond the limits, and a canonical form is its own canonical
    /// form.
    #[test]
    fn idempotent_and_within_limits((profile, input) in for_profile()) {
        if let Ok(canonical) = profile.canonical(&input) {
            prop_assert!(!canonical.is_empty());
            prop_assert!(canonical.len() <= CANONICAL_BYTES && canonical.chars().count() <= NAME_CHARS);
            let again = profile.canonical(&canonical);
            prop_assert_eq!(again.as_deref(), Ok(&*canonical), "{} {:?}", profile, input);
        }
    }

    /// All spellings of a name have one canonical form: those of the input, and those of its canonical form.
    #[test]
    fn stable_under_all_spellings((profile, input) in for_profile(), choice: u64) {
        prop_assume!(profile != Profile::Exact);
        if let Ok(canonical) = profile.canonical(&input) {
            for spelling in spellings(profile, &input, 0).into_iter().chain(spellings(profile, &canonical, choice)) {
                let found = profile.canonical(&spelling);
                prop_assert_eq!(found.as_deref(), Ok(&*canonical), "{} {:?} {:?}", profile, input, spelling);
            }
        }
    }

    /// The position of a problem refers to the input.
    #[test]
    fn problems_have_a_position_in_the_input((profile, input) in for_profile()) {
        if let Err(problem) = profile.canonical(&input) {
            if let claims_names::NamePart::Character { code_point, position } = problem.place {
                prop_assert_eq!(input.chars().nth(position - 1), Some(code_point), "{} {:?} {}", profile, input, problem);
            }
            prop_assert!(!problem.to_string().is_empty());
        }
    }

    /// Every text has a skeleton, and all spellings of a text have one skeleton.
    #[test]
    fn skeletons(text in text()) {
        let found = skeleton(&text);
        prop_assert_eq!(&skeleton(&DecomposingNormalizerBorrowed::new_nfd().normalize(&text)), &found);
        // The skeleton is the library's.
        prop_assert_eq!(&unicode_security::skeleton(&text).collect::<String>(), &found);
        for profile in Profile::ALL {
            if let Ok(canonical) = profile.canonical(&text) {
                profile.skeleton(&canonical);
            }
        }
    }

    /// Tests names at the limits of length.
    #[test]
    fn long_names(one in piece(), times in 300_usize..1100, profile in select(Profile::ALL.to_vec())) {
        let input = one.repeat(times);
        let chars = input.chars().count();
        match profile.canonical(&input) {
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

/// One character becomes at most three characters, and one byte at most three bytes.
#[test]
fn growth_is_bounded_and_said() {
    let (mut chars, mut bytes) = (0, 0.0_f64);
    for c in '\0'..=char::MAX {
        let input = c.to_string();
        for profile in [Profile::Casefold, Profile::Username, Profile::Path] {
            if let Ok(canonical) = profile.canonical(&input) {
                chars = chars.max(canonical.chars().count());
                bytes = bytes.max(canonical.len() as f64 / input.len() as f64);
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

/// Three-byte characters reach the limit at 866, under every profile that accepts them.
#[test]
fn bytes_are_limited_too() {
    for profile in [Profile::Exact, Profile::Casefold, Profile::Username, Profile::Path] {
        assert!(profile.canonical(&"한".repeat(866)).is_ok());
        let problem = profile.canonical(&"한".repeat(867)).expect_err("too long");
        assert_eq!(problem.reason, NameFault::CanonicalTooManyBytes { got: 2601, limit: CANONICAL_BYTES });
        assert!(problem.is_length());
    }
}

/// Tests every code point alone and between letters. proptest would try only a few.
#[test]
fn every_code_point_is_idempotent_and_stable() {
    // A sample of the planes of ideographs and of private use, which are all alike.
    for c in ('\0'..=char::MAX).filter(|c| *c < '\u{1F000}' || u32::from(*c).is_multiple_of(32)) {
        for input in [format!("{c}"), format!("a{c}b"), format!("Α{c}\u{345}\u{301}"), format!("a@{c}.com")] {
            for profile in Profile::ALL {
                let Ok(canonical) = profile.canonical(&input) else { continue };
                assert_eq!(profile.canonical(&canonical).as_deref(), Ok(&*canonical), "{profile} {input:?}");
                if profile == Profile::Exact {
                    continue;
                }
                for spelling in spellings(profile, &input, 0) {
                    assert_eq!(profile.canonical(&spelling).as_deref(), Ok(&*canonical), "{profile} {spelling:?}");
                }
            }
        }
    }
}
