//! Where Unicode data comes from: the only file that does. One seam, so that the test of an upgrade can run the profiles
//! with the tables of two versions.

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
pub trait Tables {
    fn category(c: char) -> GeneralCategory;
    fn bidi_class(c: char) -> BidiClass;
    fn joining_type(c: char) -> JoiningType;
    fn script(c: char) -> Script;
    fn is_virama(c: char) -> bool;
    fn hangul_syllable_type(c: char) -> HangulSyllableType;
    fn is_default_ignorable(c: char) -> bool;
    fn nfc(text: &str) -> Cow<'_, str>;
    fn is_nfkc(text: &str) -> bool;
    /// Unicode's toLowerCase(), in no particular language.
    fn lower_case(text: &str) -> Cow<'_, str>;
    /// Unicode's toCasefold(): full folding, in no particular language.
    fn fold_case(text: &str) -> Cow<'_, str>;
    /// UTS #46's ToASCII.
    fn domain_to_ascii(domain: &str, length: DnsLength) -> Option<Cow<'_, str>>;

    fn is_assigned(c: char) -> bool {
        c.is_ascii() || Self::category(c) != GeneralCategory::Unassigned
    }
}

/// The tables that the extension uses.
pub struct Pinned;

impl Tables for Pinned {
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
        // Hyphens in the third and fourth place are kept: there are such domains. STD3: letters, digits, hyphens.
        Uts46::new().to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, length).ok()
    }
}

/// A text after one more step. What the step leaves as it is is not copied.
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

// All data comes from one Unicode version, or nothing is built. The crates without such a tag: tests/one_version.rs.
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

/// Whether `text` is `18.0.0` for (18, 0, 0).
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
