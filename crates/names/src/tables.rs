//! The Unicode data. No other file reads it. The trait lets the upgrade test run the profiles with the tables of two
//! Unicode versions.

use std::borrow::Cow;

use icu_casemap::CaseMapper;
use icu_locale_core::LanguageIdentifier;
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{
    BidiClass, CanonicalCombiningClass, DefaultIgnorableCodePoint, GeneralCategory, HangulSyllableType, JoiningType,
    Script,
};
use icu_properties::{CodePointMapData, CodePointSetData};
use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

/// The version of Unicode, of IDNA's mapping (UTS #46) and of the confusables (UTS #39).
pub const UNICODE_VERSION: &str = icu_properties_data::unicode_tag!();

/// The properties and mappings of one Unicode version.
pub trait UnicodeTables {
    fn category(c: char) -> GeneralCategory;
    fn bidi_class(c: char) -> BidiClass;
    fn joining_type(c: char) -> JoiningType;
    fn script(c: char) -> Script;
    fn is_virama(c: char) -> bool;
    fn hangul_syllable_type(c: char) -> HangulSyllableType;
    fn is_default_ignorable(c: char) -> bool;
    fn nfc(text: &str) -> Cow<'_, str>;
    fn is_nfkc(text: &str) -> bool;
    /// Unicode's toLowerCase(), independent of language.
    fn lower_case(text: &str) -> Cow<'_, str>;
    /// Unicode's toCasefold(): full folding, independent of language.
    fn fold_case(text: &str) -> Cow<'_, str>;
    /// UTS #46's ToASCII.
    fn domain_to_ascii(domain: &str, length: DnsLength) -> Option<Cow<'_, str>>;

    fn is_assigned(c: char) -> bool {
        c.is_ascii() || Self::category(c) != GeneralCategory::Unassigned
    }
}

/// The tables that the extension uses.
pub struct Pinned;

impl UnicodeTables for Pinned {
    fn category(c: char) -> GeneralCategory {
        CodePointMapData::<GeneralCategory>::new().get(c)
    }

    fn bidi_class(c: char) -> BidiClass {
        CodePointMapData::<BidiClass>::new().get(c)
    }

    fn joining_type(c: char) -> JoiningType {
        CodePointMapData::<JoiningType>::new().get(c)
    }

    fn script(c: char) -> Script {
        CodePointMapData::<Script>::new().get(c)
    }

    fn is_virama(c: char) -> bool {
        CodePointMapData::<CanonicalCombiningClass>::new().get(c) == CanonicalCombiningClass::Virama
    }

    fn hangul_syllable_type(c: char) -> HangulSyllableType {
        CodePointMapData::<HangulSyllableType>::new().get(c)
    }

    fn is_default_ignorable(c: char) -> bool {
        CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
    }

    fn nfc(text: &str) -> Cow<'_, str> {
        ComposingNormalizerBorrowed::new_nfc().normalize(text)
    }

    fn is_nfkc(text: &str) -> bool {
        ComposingNormalizerBorrowed::new_nfkc().is_normalized(text)
    }

    fn lower_case(text: &str) -> Cow<'_, str> {
        CaseMapper::new().lowercase_to_string(text, &LanguageIdentifier::UNKNOWN)
    }

    fn fold_case(text: &str) -> Cow<'_, str> {
        CaseMapper::new().fold_string(text)
    }

    fn domain_to_ascii(domain: &str, length: DnsLength) -> Option<Cow<'_, str>> {
        // Accepts hyphens in the third and fourth position, because such domains exist. STD3 allows letters, digits and
        // hyphens.
        Uts46::new().to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, length).ok()
    }
}

/// Applies one more step to a text. It does not copy a text that the step leaves unchanged.
pub fn then<'a>(text: Cow<'a, str>, step: impl for<'x> Fn(&'x str) -> Cow<'x, str>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => step(text),
        Cow::Owned(text) => {
            let changed = match step(&text) {
                Cow::Borrowed(same) if same.len() == text.len() => None,
                other => Some(other.into_owned()),
            };
            Cow::Owned(changed.unwrap_or(text))
        }
    }
}

// The build fails unless all data has one Unicode version. tests/one_version.rs checks the crates without a version
// tag.
const _: () = {
    assert!(same(UNICODE_VERSION, icu_normalizer_data::unicode_tag!()));
    assert!(same(UNICODE_VERSION, icu_casemap_data::unicode_tag!()));
    assert!(same_number(UNICODE_VERSION, unicode_security::UNICODE_VERSION));
    let (major, minor, update) = unicode_normalization::UNICODE_VERSION;
    assert!(same_number(UNICODE_VERSION, (major as u64, minor as u64, update as u64)));
};

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Returns whether `text` is the dotted form of the numbers: `18.0.0` of (18, 0, 0).
const fn same_number(text: &str, number: (u64, u64, u64)) -> bool {
    let (text, wanted) = (text.as_bytes(), [number.0, number.1, number.2]);
    let (mut at, mut part, mut value) = (0, 0, 0);
    while at < text.len() {
        if text[at] == b'.' {
            if part == 2 || value != wanted[part] {
                return false;
            }
            part += 1;
            value = 0;
        } else {
            value = value * 10 + (text[at] - b'0') as u64;
        }
        at += 1;
    }
    part == 2 && value == wanted[2]
}
